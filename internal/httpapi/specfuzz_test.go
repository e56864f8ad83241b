package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency"
)

var (
	specfuzz = flag.Int("specfuzz", 1000, "how many requests are made of the specification, after those on each side of its limits")
	seed     = flag.Uint64("seed", 0, "repeats the requests that a failure names by this seed; 0 makes new ones")
)

// fuzzing is what is known of a server by its answers.
type fuzzing struct {
	*generator
	t       *testing.T
	w       *world
	wire    *wire
	first   map[string]answer // by the scope of a key
	made    map[string]bool   // the places of the orders
	records int               // final answers under a key
	events  int               // changes of an order
	tally   map[string]int
}

// Whatever is sent to any operation of the specification, a new one's included, is answered as the specification says,
// and what was answered is what happened.
func TestEveryRequestIsAnsweredByTheContract(t *testing.T) {
	t.Parallel()
	seed := cmp.Or(*seed, uint64(time.Now().UnixNano()))
	t.Logf("repeat this with: go test ./internal/httpapi -run %s -specfuzz %d -seed %d", t.Name(), *specfuzz, seed)
	w := setup(t)
	for _, c := range coupons {
		w.coupon(c)
	}
	f := &fuzzing{
		t: t, w: w, wire: w.wire(w.front()), first: map[string]answer{}, made: map[string]bool{}, tally: map[string]int{},
		generator: &generator{source: rand.New(rand.NewPCG(seed, 0)), known: map[string][]string{}},
	}
	operations := slices.SortedFunc(slices.Values(w.server.spec.operations), func(a, b *operation) int {
		return cmp.Or(cmp.Compare(closing(a), closing(b)), cmp.Compare(a.id, b.id))
	})
	for _, name := range slices.Sorted(maps.Keys(w.server.spec.doc.Components.Examples)) {
		f.learnFrom("", w.server.spec.doc.Components.Examples[name].Value.Value)
	}
	for _, o := range operations {
		if o.policy != nil {
			f.learn("operation", o.id)
		}
	}
	for _, kind := range fault.Kinds() {
		f.learn("code", kind.String())
	}
	f.playground()
	for range 200 {
		f.learn("taskId", w.failedTask())
	}
	f.records += 200 // of the imports that made them
	var planned []*request
	for _, o := range operations {
		planned = append(planned, f.systematic(o, w.tokenFor(o))...)
	}
	for i := range len(planned) + *specfuzz {
		if i < len(planned) {
			f.send(planned[i])
			f.correct(planned[i])
		} else {
			f.random(operations)
		}
		if t.Failed() {
			t.Fatalf("after %d requests", i+1)
		}
	}
	for _, o := range operations {
		if f.tally[o.id+" 2xx"] == 0 {
			t.Errorf("%s never succeeded: teach the generator what it needs", o.id)
		}
	}
	w.wantRows(rows{orders: len(f.made), records: f.records, events: f.events})
	t.Logf("%d of them systematic; %v", len(planned), f.tally)
}

// closing is 1 for operations that end what others need alive: those are tried last.
func closing(o *operation) int {
	if strings.HasPrefix(o.id, "deactivate") || strings.HasPrefix(o.id, "revoke") {
		return 1
	}
	return 0
}

// playground is a tenant for the operators' operations to change, apart from those whose keys the test shows. It may give
// every scope. And the tenant has webhooks.
func (f *fuzzing) playground() {
	for i := range 20 {
		tenant, token := f.w.principal("playground", fmt.Sprint("principal-", i))
		p, err := f.w.server.modules.Keyring.Authenticate(f.t.Context(), token)
		f.w.must(err)
		f.learn("tenantId", tenant.String())
		f.learn("principalId", p.ID.String())
		f.learn("principal_id", p.ID.String())
		_, effect, _ := strings.Cut(f.w.effect(tenant, uuid.New(), "needs_human"), "/effects/")
		f.learn("effectId", effect)
	}
	f.learn("url", "https://hooks.example/in?from=us")
	for i := range 5 {
		id := freshKey()
		f.w.exec(fmt.Sprintf(`INSERT INTO webhook_subscriptions (tenant_id, id, name, url, event_types, created_at)
			VALUES ('%s', '%s', 'hook-%d', 'https://hooks.example/in', '{}', now())`, f.w.tenant, id, i))
		f.learn("webhookId", id)
	}
	f.w.exec(`UPDATE tenants SET operator = true WHERE name = 'playground'`)
	rows, err := f.w.connect().Query(f.t.Context(), `SELECT k.id FROM api_keys k JOIN tenants t USING (tenant_id) WHERE t.name = 'playground'`)
	f.w.must(err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	f.w.must(err)
	for _, id := range ids {
		f.learn("apiKeyId", uuid.UUID(id).String())
	}
}

// random sends a valid request, what becomes of it when it is changed, and a good one of them again.
func (f *fuzzing) random(operations []*operation) {
	o := choose(f, operations...)
	r := f.request(o, f.w.tokenFor(o), f.chance(10))
	switch {
	case f.chance(40):
		f.send(r)
		if f.chance(40) {
			again := r.copied("again", anything)
			again.body = nil // written anew: another spelling of the same
			again.framing = choose(f, counted, chunked)
			f.send(again)
		}
	case f.chance(10) && o.policy != nil && len(f.known[keyHeader]) > 0:
		r = r.copied("the key of another request", anything)
		r.set(keyHeader, choose(f, f.known[keyHeader]...))
		f.send(r)
	default:
		changed := r
		var why []string
		for range 1 + f.IntN(3)*f.IntN(2) {
			changed = f.mutate(changed)
			why = append(why, changed.why)
		}
		changed.why = strings.Join(why, ", ")
		f.send(changed)
	}
}

// correct sends, now and then, a good request under the key of one that was refused: that one must not have used it.
func (f *fuzzing) correct(r *request) {
	var keys []string
	for _, h := range r.header {
		if h.name == keyHeader {
			keys = append(keys, h.value)
		}
	}
	if _, err := idempotency.ParseKey(keys); err != nil || r.o.policy == nil || r.want != refused || !f.chance(20) {
		return
	}
	good := f.request(r.o, f.w.tokenFor(r.o), false).copied("with the key of a refused one, "+r.why, accepted)
	good.set(keyHeader, keys[0])
	f.send(good)
}

func (f *fuzzing) send(r *request) {
	f.t.Helper()
	raw, ending := f.bytes(r)
	if !wholesome(r) {
		f.wire.close()
	}
	a, err := f.wire.exchange(raw, ending)
	if !wholesome(r) {
		f.wire.close()
	}
	if isReset(err) {
		if err = f.wire.whyHungUp(raw, err); err == nil {
			f.tally["hung up"]++
			return
		}
	}
	var got *http.Request
	if err == nil {
		got, err = f.wire.verdict(raw, a)
	}
	if err == nil {
		err = expect(r, a)
	}
	if err == nil && got != nil {
		err = f.remember(got, a)
	}
	if err != nil {
		f.t.Errorf("%s, %s: %v\n%d %s\n%.3000q", r.o.id, r.why, err, a.status, a.body, raw)
	}
	f.tally[fmt.Sprintf("%s %dxx", r.o.id, a.status/100)]++
}

// ruled are members whose values the rules may refuse where the contract's schema does not: totals that overflow, scopes
// that the tenant may not give, an end in the past, a URL that leads nowhere.
var ruled = []string{"/items", "/scopes", "/expires_at", "/url", "/evidence", "/absent", "?tenant_id"}

// expect judges what was foreseen.
func expect(r *request, a answer) error {
	switch r.want {
	case anything:
	case accepted:
		if a.status < 300 || a.status == http.StatusNotFound || a.status == http.StatusConflict && !strings.HasPrefix(a.Code, "idempotency_") {
			return nil
		}
		if a.status == http.StatusUnprocessableEntity && (a.Code != "validation_failed" || len(a.Errors) == 1 && slices.Contains(ruled, a.Errors[0].Pointer)) {
			return nil // a coupon's rejection; what only the rules know
		}
		if a.status == http.StatusBadRequest && len(a.Errors) == 1 && a.Errors[0].Pointer == "?page_token" {
			return nil // another list's
		}
		return errors.New("a valid request is refused")
	case refused:
		if a.status < 400 || a.status == http.StatusConflict || a.status == http.StatusForbidden || a.status == http.StatusUnauthorized {
			return errors.New("an invalid request is not refused as one")
		}
		if a.KeyAction == newKey && !strings.HasPrefix(a.Code, "idempotency_key_") {
			return errors.New("an invalid request consumed its key")
		}
	}
	return nil
}

// remember keeps what an answer says has happened, and holds it against what was said before.
func (f *fuzzing) remember(got *http.Request, a answer) error {
	if a.header.Get("X-Request-Id") == "" || got.Method == http.MethodHead {
		return nil
	}
	_, pattern := f.w.server.routes.Handler(got)
	i := slices.IndexFunc(f.w.server.spec.operations, func(o *operation) bool { return o.pattern == pattern })
	if i < 0 {
		return nil
	}
	o := f.w.server.spec.operations[i]
	if a.status < 300 {
		f.learnAnswer(o, got, a)
	}
	final := a.header.Get("Idempotency-Key-Expires") != "" || a.status == http.StatusAccepted // a promise has no expiry yet
	replayed := a.header.Get("Idempotency-Replayed") == "true"
	if final {
		key, err := idempotency.ParseKey(got.Header.Values(keyHeader))
		if err != nil {
			return fmt.Errorf("a final answer without a key: %w", err)
		}
		f.learn(keyHeader, string(key))
		f.learn("key", string(key))
		scope := o.id + " " + string(key)
		first, seen := f.first[scope]
		switch {
		case seen != replayed:
			return fmt.Errorf("seen before: %t, but replayed: %t", seen, replayed)
		case seen && o.policy.Reference && first.status < 300 && first.status == a.status && !strings.Contains(string(a.body), `"secret"`):
			// the resource as it is now
		case seen && (string(first.body) != string(a.body) || first.status != a.status || first.header.Get("Location") != a.header.Get("Location")):
			return fmt.Errorf("the replay differs from %d %s", first.status, first.body)
		case !seen:
			f.first[scope] = a
			f.records++
		}
	}
	ofOrders := strings.HasPrefix(o.scope, "orders:")
	if replayed || a.status >= 300 || !mutating(o.route.Method) || !ofOrders {
		return nil
	}
	location := a.header.Get("Location")
	switch {
	case a.status == http.StatusAccepted: // nobody works on it here
	case a.status == http.StatusCreated && f.made[location]:
		return fmt.Errorf("made twice: %s", location)
	case a.status == http.StatusCreated:
		f.made[location] = true
		f.events++
	case o.policy != nil:
		f.events++
	case !f.made[location]:
		return fmt.Errorf("found, but never made: %s", location)
	}
	return nil
}

// learnAnswer takes in what later requests can ask for: the names they were given, the places they were told, and the
// rest of a list.
func (f *fuzzing) learnAnswer(o *operation, got *http.Request, a answer) {
	for name, value := range matched(o.route.Path, got.URL.Path) {
		f.learn(name, value)
	}
	for _, o := range f.w.server.spec.operations {
		for name, value := range matched(o.route.Path, a.header.Get("Location")) {
			f.learn(name, value)
		}
	}
	var document map[string]any
	if json.Unmarshal(a.body, &document) != nil {
		return // a page for people
	}
	for name, value := range document {
		if rest, next := strings.CutPrefix(name, "next_"); next {
			f.learnFrom(rest, value)
		}
	}
}

// matched are the parameters of a path, where it has them.
func matched(template, path string) map[string]string {
	form, parts := strings.Split(template, "/"), strings.Split(path, "/")
	if len(form) != len(parts) {
		return nil
	}
	values := map[string]string{}
	for i := range form {
		if name, is := strings.CutPrefix(form[i], "{"); is {
			values[strings.TrimSuffix(name, "}")] = parts[i]
		} else if form[i] != parts[i] {
			return nil
		}
	}
	return values
}
