package identity_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

// A scope that nobody checks would be a right that somebody believes to have given.
func TestUnknownScopeIsNotMinted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, scopes := range [][]string{{"orders"}, {identity.OrdersRead, "orders:delete"}, {""}, {"Orders:Read"}, {"*"}} {
		err := f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
			text, err := identity.MintKey(ctx, tx, f.tenant, f.principal, scopes, time.Time{})
			if text != "" {
				t.Errorf("%q: minted %s", scopes, text)
			}
			return err
		})
		wantFault(t, err, fault.ValidationFailed)
	}
	var keys int
	if err := f.watch.QueryRow(t.Context(), "SELECT count(*) FROM api_keys").Scan(&keys); err != nil || keys != 0 {
		t.Errorf("%d keys, %v", keys, err)
	}
	for _, scope := range identity.Scopes() {
		f.mint(time.Time{}, scope)
	}
}

// A key of a principal that is not the tenant's would open the tenant to a stranger.
func TestKeyNeedsAPrincipalOfItsTenant(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, stranger := f.put("other", "till-1")
	for _, principal := range []uuid.UUID{stranger, uuid.New(), uuid.Nil} {
		err := f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
			_, err := identity.MintKey(ctx, tx, f.tenant, principal, []string{identity.OrdersRead}, time.Time{})
			return err
		})
		if err == nil {
			t.Errorf("a key is minted for %v", principal)
		}
	}
}

// The text of a key is shown once: nothing that is stored gives it back, and it is good for nothing before COMMIT.
func TestMintedKeyLivesWithItsUnit(t *testing.T) {
	t.Parallel()
	f := setup(t)
	broken := errors.New("broken")
	var text string
	err := f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) (err error) {
		if text, err = identity.MintKey(ctx, tx, f.tenant, f.principal, nil, time.Time{}); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	_, err = f.ring.Authenticate(t.Context(), text)
	wantFault(t, err, fault.Unauthenticated)
}

// Rotating a key is minting a second one and revoking the first; the principal, and with it the scope of its
// idempotency keys, stays.
func TestSeveralKeysOfOnePrincipalLive(t *testing.T) {
	t.Parallel()
	f := setup(t)
	first, second := f.mint(time.Time{}, identity.OrdersRead), f.mint(time.Time{}, identity.OrdersRead)
	if a, b := f.authenticate(first), f.authenticate(second); a.ID != b.ID || a.Tenant != b.Tenant {
		t.Errorf("%v and %v", a, b)
	}
	f.exec("UPDATE api_keys SET revoked_at = now() WHERE created_at = (SELECT min(created_at) FROM api_keys)")
	_, err := f.ring.Authenticate(t.Context(), first)
	wantFault(t, err, fault.Unauthenticated)
	f.authenticate(second)
}

// Putting what is there finds it, so that the dev command and scripts may say the same thing twice.
func TestPutFindsWhatIsThere(t *testing.T) {
	t.Parallel()
	f := setup(t)
	tenant, principal := f.put("acme", "till-1")
	if tenant != f.tenant || principal != f.principal {
		t.Errorf("put again: %v and %v, want %v and %v", tenant, principal, f.tenant, f.principal)
	}
	if sameTenant, second := f.put("acme", "till-2"); sameTenant != f.tenant || second == f.principal {
		t.Errorf("another principal: %v and %v", sameTenant, second)
	}
	// Names of principals are the tenant's own.
	if other, same := f.put("other", "till-1"); other == f.tenant || same == f.principal {
		t.Errorf("another tenant: %v and %v", other, same)
	}
	err := f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
		found, err := identity.FindTenant(ctx, tx, "acme")
		if found != f.tenant {
			t.Errorf("found %v", found)
		}
		if err != nil {
			return err
		}
		_, err = identity.FindTenant(ctx, tx, "nobody")
		return err
	})
	wantFault(t, err, fault.NotFound)
}
