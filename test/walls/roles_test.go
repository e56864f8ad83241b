package walls

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/postgres"
)

var roles = []postgres.Role{postgres.Request, postgres.Worker}

// Every table that has rows of tenants has the wall, and the same one; and nothing leads around it: no view of the
// owner's, no function that runs with the owner's rights.
func TestEveryTableOfTenantsHasTheWall(t *testing.T) {
	t.Parallel()
	w := empty(t)
	tables := w.strings(tablesOfTenants)
	var want []string
	for _, table := range tables {
		want = append(want,
			table+" every_tenant PERMISSIVE {orderonce_worker} ALL true -",
			table+" named_tenants PERMISSIVE {orderonce_request} ALL "+
				"(strpos(current_setting('orderonce.tenants'::text, true), (tenant_id)::text) > 0) -")
	}
	got := w.strings(`SELECT concat_ws(' ', tablename, policyname, permissive, roles, cmd, qual, coalesce(with_check, '-'))
		FROM pg_policies WHERE schemaname = 'public' ORDER BY 1`)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the policies (-want +got)\n%s", diff)
	}
	walled := w.strings(`SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relrowsecurity ORDER BY 1`)
	if diff := cmp.Diff(tables, walled); diff != "" {
		t.Errorf("the tables with row security (-want +got)\n%s", diff)
	}
	others := w.strings(`SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
		AND relkind NOT IN ('i', 'I') AND NOT relrowsecurity ORDER BY 1`)
	if diff := cmp.Diff([]string{"reconciliation_looks", "schema_migrations"}, others); diff != "" {
		t.Errorf("tables, views and the like without row security (-want +got)\n%s", diff)
	}
	if around := w.strings("SELECT proname FROM pg_proc WHERE prosecdef AND pronamespace = 'public'::regnamespace"); len(around) > 0 {
		t.Errorf("functions with the owner's rights: %v", around)
	}
}

// grants are all that the roles may do, beyond what everybody may do with the system's own tables: a table, and a
// privilege on it or on some of its columns.
var grants = map[postgres.Role][]string{
	postgres.Request: {
		"api_keys SELECT (expires_at,id,principal_id,revoked_at,scopes,secret_hash,tenant_id)",
		"coupons SELECT", "coupons UPDATE (redemptions)",
		"effects SELECT",
		"idempotency_requests DELETE", "idempotency_requests INSERT", "idempotency_requests SELECT", "idempotency_requests UPDATE",
		"orders DELETE", "orders INSERT", "orders SELECT", "orders UPDATE (status,version)",
		"outbox_events DELETE", "outbox_events INSERT", "outbox_events SELECT",
		"principals SELECT (active,id,tenant_id)",
		"schema_migrations SELECT",
		"tenants SELECT (active,operator,tenant_id)",
		"webhook_secrets DELETE", "webhook_secrets INSERT",
		"webhook_secrets SELECT (created_at,expires_at,id,subscription_id,tenant_id)", "webhook_secrets UPDATE (expires_at)",
		"webhook_subscriptions INSERT", "webhook_subscriptions SELECT",
		"webhook_subscriptions UPDATE (active,disabled_reason,failing_since)",
	},
	postgres.Worker: {
		"api_keys DELETE", "api_keys INSERT", "api_keys SELECT", "api_keys UPDATE",
		"audit_log INSERT", "audit_log SELECT",
		"coupons DELETE", "coupons INSERT", "coupons SELECT", "coupons UPDATE",
		"effects DELETE", "effects INSERT", "effects SELECT", "effects UPDATE",
		"idempotency_requests DELETE", "idempotency_requests INSERT", "idempotency_requests SELECT", "idempotency_requests UPDATE",
		"orders DELETE", "orders INSERT", "orders SELECT", "orders UPDATE",
		"outbox_events DELETE", "outbox_events INSERT", "outbox_events SELECT", "outbox_events UPDATE",
		"principals DELETE", "principals INSERT", "principals SELECT", "principals UPDATE",
		"reconciliation_findings INSERT", "reconciliation_findings SELECT", "reconciliation_findings UPDATE",
		"reconciliation_looks INSERT", "reconciliation_looks SELECT", "reconciliation_looks UPDATE",
		"schema_migrations SELECT",
		"tenants DELETE", "tenants INSERT", "tenants SELECT", "tenants UPDATE",
		"webhook_secrets DELETE", "webhook_secrets INSERT", "webhook_secrets SELECT", "webhook_secrets UPDATE",
		"webhook_subscriptions DELETE", "webhook_subscriptions INSERT", "webhook_subscriptions SELECT", "webhook_subscriptions UPDATE",
	},
}

const grantsOf = `
	SELECT concat_ws(' ', c.relname, p.privilege) FROM pg_class c,
		unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS p (privilege)
	WHERE c.relnamespace = 'public'::regnamespace AND c.relkind NOT IN ('i', 'I') AND has_table_privilege($1, c.oid, p.privilege)
	UNION ALL
	SELECT format('%s %s (%s)', c.relname, p.privilege, string_agg(a.attname, ',' ORDER BY a.attname)) FROM pg_class c
	JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0,
		unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) AS p (privilege)
	WHERE c.relnamespace = 'public'::regnamespace AND c.relkind NOT IN ('i', 'I')
		AND NOT has_table_privilege($1, c.oid, p.privilege) AND has_column_privilege($1, c.oid, a.attnum, p.privilege)
	GROUP BY c.relname, p.privilege
	ORDER BY 1`

// A role may do what it is there for and nothing else: what it could own, create or become would be a way around the
// wall.
func TestRolesMayDoWhatTheyAreThereForAndNothingElse(t *testing.T) {
	t.Parallel()
	w := empty(t)
	for _, role := range roles {
		if diff := cmp.Diff(grants[role], w.strings(grantsOf, string(role))); diff != "" {
			t.Errorf("%s may do (-want +got)\n%s", role, diff)
		}
		for what, found := range map[string]string{
			"powers": `SELECT 'it has them' FROM pg_roles WHERE rolname = $1
				AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication OR rolcanlogin)`,
			"things of its own": `SELECT classid::regclass || ' ' || objid FROM pg_shdepend
				WHERE refclassid = 'pg_authid'::regclass AND refobjid = $1::regrole AND deptype = 'o'`,
			"roles that it may become": "SELECT roleid::regrole::text FROM pg_auth_members WHERE member = $1::regrole",
			"schemas to create in":     "SELECT nspname FROM pg_namespace WHERE has_schema_privilege($1, oid, 'CREATE')",
			"databases to create in":   "SELECT datname FROM pg_database WHERE has_database_privilege($1, oid, 'CREATE')",
		} {
			if got := w.strings(found, string(role)); len(got) > 0 {
				t.Errorf("%s: %s: %v", role, what, got)
			}
		}
	}
}

// The same by deed: what is not granted is denied to a request, whatever tenant it names.
func TestRequestsAreDeniedWhatTheyDoNotNeed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, sql := range []string{
		"SELECT FROM audit_log", "INSERT INTO audit_log SELECT * FROM audit_log",
		"UPDATE tenants SET active = true", "DELETE FROM tenants", "UPDATE principals SET active = true",
		"UPDATE api_keys SET scopes = '{}'", "DELETE FROM api_keys", "SELECT FROM api_keys FOR UPDATE",
		"UPDATE orders SET tenant_id = '" + intruder + "'", "UPDATE orders SET total_minor = 0", "UPDATE outbox_events SET version = 2",
		"UPDATE coupons SET max_redemptions = 100", "DELETE FROM coupons", "TRUNCATE orders", "DELETE FROM schema_migrations",
		"CREATE TABLE mine ()", "CREATE SCHEMA mine", "CREATE ROLE mine", "ALTER TABLE orders DISABLE ROW LEVEL SECURITY",
		"DROP POLICY named_tenants ON orders", "ALTER ROLE orderonce_request BYPASSRLS",
		// What is granted, and would move a row over the wall.
		"UPDATE idempotency_requests SET tenant_id = '" + intruder + "'",
	} {
		got := w.try(query{name: sql, sql: sql}, attempt{role: postgres.Request, tenants: named(victim)})
		if !got.Denied {
			t.Errorf("%s: %+v", sql, got)
		}
	}
	// Row security can be switched off by a setting, which makes it an error where it would have hidden something.
	tx, err := w.conn.Begin(t.Context())
	w.must(err)
	_, err = tx.Exec(t.Context(), "SET LOCAL row_security = off; SET LOCAL ROLE orderonce_request; SELECT FROM orders")
	if !denied(err) {
		t.Errorf("a setting opens the wall: %v", err)
	}
	w.must(tx.Rollback(t.Context()))
}

// Whoever the URL's user is, sessions of a pool have their role's rights and no others.
func TestSessionsOfAPoolHaveItsRole(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const who = "SELECT concat_ws(' ', current_user, current_setting('role'), (SELECT count(*) FROM orders))"
	for _, role := range roles {
		db := w.open(role)
		visible := map[uuid.UUID]int{uuid.Nil: 0, uuid.MustParse(victim): 1}
		if role == postgres.Worker {
			visible = map[uuid.UUID]int{uuid.Nil: 3}
		}
		for tenant, orders := range visible {
			var got string
			err := db.Read(t.Context(), tenant, func(ctx context.Context, db postgres.DBTX) error {
				return db.QueryRow(ctx, who).Scan(&got)
			})
			if want := fmt.Sprintf("%s %[1]s %d", role, orders); err != nil || got != want {
				t.Errorf("for %s: %q, %v; want %q", tenant, got, err, want)
			}
		}
	}
}

// A transaction's tenants end with it, however it ends: the next one on the same connection is given none of them.
func TestTenantsEndWithTheTransactionThatNamedThem(t *testing.T) {
	t.Parallel()
	w := setup(t)
	count := func(db interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	},
	) (n int) {
		w.must(db.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&n))
		return n
	}
	w.exec("SET ROLE orderonce_request")
	for name, end := range map[string]func(pgx.Tx) error{
		"committed":   func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
		"rolled back": func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
	} {
		tx, err := w.conn.Begin(t.Context())
		w.must(err)
		_, err = tx.Exec(t.Context(), "SET LOCAL orderonce.tenants = '"+victim+"'")
		w.must(err)
		if n := count(tx); n != 1 {
			t.Errorf("%d orders within", n)
		}
		w.must(end(tx))
		if n := count(w.conn); n != 0 {
			t.Errorf("%d orders after a transaction that was %s", n, name)
		}
	}
}

// The policy looks for a tenant in a text. Only its whole canonical id is found there, and no id is found in the seams
// between others, even if the commas were forgotten: a UUID's dashes stand where no other's can.
func TestOnlyAWholeTenantIsNamed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	// A tenant whose id is made of the tail of one and the head of another.
	tail, head := strings.ReplaceAll(intruder, "-", "")[16:], strings.ReplaceAll(third, "-", "")[:16]
	seam := uuid.MustParse(tail + head).String()
	w.tenant(seam, "seam-0123456789abcdef", "2200-01-01Z")
	all := []string{victim, intruder, third, seam}
	slices.Sort(all)
	for list, want := range map[string][]string{
		"":                                  nil,
		",":                                 nil,
		"-":                                 nil,
		"%":                                 nil,
		victim:                              {victim},
		victim[:35]:                         nil,
		victim[1:]:                          nil,
		victim[:8]:                          nil,
		victim[:35] + "," + "a":             nil,
		strings.ToUpper(victim):             nil,
		strings.ReplaceAll(victim, "-", ""): nil,
		"{" + victim + "}":                  {victim},
		intruder + "," + third:              {intruder, third},
		intruder + third:                    {intruder, third}, // no comma: each is there, and none between
		third + intruder:                    {intruder, third},
		strings.Join(all, ","):              all,
	} {
		got := w.try(query{sql: "SELECT tenant_id::text FROM orders ORDER BY 1"}, attempt{role: postgres.Request, tenants: &list}).Rows
		var rows []string
		for _, id := range want {
			rows = append(rows, "["+id+"]")
		}
		if diff := cmp.Diff(strings.Join(rows, "\n"), got); diff != "" {
			t.Errorf("naming %q (-want +got)\n%s", list, diff)
		}
	}
}
