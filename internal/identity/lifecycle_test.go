package identity_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

// Whatever is said twice is done once, and the audit log says so: one entry for each change, none for what was so already.
func TestSaidTwiceIsDoneOnceAndAuditedOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	tenant, principal := f.put("acme", "till-1")
	if tenant != f.tenant || principal != f.principal {
		t.Errorf("put again: %v and %v, want %v and %v", tenant, principal, f.tenant, f.principal)
	}
	first, text := f.create(identity.KeyPlan{Name: "2026-11", Scopes: []string{identity.OrdersRead, identity.OrdersCreate}})
	again, none := f.create(identity.KeyPlan{Name: "2026-11", Scopes: []string{identity.OrdersCreate, identity.OrdersRead, identity.OrdersRead}})
	if diff := cmp.Diff(first, again); diff != "" || text == "" || none != "" {
		t.Errorf("created again, %q: %s", none, diff)
	}
	for range 2 {
		f.change(func(ctx context.Context, tx *postgres.Tx) error {
			key, err := identity.RevokeKey(ctx, tx, by, f.tenant, first.ID)
			if key.RevokedAt == nil {
				t.Error("a revoked key does not look so")
			}
			return err
		})
	}
	for _, active := range []bool{false, false, true, true} {
		f.change(func(ctx context.Context, tx *postgres.Tx) error {
			p, err := identity.SetPrincipalActive(ctx, tx, by, f.tenant, f.principal, active)
			if err != nil || p.Active != active {
				t.Errorf("%+v, %v", p, err)
			}
			tenant, err := identity.SetTenantActive(ctx, tx, by, f.tenant, active)
			if tenant.Active != active {
				t.Errorf("%+v", tenant)
			}
			return err
		})
	}
	want := []string{
		"api_key.created", "api_key.revoked", "principal.deactivated", "tenant.deactivated", "principal.activated", "tenant.activated",
	}
	if diff := cmp.Diff(want, f.audited()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// An entry says who, what, to which and why, and holds nothing that could be shown as a credential.
func TestAuditEntrySaysWhoWhatAndWhy(t *testing.T) {
	t.Parallel()
	f := setup(t)
	key, text := f.create(identity.KeyPlan{Name: "2026-11", Scopes: []string{identity.OrdersRead}})
	err := f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		page, more, err := identity.ListAuditLog(ctx, db, uuid.NullUUID{UUID: f.tenant, Valid: true}, uuid.Max, 1)
		if err != nil {
			return err
		}
		if len(page) != 1 || !more {
			t.Fatalf("%d entries, more: %t", len(page), more)
		}
		got := page[0]
		want := identity.AuditEntry{
			ID: got.ID, Tenant: f.tenant, Actor: "cli:tester", Action: "api_key.created", SubjectType: "api_key", SubjectID: key.ID,
			Reason: "a test", OccurredAt: got.OccurredAt, Details: map[string]any{
				"principal_id": f.principal.String(), "name": "2026-11", "scopes": []any{identity.OrdersRead}, "expires_at": nil,
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if rest, more, err := identity.ListAuditLog(ctx, db, uuid.NullUUID{}, got.ID, 5); err != nil || len(rest) != 2 || more {
			t.Errorf("behind it: %+v, %t, %v", rest, more, err)
		}
		if rest, _, err := identity.ListAuditLog(ctx, db, uuid.NullUUID{UUID: uuid.Max, Valid: true}, uuid.Max, 5); err != nil || len(rest) != 0 {
			t.Errorf("of another tenant: %+v, %v", rest, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	var stored string
	err = f.watch.QueryRow(t.Context(), "SELECT string_agg(a::text, '') || (SELECT string_agg(k::text, '') FROM api_keys k) FROM audit_log a").Scan(&stored)
	secret := strings.Split(text, "_")[3]
	if err != nil || strings.Contains(stored, secret) {
		t.Errorf("the secret is stored, %v: %s", err, stored)
	}
}

// A change without a reason that can be kept does not happen.
func TestChangeNeedsAReason(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, reason := range []string{"", "no", strings.Repeat("é", 501), "\xff\xff\xff"} {
		err := f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
			_, _, err := identity.CreateTenant(ctx, tx, identity.Change{Actor: "cli:tester", Reason: reason}, "globex", false)
			return err
		})
		wantFault(t, err, fault.ValidationFailed)
	}
	for _, reason := range []string{"yes", strings.Repeat("é", 500)} {
		f.change(func(ctx context.Context, tx *postgres.Tx) error {
			_, err := identity.SetTenantActive(ctx, tx, identity.Change{Actor: "cli:tester", Reason: reason}, f.tenant, reason == "yes")
			return err
		})
	}
}

// What stands in the way of a key has a name of its own, and leaves no key behind.
func TestKeyThatCannotBeMade(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, stranger := f.put("other", "till-1")
	f.exec(`INSERT INTO principals (tenant_id, id, issuer, subject, created_at)
		SELECT tenant_id, '` + subject + `', 'https://id.example', 'bob', now() FROM tenants WHERE name = 'acme'`)
	past, future := time.Now().Add(-time.Second), time.Now().Add(time.Hour)
	f.create(identity.KeyPlan{Name: "taken", Scopes: []string{identity.OrdersRead}, Expires: &future})
	revoked, _ := f.create(identity.KeyPlan{Name: "revoked"})
	f.change(func(ctx context.Context, tx *postgres.Tx) error {
		_, err := identity.RevokeKey(ctx, tx, by, f.tenant, revoked.ID)
		return err
	})
	before := len(f.audited())
	read := []string{identity.OrdersRead}
	for name, test := range map[string]struct {
		tenant, principal uuid.UUID
		plan              identity.KeyPlan
		want              fault.Kind
	}{
		"unknown tenant":              {uuid.Max, f.principal, identity.KeyPlan{Name: "a"}, fault.NotFound},
		"unknown principal":           {f.tenant, uuid.Max, identity.KeyPlan{Name: "a"}, fault.NotFound},
		"another tenant's principal":  {f.tenant, stranger, identity.KeyPlan{Name: "a"}, fault.NotFound},
		"an identity provider's":      {f.tenant, uuid.MustParse(subject), identity.KeyPlan{Name: "a"}, fault.ValidationFailed},
		"no name":                     {f.tenant, f.principal, identity.KeyPlan{}, fault.ValidationFailed},
		"a name of another form":      {f.tenant, f.principal, identity.KeyPlan{Name: "A b"}, fault.ValidationFailed},
		"a name past 63":              {f.tenant, f.principal, identity.KeyPlan{Name: strings.Repeat("a", 64)}, fault.ValidationFailed},
		"an end in the past":          {f.tenant, f.principal, identity.KeyPlan{Name: "a", Expires: &past}, fault.ValidationFailed},
		"an unknown scope":            {f.tenant, f.principal, identity.KeyPlan{Name: "a", Scopes: []string{"*"}}, fault.ValidationFailed},
		"a scope that reaches beyond": {f.tenant, f.principal, identity.KeyPlan{Name: "a", Scopes: []string{identity.OpsRead}}, fault.ValidationFailed},
		"taken, other scopes":         {f.tenant, f.principal, identity.KeyPlan{Name: "taken", Expires: &future}, fault.NameTaken},
		"taken, another end":          {f.tenant, f.principal, identity.KeyPlan{Name: "taken", Scopes: read}, fault.NameTaken},
		"taken, by a dead key":        {f.tenant, f.principal, identity.KeyPlan{Name: "revoked"}, fault.NameTaken},
	} {
		err := f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
			_, text, err := identity.CreateKey(ctx, tx, by, test.tenant, test.principal, test.plan)
			if text != "" {
				t.Errorf("%s: made %s", name, text)
			}
			return err
		})
		if fault.KindOf(err) != test.want {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	for _, closed := range []string{"principals", "tenants"} {
		f.exec("UPDATE " + closed + " SET active = false")
		err := f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
			_, _, err := identity.CreateKey(ctx, tx, by, f.tenant, f.principal, identity.KeyPlan{Name: "a"})
			return err
		})
		wantFault(t, err, fault.NotActive)
		f.exec("UPDATE " + closed + " SET active = true")
	}
	if after := f.audited(); len(after) != before {
		t.Errorf("audited: %v", after[before:])
	}
}

const subject = "0193b1f0-0000-7000-8000-00000000000b"

// Scopes that reach every tenant are an operators' tenant's alone to give.
func TestOperatorsScopesAreGivenInTheirTenantAlone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.tenant, f.principal = f.put("operations", "ops")
	p := f.authenticate(f.mint(time.Time{}, identity.Scopes()...))
	for _, scope := range identity.Scopes() {
		if err := p.Authorise(scope); err != nil {
			t.Error(err)
		}
		if err := f.confirm(p, scope, false); err != nil {
			t.Errorf("%s: %v", scope, err)
		}
	}
	// However such a scope came into the row of another tenant's key, or its tenant out of the operators': it counts not.
	text := f.mint(time.Time{}, identity.OrdersRead, identity.OpsRead, identity.OpsWrite)
	remembered := f.authenticate(text)
	f.exec("UPDATE tenants SET operator = false")
	now := f.authenticate(text)
	for _, scope := range []string{identity.OpsRead, identity.OpsWrite} {
		wantFault(t, now.Authorise(scope), fault.Forbidden)
		if err := f.confirm(remembered, scope, false); postgres.RefusedBy(err) != identity.Credential {
			t.Errorf("%s is confirmed: %v", scope, err)
		}
	}
	if err := errors.Join(now.Authorise(identity.OrdersRead), f.confirm(remembered, identity.OrdersRead, false)); err != nil {
		t.Error(err)
	}
	// The kind of a tenant is for ever: making it again as the other kind is refused.
	err := f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
		_, _, err := identity.CreateTenant(ctx, tx, by, "operations", true)
		return err
	})
	wantFault(t, err, fault.NameTaken)
}

// The text of a key is good for nothing before its unit commits.
func TestKeyLivesWithItsUnit(t *testing.T) {
	t.Parallel()
	f := setup(t)
	broken := errors.New("broken")
	var text string
	err := f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) (err error) {
		if _, text, err = identity.CreateKey(ctx, tx, by, f.tenant, f.principal, identity.KeyPlan{Name: "a"}); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) || text == "" {
		t.Fatal(err)
	}
	_, err = f.ring.Authenticate(t.Context(), text)
	wantFault(t, err, fault.Unauthenticated)
	if got := f.audited(); len(got) != 0 {
		t.Errorf("audited: %v", got)
	}
}

// Names of principals and keys are the tenant's and the principal's own; nothing is found by an unknown one.
func TestNamesAreOfTheirOwner(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if sameTenant, second := f.put("acme", "till-2"); sameTenant != f.tenant || second == f.principal {
		t.Errorf("another principal: %v and %v", sameTenant, second)
	}
	other, same := f.put("other", "till-1")
	if other == f.tenant || same == f.principal {
		t.Errorf("another tenant: %v and %v", other, same)
	}
	err := f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		found, err := identity.FindTenant(ctx, db, "acme")
		if found.ID != f.tenant || err != nil {
			t.Errorf("found %v, %v", found, err)
		}
		_, err = identity.FindTenant(ctx, db, "nobody")
		wantFault(t, err, fault.NotFound)
		_, err = identity.FindPrincipal(ctx, db, other, "till-2")
		wantFault(t, err, fault.NotFound)
		_, err = identity.ReadPrincipal(ctx, db, other, f.principal)
		wantFault(t, err, fault.NotFound)
		_, _, err = identity.ListPrincipals(ctx, db, uuid.Max, uuid.Max, 1)
		wantFault(t, err, fault.NotFound)
		_, _, err = identity.ListKeys(ctx, db, other, uuid.NullUUID{UUID: f.principal, Valid: true}, uuid.Max, 1)
		wantFault(t, err, fault.NotFound)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
