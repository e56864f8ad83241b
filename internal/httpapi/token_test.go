package httpapi

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"orderonce/internal/identity/oidc/oidctest"
)

// trusting is a world whose server trusts an issuer's tokens beside its API keys.
type trusting struct {
	*world
	issuer *oidctest.Issuer
	clock  *oidctest.Clock
}

func setupTrust(t *testing.T) *trusting {
	t.Helper()
	w := &trusting{world: setup(t), issuer: oidctest.New(t), clock: oidctest.NewClock()}
	w.trust()
	return w
}

// trust begins without any of the issuer's keys.
func (w *trusting) trust() {
	w.t.Helper()
	w.server.modules.Keyring.Trust(oidctest.Start(w.t, w.issuer.Config(w.clock)))
}

// jwt is a token of user-1 in tenant acme, but for the changes.
func (w *trusting) jwt(changes map[string]any) string {
	return w.issuer.Token(w.clock.Now(), changes)
}

// A client that refreshed its token between the tries of one intent is the same caller: it gets its first answer.
func TestRefreshedTokenGetsTheReplay(t *testing.T) {
	t.Parallel()
	w := setupTrust(t)
	key := freshKey()
	first := w.place(key, order(), as(w.jwt(nil)))
	wantCreated(t, first, "false")
	w.clock.Advance(2 * time.Hour)
	refreshed := w.jwt(nil)
	wantReplay(t, first, w.place(key, order(), as(refreshed)))
	wantReplay(t, first, w.place(key, order(), as(refreshed))) // and from memory
	w.wantRows(rows{1, 1, 1})
	// The key is the subject's own: to another subject, and to an API key of the same tenant, it is free.
	wantCreated(t, w.place(key, order(), as(w.jwt(map[string]any{"sub": "user-2"}))), "false")
	wantCreated(t, w.place(key, order()), "false")
	w.wantRows(rows{3, 3, 3})
}

func TestTokenMayDoWhatItsScopesSay(t *testing.T) {
	t.Parallel()
	w := setupTrust(t)
	w.principal("globex", "shop")
	placed := w.place(freshKey(), order(), as(w.jwt(nil)))
	path := placed.header.Get("Location")
	reads := w.jwt(map[string]any{"scope": []string{"openid", "orders:read"}})
	if a := w.get(path, as(reads)); a.status != http.StatusOK {
		t.Errorf("read: %d %s", a.status, a.body)
	}
	wantProblem(t, w.place(freshKey(), order(), as(reads)), 403, "forbidden")
	wantProblem(t, w.get(path, as(w.jwt(map[string]any{"scope": nil}))), 403, "forbidden")
	wantProblem(t, w.get(path, as(w.jwt(map[string]any{"tenant": "globex"}))), 404, "not_found")
}

// Whatever gives no access gives the one answer that a bad API key gets, before anything else is judged.
func TestRefusedTokensLookLikeRefusedKeys(t *testing.T) {
	t.Parallel()
	w := setupTrust(t)
	wantCreated(t, w.place(freshKey(), order(), as(w.jwt(nil))), "false")
	before := w.rows()
	good := w.jwt(nil)
	hide := func(a answer) string { return strings.ReplaceAll(string(a.body), a.RequestID, "") }
	want := hide(w.place(freshKey(), order(), as(w.token[:len(w.token)-1]+"7")))
	for name, text := range map[string]string{
		"none":              oidctest.Join(`{"alg":"none","kid":"first"}`, "{}", func(string) []byte { return nil }),
		"HS256":             oidctest.Join(`{"alg":"HS256","kid":"first"}`, "{}", func(string) []byte { return make([]byte, 32) }),
		"tampered":          good[:len(good)-10] + "AAAAAAAAAA",
		"a stranger's":      oidctest.ES256(t, "first").Sign(w.issuer.Claims(w.clock.Now(), nil)),
		"an unknown key":    oidctest.ES256(t, "other").Sign(w.issuer.Claims(w.clock.Now(), nil)),
		"another audience":  w.jwt(map[string]any{"aud": "https://payments.example"}),
		"another issuer":    w.jwt(map[string]any{"iss": "https://elsewhere.example"}),
		"expired":           w.jwt(map[string]any{"exp": w.clock.Now().Add(-time.Minute).Unix()}),
		"not valid yet":     w.jwt(map[string]any{"nbf": w.clock.Now().Add(time.Minute).Unix()}),
		"an unknown tenant": w.jwt(map[string]any{"tenant": "nobody"}),
		"no tenant":         w.jwt(map[string]any{"tenant": nil}),
		"too long":          strings.Repeat("x", 9<<10),
	} {
		for _, body := range []string{order(), "{"} {
			a := w.place(freshKey(), body, as(text))
			wantProblem(t, a, 401, "unauthenticated")
			if hide(a) != want || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s can be told apart:\n%s\n%s", name, a.body, want)
			}
		}
	}
	for _, header := range [][]string{
		{"Bearer " + good, "Bearer " + w.token}, {"Bearer " + good + ", Bearer " + w.token}, {"Bearer " + good + " " + w.token},
	} {
		wantProblem(t, w.place(freshKey(), order(), with("Authorization", header...)), 401, "unauthenticated")
	}
	w.wantRows(before)
}

// A principal or tenant that was switched off is refused from the next request on, replays included, though its token
// is good for an hour still.
func TestRevokedPrincipalOfATokenGetsNoReplay(t *testing.T) {
	t.Parallel()
	w := setupTrust(t)
	key, token := freshKey(), w.jwt(nil)
	first := w.place(key, order(), as(token))
	wantReplay(t, first, w.place(key, order(), as(token)))
	for name, change := range map[string]struct{ revoke, restore string }{
		"principal inactive": {`UPDATE principals SET active = false`, `UPDATE principals SET active = true`},
		"tenant inactive":    {`UPDATE tenants SET active = false`, `UPDATE tenants SET active = true`},
	} {
		w.exec(change.revoke)
		for _, text := range []string{token, w.jwt(nil)} { // remembered, and seen for the first time
			a := w.place(key, order(), as(text))
			wantProblem(t, a, 403, "replay_forbidden")
			if strings.Contains(string(a.body), "customer-1") {
				t.Errorf("%s: %s", name, a.body)
			}
			wantProblem(t, w.place(freshKey(), order(), as(text)), 401, "unauthenticated")
			wantProblem(t, w.get(first.header.Get("Location"), as(text)), 401, "unauthenticated")
		}
		w.exec(change.restore)
		wantReplay(t, first, w.place(key, order(), as(token)))
	}
	wantProblem(t, w.place(key, order(), as(w.jwt(map[string]any{"scope": "orders:read"}))), 403, "replay_forbidden")
	// A token that merely ran out says nothing about its owner's rights: its client is to bring a fresh one.
	w.clock.Advance(2 * time.Hour)
	wantProblem(t, w.place(key, order(), as(token)), 401, "unauthenticated")
	wantReplay(t, first, w.place(key, order(), as(w.jwt(nil))))
	w.wantRows(rows{1, 1, 1})
}

// The issuer may be away: whoever is known goes on, API keys too, and a token that cannot be judged is neither
// accepted nor refused.
func TestIssuersOutageIsNotTheClientsFault(t *testing.T) {
	t.Parallel()
	w := &trusting{world: setup(t), issuer: oidctest.New(t), clock: oidctest.NewClock()}
	w.issuer.Answer(oidctest.Down)
	w.trust()
	key, token := freshKey(), w.jwt(nil)
	a := w.place(key, order(), as(token))
	wantProblem(t, a, 503, "unavailable")
	if a.header.Get("Retry-After") == "" || !a.Retryable || a.KeyAction != keepKey {
		t.Errorf("the client is not told to come back: %s", a.body)
	}
	wantCreated(t, w.place(freshKey(), order()), "false")
	w.issuer.Answer(nil)
	w.clock.Advance(5 * time.Second)
	first := w.place(key, order(), as(token))
	wantCreated(t, first, "false")

	w.issuer.Answer(oidctest.Down)
	w.clock.Advance(time.Minute)
	wantReplay(t, first, w.place(key, order(), as(w.jwt(nil))))
	w.issuer.Keys(oidctest.EdDSA(t, "second"))
	wantProblem(t, w.place(key, order(), as(w.jwt(nil))), 503, "unavailable")
	w.issuer.Answer(nil)
	w.clock.Advance(time.Minute)
	wantReplay(t, first, w.place(key, order(), as(w.jwt(nil))))
	wantProblem(t, w.place(key, order(), as(token)), 401, "unauthenticated") // its key went with the rotation
}

// Many first requests of a subject nobody knows, each with a token of its own, are one principal and one order.
func TestFirstSightOfASubjectIsOneOrder(t *testing.T) {
	t.Parallel()
	w := setupTrust(t)
	const crowd = 32
	key, body := freshKey(), order()
	begin := make(chan struct{})
	answers := make([]answer, crowd)
	var all sync.WaitGroup
	for n := range crowd {
		token := w.jwt(nil)
		all.Go(func() {
			<-begin
			var err error
			answers[n], err = w.try(http.MethodPost, "/orders", strings.NewReader(body),
				with("Content-Type", "application/json"), with(keyHeader, key), as(token))
			if err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	all.Wait()
	created := 0
	for _, a := range answers {
		if a.status != http.StatusCreated {
			t.Errorf("%d %s", a.status, a.body)
		}
		if a.header.Get("Idempotency-Replayed") == "false" {
			created++
		}
	}
	if created != 1 {
		t.Errorf("%d answers say that they are the first", created)
	}
	w.wantRows(rows{1, 1, 1})
}
