package identity_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

func TestLiveKeyTellsWhoAsksAndWhatForIt(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for name, expiry := range map[string]time.Time{"for ever": {}, "for an hour": time.Now().Add(time.Hour)} {
		text := f.mint(expiry, identity.OrdersRead)
		p := f.authenticate(text)
		if p.Tenant != f.tenant || p.ID != f.principal {
			t.Errorf("%s: tenant %v and principal %v, want %v and %v", name, p.Tenant, p.ID, f.tenant, f.principal)
		}
		if err := p.Authorise(identity.OrdersRead); err != nil {
			t.Errorf("%s: its own scope: %v", name, err)
		}
		for _, scope := range []string{identity.OrdersCreate, "orders", "orders:", "", "ORDERS:READ"} {
			wantFault(t, p.Authorise(scope), fault.Forbidden)
		}
	}
}

// A key without scopes says who asks and may do nothing.
func TestKeyWithoutScopesMayDoNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p := f.authenticate(f.mint(time.Time{}))
	for _, scope := range identity.Scopes() {
		wantFault(t, p.Authorise(scope), fault.Forbidden)
	}
}

// All that gives no access looks the same from outside: nobody learns which keys exist.
func TestEveryOtherKeyIsTheSameRefusal(t *testing.T) {
	t.Parallel()
	refusals := map[string]bool{}
	refused := func(t *testing.T, f *fixture, text string) {
		t.Helper()
		p, err := f.ring.Authenticate(t.Context(), text)
		wantFault(t, err, fault.Unauthenticated)
		if !reflect.ValueOf(p).IsZero() {
			t.Errorf("a refused key is given %v", p)
		}
		refusals[fmt.Sprint(err)] = true
	}
	f := setup(t)
	text := f.mint(time.Time{}, identity.OrdersRead)
	f.exec("DELETE FROM api_keys")
	for _, text := range []string{"", "nonsense", text[:len(text)-1], text} {
		refused(t, f, text)
	}
	for _, ending := range endings {
		f := setup(t)
		text := f.mint(time.Time{}, identity.OrdersRead)
		f.authenticate(text)
		f.exec(ending)
		refused(t, f, text)
		if _, ok := f.ring.Recall(text); ok {
			t.Errorf("after %q the key is still remembered", ending)
		}
	}
	if len(refusals) != 1 {
		t.Errorf("the refusals can be told apart: %v", refusals)
	}
}

// Memory is filled by Authenticate alone, and gives a principal only to who shows the very same key.
func TestRecallIsOfAuthenticatedKeysOnly(t *testing.T) {
	t.Parallel()
	f := setup(t)
	first, second := f.mint(time.Time{}, identity.OrdersRead), f.mint(time.Time{}, identity.OrdersRead)
	if _, ok := f.ring.Recall(first); ok {
		t.Error("a key is remembered that nobody has shown")
	}
	p := f.authenticate(first)
	got, ok := f.ring.Recall(first)
	if !ok || got.Tenant != p.Tenant || got.ID != p.ID || got.Authorise(identity.OrdersRead) != nil {
		t.Errorf("recalled is %v, %v; want %v", got, ok, p)
	}
	forged := identity.Forge(first)
	for name, text := range map[string]string{"another key": second, "another secret": forged, "nonsense": "", "mistyped": first[1:]} {
		if got, ok := f.ring.Recall(text); ok || got.ID != uuid.Nil {
			t.Errorf("%s: recalled is %v", name, got)
		}
	}
	// The database agrees about the other secret.
	_, err := f.ring.Authenticate(t.Context(), forged)
	wantFault(t, err, fault.Unauthenticated)
	// Another process remembers nothing.
	if _, ok := identity.NewKeyring(f.db).Recall(first); ok {
		t.Error("a new keyring remembers")
	}
}

// confirm runs a unit that may happen only where the credential still lives, as keyed operations do.
func (f *fixture) confirm(p identity.Principal, scope string, open bool) error {
	f.t.Helper()
	unit := postgres.Unit{First: []postgres.Staged{p.Confirm(scope)}, Open: open}
	return f.inTx(unit, func(context.Context, *postgres.Tx) error { return nil })
}

// What memory says counts only with the row that confirms it, in the transaction that acts: promise 4.
func TestConfirmRefusesWhatIsNotTrueAnyMore(t *testing.T) {
	t.Parallel()
	changes := map[string]string{
		"scope taken away": "UPDATE api_keys SET scopes = '{orders:read}'",
		"no scopes left":   "UPDATE api_keys SET scopes = '{}'",
	}
	maps.Copy(changes, endings)
	for name, change := range changes {
		for path, open := range map[string]bool{"staged": false, "open": true} {
			t.Run(name+", "+path, func(t *testing.T) {
				t.Parallel()
				f := setup(t)
				text := f.mint(time.Time{}, identity.OrdersCreate)
				f.authenticate(text)
				p, ok := f.ring.Recall(text)
				if !ok {
					t.Fatal("the key is not remembered")
				}
				if err := f.confirm(p, identity.OrdersCreate, open); err != nil {
					t.Fatalf("before: %v", err)
				}
				f.exec(change)
				err := f.confirm(p, identity.OrdersCreate, open)
				var refused *postgres.Refused
				if !errors.As(err, &refused) || refused.By != identity.Credential {
					t.Errorf("error %v, want the credential to be refused", err)
				}
			})
		}
	}
}

// The scope that is confirmed is the operation's, whatever the memory of the key says; and the row writes nothing.
func TestConfirmIsOfOneScope(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p := f.authenticate(f.mint(time.Time{}, identity.OrdersRead))
	for scope, want := range map[string]bool{identity.OrdersRead: true, identity.OrdersCreate: false, "": false} {
		if err := f.confirm(p, scope, false); (err == nil) != want {
			t.Errorf("%q: %v", scope, err)
		}
	}
	// A right that was given since counts at once.
	f.exec("UPDATE api_keys SET scopes = '{orders:read,orders:create}'")
	if err := f.confirm(p, identity.OrdersCreate, false); err != nil {
		t.Errorf("a new right: %v", err)
	}
	// Nobody's credential is confirmed.
	if err := f.confirm(identity.Principal{}, identity.OrdersRead, false); err == nil {
		t.Error("the zero principal is confirmed")
	}
	// In the tenant of another, not even a good key.
	p.Tenant, _ = f.put("other", "till-1")
	if err := f.confirm(p, identity.OrdersRead, false); err == nil {
		t.Error("a key is confirmed in another tenant")
	}
}

func TestDatabaseThatIsAwayIsNoRefusal(t *testing.T) {
	t.Parallel()
	f := setup(t)
	text := f.mint(time.Time{}, identity.OrdersRead)
	f.exec("ALTER TABLE api_keys RENAME TO elsewhere")
	_, err := f.ring.Authenticate(t.Context(), text)
	if err == nil || fault.KindOf(err) == fault.Unauthenticated {
		t.Errorf("error %v: the client would throw a good key away", err)
	}
}
