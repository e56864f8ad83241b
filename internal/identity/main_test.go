package identity_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

const patience = 30 * time.Second

// fixture is a tenant with one principal.
type fixture struct {
	t         *testing.T
	db        *postgres.DB
	ring      *identity.Keyring
	watch     *pgx.Conn
	tenant    uuid.UUID
	principal uuid.UUID
}

func setup(t *testing.T) *fixture {
	t.Helper()
	url := postgrestest.URL(t)
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: url, MaxConns: 4, Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	f := &fixture{t: t, db: db, ring: identity.NewKeyring(db)}
	if f.watch, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.watch.Close(context.WithoutCancel(t.Context())) })
	f.tenant, f.principal = f.put("acme", "till-1")
	return f
}

// put finds or makes a tenant and its principal.
func (f *fixture) put(tenantName, principalName string) (tenant, principal uuid.UUID) {
	f.t.Helper()
	err := f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) (err error) {
		if tenant, err = identity.PutTenant(ctx, tx, tenantName); err != nil {
			return err
		}
		principal, err = identity.PutPrincipal(ctx, tx, tenant, principalName)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return tenant, principal
}

func (f *fixture) inTx(unit postgres.Unit, work func(context.Context, *postgres.Tx) error) error {
	f.t.Helper()
	unit.LockTimeout = patience
	return f.db.InTx(f.t.Context(), unit, work)
}

// mint gives the fixture's principal one more key.
func (f *fixture) mint(expiry time.Time, scopes ...string) (text string) {
	f.t.Helper()
	err := f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) (err error) {
		text, err = identity.MintKey(ctx, tx, f.tenant, f.principal, scopes, expiry)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return text
}

func (f *fixture) exec(sql string) {
	f.t.Helper()
	if _, err := f.watch.Exec(f.t.Context(), sql); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) authenticate(text string) identity.Principal {
	f.t.Helper()
	p, err := f.ring.Authenticate(f.t.Context(), text)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func wantFault(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != kind {
		t.Errorf("error %v, want %v", err, kind)
	}
}

// The ways in which a key stops giving access, as statements on the fixture's only tenant, principal and key.
var endings = map[string]string{ //nolint:gosec // statements
	"revoked":            "UPDATE api_keys SET revoked_at = now()",
	"expired":            "UPDATE api_keys SET expires_at = now()",
	"expired long ago":   "UPDATE api_keys SET expires_at = now() - interval '1 year'",
	"another secret":     "UPDATE api_keys SET secret_hash = sha256('other')",
	"deleted":            "DELETE FROM api_keys",
	"inactive principal": "UPDATE principals SET active = false",
	"inactive tenant":    "UPDATE tenants SET active = false",
}
