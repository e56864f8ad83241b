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
		URL: url, Role: postgres.Worker, MaxConns: 4, Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
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

var by = identity.Change{Actor: "cli:tester", Reason: "a test"}

// put finds or makes a tenant and its principal. The tenant operations is the operators'.
func (f *fixture) put(tenantName, principalName string) (tenant, principal uuid.UUID) {
	f.t.Helper()
	f.change(func(ctx context.Context, tx *postgres.Tx) error {
		t, _, err := identity.CreateTenant(ctx, tx, by, tenantName, tenantName == "operations")
		if err != nil {
			return err
		}
		p, _, err := identity.CreatePrincipal(ctx, tx, by, t.ID, principalName)
		tenant, principal = t.ID, p.ID
		return err
	})
	return tenant, principal
}

// change is a unit that has to succeed.
func (f *fixture) change(work func(context.Context, *postgres.Tx) error) {
	f.t.Helper()
	if err := f.inTx(postgres.Unit{}, work); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) inTx(unit postgres.Unit, work func(context.Context, *postgres.Tx) error) error {
	f.t.Helper()
	unit.LockTimeout = patience
	return f.db.InTx(f.t.Context(), unit, work)
}

// mint gives the fixture's principal one more key.
func (f *fixture) mint(expiry time.Time, scopes ...string) (text string) {
	f.t.Helper()
	plan := identity.KeyPlan{Name: uuid.Must(uuid.NewV7()).String(), Scopes: scopes}
	if !expiry.IsZero() {
		plan.Expires = &expiry
	}
	_, text = f.create(plan)
	return text
}

// create gives the fixture's principal a key, or finds it.
func (f *fixture) create(plan identity.KeyPlan) (key identity.APIKey, text string) {
	f.t.Helper()
	f.change(func(ctx context.Context, tx *postgres.Tx) (err error) {
		key, text, err = identity.CreateKey(ctx, tx, by, f.tenant, f.principal, plan)
		return err
	})
	return key, text
}

// audited is the actions of the audit log, oldest first, that the fixture's own set-up did not write.
func (f *fixture) audited() []string {
	f.t.Helper()
	rows, err := f.watch.Query(f.t.Context(), "SELECT action FROM audit_log ORDER BY id OFFSET 2")
	if err != nil {
		f.t.Fatal(err)
	}
	actions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.t.Fatal(err)
	}
	return actions
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
