package identity_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/identity"
	"orderonce/internal/identity/oidc/oidctest"
	"orderonce/internal/postgres"
)

// trusting is a fixture whose keyring trusts an issuer.
type trusting struct {
	*fixture
	issuer *oidctest.Issuer
	clock  *oidctest.Clock
}

func setupTrust(t *testing.T) *trusting {
	t.Helper()
	f := &trusting{fixture: setup(t), issuer: oidctest.New(t), clock: oidctest.NewClock()}
	f.ring.Trust(oidctest.Start(t, f.issuer.Config(f.clock)))
	return f
}

func (f *trusting) token(changes map[string]any) string {
	return f.issuer.Token(f.clock.Now(), changes)
}

func (f *fixture) count(sql string) (n int) {
	f.t.Helper()
	if err := f.watch.QueryRow(f.t.Context(), sql).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// A subject is one principal of its tenant, from the first token on and for every later one: what a client's
// idempotency keys mean must survive the refresh of its token.
func TestSubjectIsOnePrincipal(t *testing.T) {
	t.Parallel()
	f := setupTrust(t)
	globex, _ := f.put("globex", "till-1")
	first := f.authenticate(f.token(nil))
	if first.Tenant != f.tenant || first.ID == f.principal || first.Authorise(identity.OrdersCreate) != nil {
		t.Errorf("the first token: %+v", first)
	}
	f.clock.Advance(50 * time.Minute)
	refreshed := f.authenticate(f.token(map[string]any{"scope": "orders:read"}))
	if refreshed.ID != first.ID || refreshed.Tenant != first.Tenant {
		t.Errorf("the refreshed token is of %v, the first of %v", refreshed.ID, first.ID)
	}
	wantFault(t, refreshed.Authorise(identity.OrdersCreate), fault.Forbidden)
	if other := f.authenticate(f.token(map[string]any{"sub": "user-2"})); other.ID == first.ID {
		t.Error("another subject is the same principal")
	}
	elsewhere := f.authenticate(f.token(map[string]any{"tenant": "globex"}))
	if elsewhere.ID == first.ID || elsewhere.Tenant != globex {
		t.Errorf("in another tenant: %+v", elsewhere)
	}
	// A name that an operator gave is no subject, whatever the issuer calls its subjects.
	if named := f.authenticate(f.token(map[string]any{"sub": "till-1"})); named.ID == f.principal {
		t.Error("a token has become the principal of an API key")
	}
	// Another process finds what this one made.
	ring := identity.NewKeyring(f.db)
	ring.Trust(oidctest.Start(t, f.issuer.Config(f.clock)))
	if again, err := ring.Authenticate(t.Context(), f.token(nil)); err != nil || again.ID != first.ID {
		t.Errorf("another process: %v, %v", again.ID, err)
	}
}

func TestFirstRequestsOfASubjectMakeOnePrincipal(t *testing.T) {
	t.Parallel()
	f := setupTrust(t)
	const crowd = 32
	begin, ids := make(chan struct{}), make([]uuid.UUID, crowd)
	var all sync.WaitGroup
	for n := range crowd {
		text := f.token(nil)
		all.Go(func() {
			<-begin
			p, err := f.ring.Authenticate(t.Context(), text)
			if err != nil {
				t.Error(err)
			}
			ids[n] = p.ID
		})
	}
	close(begin)
	all.Wait()
	if ids = slices.Compact(ids); len(ids) != 1 {
		t.Errorf("principals %v", ids)
	}
	if n := f.count("SELECT count(*) FROM principals WHERE subject = 'user-1'"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// All that gives no access looks the same from outside, and leaves nothing behind.
func TestEveryOtherTokenIsTheSameRefusalAsAKeys(t *testing.T) {
	t.Parallel()
	f := setupTrust(t)
	f.put("closed", "till-1")
	f.exec("UPDATE tenants SET active = false WHERE name = 'closed'")
	_, keyless := setup(t).ring.Authenticate(t.Context(), "nonsense")
	before := f.count("SELECT count(*) FROM principals")
	for name, text := range map[string]string{
		"an unknown tenant":   f.token(map[string]any{"tenant": "nobody"}),
		"no name of a tenant": f.token(map[string]any{"tenant": "'; DROP TABLE principals; --"}),
		"a tenant's id":       f.token(map[string]any{"tenant": f.tenant.String()}),
		"a closed tenant":     f.token(map[string]any{"tenant": "closed"}),
		"an expired token":    f.token(map[string]any{"exp": 1}),
		"a stranger's":        oidctest.ES256(t, "first").Sign(f.issuer.Claims(f.clock.Now(), nil)),
		"a broken API key":    "oo_live_x",
		"an API key's form":   "oo_live_" + f.token(nil),
		"nothing":             "",
	} {
		p, err := f.ring.Authenticate(t.Context(), text)
		wantFault(t, err, fault.Unauthenticated)
		if fmt.Sprint(err) != fmt.Sprint(keyless) || !reflect.ValueOf(p).IsZero() {
			t.Errorf("%s: %v, %v", name, p, err)
		}
		if _, ok := f.ring.Recall(text); ok {
			t.Errorf("%s: it is remembered", name)
		}
	}
	if n := f.count("SELECT count(*) FROM principals"); n != before {
		t.Errorf("%d principals, %d before", n, before)
	}
	// Where no issuer is trusted, a token is a malformed key.
	_, err := identity.NewKeyring(f.db).Authenticate(t.Context(), f.token(nil))
	wantFault(t, err, fault.Unauthenticated)
}

// A token's scopes are this service's only; those of operators count only in a tenant of operators.
func TestUnknownScopesOfATokenSayNothing(t *testing.T) {
	t.Parallel()
	f := setupTrust(t)
	p := f.authenticate(f.token(map[string]any{"scope": "openid orders:read orders ORDERS:CREATE * ops:write"}))
	for _, scope := range append(identity.Scopes(), "openid", "orders", "*", "ops:write") {
		err := p.Authorise(scope)
		if want := scope == identity.OrdersRead; (err == nil) != want {
			t.Errorf("%s: %v", scope, err)
		}
		if err := f.confirm(p, scope, false); (err == nil) != (scope == identity.OrdersRead) {
			t.Errorf("%s is confirmed: %v", scope, err)
		}
	}
}

// A remembered token gives a principal only until its exp and while its issuer stands by its key.
func TestRecallOfATokenEndsWithIt(t *testing.T) {
	t.Parallel()
	f := setupTrust(t)
	text := f.token(nil)
	if _, ok := f.ring.Recall(text); ok {
		t.Error("a token is remembered that nobody has shown")
	}
	p := f.authenticate(text)
	if got, ok := f.ring.Recall(text); !ok || got.ID != p.ID || got.Tenant != p.Tenant || got.Authorise(identity.OrdersRead) != nil {
		t.Errorf("recalled is %+v, %v", got, ok)
	}
	if _, ok := f.ring.Recall(f.token(nil)); ok {
		t.Error("another token of the same subject is remembered")
	}
	f.clock.Advance(time.Hour)
	if _, ok := f.ring.Recall(text); ok {
		t.Error("it is remembered past its exp")
	}
	next := f.token(nil)
	f.authenticate(next)
	f.issuer.Keys(oidctest.ES256(t, "second"))
	f.authenticate(f.token(nil))
	if _, ok := f.ring.Recall(next); ok {
		t.Error("it is remembered although its key was withdrawn")
	}
	_, err := f.ring.Authenticate(t.Context(), next)
	wantFault(t, err, fault.Unauthenticated)
}

// The database of the moment decides, in the transaction that acts: promise 4 for tokens.
func TestConfirmRefusesThePrincipalOfATokenThatIsNotActive(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct{ end, restore string }{
		"principal": {"UPDATE principals SET active = false", "UPDATE principals SET active = true"},
		"tenant":    {"UPDATE tenants SET active = false", "UPDATE tenants SET active = true"},
	} {
		for path, open := range map[string]bool{"staged": false, "open": true} {
			t.Run(name+", "+path, func(t *testing.T) {
				t.Parallel()
				f := setupTrust(t)
				text := f.token(nil)
				f.authenticate(text)
				p, ok := f.ring.Recall(text)
				if !ok {
					t.Fatal("the token is not remembered")
				}
				if err := f.confirm(p, identity.OrdersCreate, open); err != nil {
					t.Fatalf("before: %v", err)
				}
				f.exec(change.end)
				if by := postgres.RefusedBy(f.confirm(p, identity.OrdersCreate, open)); by != identity.Credential {
					t.Errorf("refused by %v, want the credential", by)
				}
				_, err := f.ring.Authenticate(t.Context(), text)
				wantFault(t, err, fault.Unauthenticated)
				var ended *identity.Ended
				if !errors.As(err, &ended) || ended.Principal.ID != p.ID || ended.Principal.Tenant != p.Tenant {
					t.Errorf("%v does not tell whose access ended", err)
				}
				if _, ok := f.ring.Recall(text); ok {
					t.Error("it is still remembered")
				}
				f.exec(change.restore)
				if again := f.authenticate(text); again.ID != p.ID {
					t.Errorf("given back, it is %v", again.ID)
				}
			})
		}
	}
}

// Equal checks are one row of a shared commit; a check of a token is never one of a key, nor of another scope.
func TestTokensOfOnePrincipalAreOneCheck(t *testing.T) {
	t.Parallel()
	f := setupTrust(t)
	order := func(p identity.Principal, scope string) string {
		return p.Confirm(scope).Row.(postgres.Sharable).LockOrder()
	}
	p, refreshed := f.authenticate(f.token(nil)), f.authenticate(f.token(nil))
	reduced := f.authenticate(f.token(map[string]any{"scope": "orders:read"}))
	other := f.authenticate(f.token(map[string]any{"sub": "user-2"}))
	key := f.authenticate(f.mint(time.Time{}, identity.OrdersCreate))
	if order(p, identity.OrdersCreate) != order(refreshed, identity.OrdersCreate) {
		t.Error("two tokens make two checks")
	}
	distinct := []string{
		order(p, identity.OrdersCreate), order(p, identity.OrdersRead), order(reduced, identity.OrdersCreate),
		order(other, identity.OrdersCreate), order(key, identity.OrdersCreate),
	}
	slices.Sort(distinct)
	if len(slices.Compact(distinct)) != 5 {
		t.Errorf("different checks are one: %q", distinct)
	}
}

func TestIssuerOrDatabaseThatIsAwayIsNoRefusal(t *testing.T) {
	t.Parallel()
	f := setupTrust(t)
	text := f.token(nil)
	f.authenticate(text)
	f.issuer.Answer(oidctest.Down)
	f.clock.Advance(time.Minute)
	if _, ok := f.ring.Recall(text); !ok {
		t.Error("a remembered token needs its issuer")
	}
	_, err := f.ring.Authenticate(t.Context(), oidctest.ES256(t, "new").Sign(f.issuer.Claims(f.clock.Now(), nil)))
	wantFault(t, err, fault.Unavailable)
	f.exec("ALTER TABLE principals RENAME TO elsewhere")
	if _, err := f.ring.Authenticate(context.WithoutCancel(t.Context()), text); err == nil || fault.KindOf(err) == fault.Unauthenticated {
		t.Errorf("error %v: the client would throw a good token away", err)
	}
}
