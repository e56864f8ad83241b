package httpapi

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"orderonce/internal/fault"
	"orderonce/internal/identity"
)

// clock stands still until a test moves it.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time        { return time.UnixMilli(1_700_000_000_000 + c.ms.Load()) }
func (c *clock) move(by time.Duration) { c.ms.Add(by.Milliseconds()) }

// setupLimited is a server whose tenants' buckets fill by the clock that it returns.
func setupLimited(t *testing.T, perSecond float64, burst int) (*world, *clock) {
	t.Helper()
	config := defaultConfig()
	config.TenantRate, config.TenantBurst = perSecond, burst
	w := setupWith(t, config)
	var c clock
	w.server.allowance.now = c.now
	return w, &c
}

// What is past a tenant's rate is told when to come back, and has happened in no way: the same request with the same
// key is then the first.
func TestRateLimitedRequestMayKeepItsKey(t *testing.T) {
	t.Parallel()
	w, clock := setupLimited(t, 0.5, 3)
	for range 3 {
		wantCreated(t, w.place(freshKey(), order()), "false")
	}
	key := freshKey()
	for range 3 { // to be refused costs nothing: the pause does not grow
		refused := w.place(key, order())
		wantProblem(t, refused, 429, "rate_limited")
		if refused.header.Get("Retry-After") != "2" || refused.RetryAfterMS != 2000 || !refused.Retryable || refused.KeyAction != keepKey ||
			refused.header.Get("X-Should-Retry") != "true" || refused.header.Get("Idempotency-Replayed") != "false" {
			t.Errorf("got %v %s", refused.header, refused.body)
		}
	}
	w.wantRows(rows{3, 3, 3})
	clock.move(1999 * time.Millisecond)
	almost := w.place(key, order())
	if wantProblem(t, almost, 429, "rate_limited"); almost.RetryAfterMS != 1 || almost.header.Get("Retry-After") != "1" {
		t.Errorf("got %v %s", almost.header, almost.body)
	}
	clock.move(time.Millisecond)
	wantCreated(t, w.place(key, order()), "false")
	clock.move(2 * time.Second)
	wantCreated(t, w.place(key, order()), "true")
	w.wantRows(rows{4, 4, 4})
}

// One tenant's storm takes nothing from another, and nothing from health and documents.
func TestRateIsEachTenantsOwn(t *testing.T) {
	t.Parallel()
	const burst, requests = 5, 40
	w, _ := setupLimited(t, 0.001, burst)
	_, second := w.principal("acme", "second", identity.OrdersRead)
	_, stranger := w.principal("globex", "shop", identity.TenantScopes()...)
	answers := storm(t, requests, func(int) (answer, error) { return w.tryPlace(freshKey(), order()) })
	let := 0
	for _, a := range answers {
		switch a.status {
		case http.StatusCreated:
			let++
		case http.StatusTooManyRequests:
		default:
			t.Errorf("got %d %s", a.status, a.body)
		}
	}
	if let != burst {
		t.Errorf("%d of %d were let in, want %d", let, requests, burst)
	}
	wantProblem(t, w.get("/orders"), 429, "rate_limited")
	wantProblem(t, w.get("/orders", as(second)), 429, "rate_limited") // the rate is the tenant's, not a key's
	for range burst {
		if a := w.get("/orders", as(stranger)); a.status != http.StatusOK {
			t.Errorf("another tenant: %d %s", a.status, a.body)
		}
	}
	wantProblem(t, w.get("/orders", as(stranger)), 429, "rate_limited")
	for range 2 * burst {
		for _, path := range []string{"/livez", "/readyz", "/openapi.yaml", "/problems/rate_limited"} {
			if a := w.get(path); a.status != http.StatusOK {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
	}
	w.wantRows(rows{burst, burst, burst})
}

// The rate stands behind the question who asks and before all that is asked of the request.
func TestRateIsTakenOfTheKnownTenant(t *testing.T) {
	t.Parallel()
	w, _ := setupLimited(t, 0.001, 2)
	_, powerless := w.principal("acme", "powerless")
	for range 5 { // who is not known has no tenant to count for
		wantProblem(t, w.place(freshKey(), order(), as("x")), 401, "unauthenticated")
		wantProblem(t, w.place(freshKey(), order(), as(w.token[:len(w.token)-1]+"7")), 401, "unauthenticated")
		wantProblem(t, w.get("/nowhere"), 404, "not_found")
		wantProblem(t, w.send(http.MethodDelete, "/orders", nil), 405, "method_not_allowed")
	}
	wantProblem(t, w.get("/orders", as(powerless)), 403, "forbidden") // counts
	wantProblem(t, w.place("", "{"), 400, "idempotency_key_missing")  // counts
	for _, key := range []string{"", "short", freshKey()} {
		wantProblem(t, w.place(key, "{"), 429, "rate_limited")
	}
	wantProblem(t, w.get("/orders", as(powerless)), 429, "rate_limited")
	wantProblem(t, w.place(freshKey(), order(), as("x")), 401, "unauthenticated")
	w.wantRows(rows{})
}

// A refusal's pause is the bucket's own, up to the rounding to milliseconds, and a refusal takes nothing: no number of
// them delays the next request that is let in.
func TestPauseIsTrueToTheBucket(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		perSecond := rapid.OneOf(rapid.Float64Range(0.001, 1), rapid.Float64Range(1, 1e6)).Draw(t, "rate")
		a, now := newAllowance(perSecond, rapid.IntRange(0, 20).Draw(t, "burst")), time.Now()
		a.now = func() time.Time { return now }
		tenant := uuid.Must(uuid.NewV7())
		pause := func() time.Duration { // 0 where the request is let in
			err := a.take(tenant)
			if err == nil {
				return 0
			}
			f, _ := asFault(err)
			if f.Kind != fault.RateLimited || f.RetryAfter <= 0 || f.RetryAfter%time.Millisecond != 0 {
				t.Fatalf("refused with %v, pause %v", err, f.RetryAfter)
			}
			return f.RetryAfter
		}
		for i := range a.burst {
			if pause() != 0 {
				t.Fatalf("%d of a burst of %d let in", i, a.burst)
			}
		}
		for range rapid.IntRange(1, 10).Draw(t, "refusals") {
			now = now.Add(time.Duration(rapid.Float64Range(0, 0.09).Draw(t, "part of a token") / perSecond * float64(time.Second)))
			told, then := pause(), now
			if told == 0 || pause() != told {
				t.Fatalf("told to wait %v, and asked again at once %v", told, pause())
			}
			now = then.Add(told - time.Millisecond - time.Microsecond)
			if now.After(then) && pause() == 0 {
				t.Fatalf("told to wait %v, but let in before", told)
			}
			now = then
		}
		told := pause()
		now = now.Add(told)
		if pause() != 0 {
			t.Fatalf("told to wait %v, and still refused after it", told)
		}
	})
}

// Past the rate nothing is looked up: a limit that cost what it bounds would be none.
func TestRefusalByRateAsksNoDatabase(t *testing.T) {
	t.Parallel()
	w, _ := setupLimited(t, 0.001, 1)
	wantCreated(t, w.place(freshKey(), order()), "false")
	before := w.db.Stat().AcquireCount()
	for range 10 {
		wantProblem(t, w.place(freshKey(), order()), 429, "rate_limited")
	}
	if n := w.db.Stat().AcquireCount() - before; n != 0 {
		t.Errorf("%d connections were taken", n)
	}
}

// A revoked key is remembered until it is shown again, and then it is a stranger's: it cannot use up its tenant's rate.
func TestRevokedKeyTakesOneTokenAtMost(t *testing.T) {
	t.Parallel()
	w, clock := setupLimited(t, 1, 1)
	_, other := w.principal("acme", "other", identity.OrdersRead)
	wantCreated(t, w.place(freshKey(), order()), "false")
	w.exec(`UPDATE api_keys SET revoked_at = now() FROM principals p WHERE p.id = principal_id AND p.name = 'shop'`)
	clock.move(time.Second)
	wantProblem(t, w.place(freshKey(), order()), 401, "unauthenticated")
	clock.move(time.Second)
	for range 5 {
		wantProblem(t, w.place(freshKey(), order()), 401, "unauthenticated")
	}
	if a := w.get("/orders", as(other)); a.status != http.StatusOK {
		t.Errorf("the tenant's other key: %d %s", a.status, a.body)
	}
	w.wantRows(rows{1, 1, 1})
}

// Without a rate nobody is counted, and with one the memory is bounded: the tenant that was idle longest is forgotten.
func TestAllowanceForgetsTheIdle(t *testing.T) {
	t.Parallel()
	free := newAllowance(0, 0)
	for range 1000 {
		if err := free.take(uuid.Nil); err != nil || free.buckets.Len() != 0 {
			t.Fatalf("no limit: %v, %d buckets", err, free.buckets.Len())
		}
	}
	a := newAllowance(1, 1)
	now := time.Now()
	a.now = func() time.Time { return now }
	busy := uuid.Must(uuid.NewV7())
	for i := range 2 * bucketsKept {
		if err := a.take(busy); (err == nil) != (i == 0) {
			t.Fatalf("request %d of a tenant that never rests: %v", i, err)
		}
		if err := a.take(uuid.NewSHA1(uuid.Nil, []byte(strconv.Itoa(i)))); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.buckets.Len(); n != bucketsKept {
		t.Errorf("%d buckets are kept, want %d", n, bucketsKept)
	}
}

// Where a burst is not said it is what the rate gives in a second, and never nothing.
func TestBurstFollowsTheRate(t *testing.T) {
	t.Parallel()
	for perSecond, want := range map[float64]int{0.001: 1, 1: 1, 1.5: 2, 250: 250} {
		if a := newAllowance(perSecond, 0); a.burst != want || a.rate != rate.Limit(perSecond) {
			t.Errorf("at %v per second: %d", perSecond, a.burst)
		}
	}
	if a := newAllowance(250, 3); a.burst != 3 {
		t.Errorf("a burst that is said: %d", a.burst)
	}
}
