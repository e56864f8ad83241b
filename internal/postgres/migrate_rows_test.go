package postgres_test

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
	"orderonce/sql/schema"
)

const (
	someTenant    = "'0193b1f0-0000-7000-8000-000000000001'"
	somePrincipal = "'0193b1f0-0000-7000-8000-000000000002'"
	someID        = "'0193b1f0-0000-7000-8000-000000000003'"
)

// row is one good row of a table: its columns' values as SQL.
type row map[string]string

// goodRows has one row of each table, a table after those that it refers to.
var goodRows = []struct {
	table string
	row   row
}{
	{"tenants", row{"tenant_id": someTenant, "name": "'acme'", "created_at": "now()"}},
	{"principals", row{"tenant_id": someTenant, "id": somePrincipal, "name": "'till-1'", "created_at": "now()"}},
	{"api_keys", row{ //nolint:gosec // the hash of nothing
		"tenant_id": someTenant, "id": someID, "principal_id": somePrincipal, "name": "'2026-11'", "secret_hash": "decode(repeat('00', 32), 'hex')",
		"scopes": "'{orders:read}'", "created_at": "now()",
	}},
	{"audit_log", row{
		"tenant_id": someTenant, "id": someID, "actor": "'principal:ops'", "action": "'api_key.revoked'", "subject_type": "'api_key'",
		"subject_id": someID, "reason": "'left the company'", "details": "'{}'", "occurred_at": "now()",
	}},
	{"coupons", row{
		"tenant_id": someTenant, "code": "'WELCOME'", "kind": "'percent'", "percent": "10", "valid_from": "now()",
		"valid_until": "now() + interval '1 day'", "max_redemptions": "3", "redemptions": "3",
	}},
	{"orders", row{
		"tenant_id": someTenant, "id": someID, "principal_id": somePrincipal, "checkout_id": "'chk_1'", "customer_id": "'cus_1'",
		"currency": "'EUR'", "status": "'pending'", "items": "'[]'", "subtotal_minor": "100", "discount_minor": "100",
		"total_minor": "0", "shipping_address_id": "'adr_1'", "metadata": "'{}'", "version": "1", "created_at": "now()",
	}},
	{"outbox_events", row{
		"tenant_id": someTenant, "id": someID, "aggregate_type": "'order'", "aggregate_id": someID, "version": "1",
		"type": "'orderonce.order.created.v1'", "payload": "'{}'", "occurred_at": "now()",
	}},
	{"effects", row{
		"tenant_id": someTenant, "id": someID, "destination": "'payment'", "lane": "''", "operation": "'authorize'", "event_id": someID,
		"order_id": someID, "version": "1", "idempotency_key": someID, "request": `'\x7b7d'`,
		"request_hash": "decode(repeat('00', 32), 'hex')", "required": "true", "state": "'pending'", "created_at": "now()",
	}},
	{"reconciliation_findings", row{
		"tenant_id": someTenant, "id": someID, "destination": "'payment'", "kind": "'success_denied'", "idempotency_key": "'key'",
		"order_id": someID, "operation": "'authorize'", "details": "'{}'", "found_at": "now()",
	}},
	{"reconciliation_looks", row{
		"destination": "'payment'", "listed_until": "now()", "ended_until": "now()", "next_at": "now()",
	}},
	{"webhook_subscriptions", row{
		"tenant_id": someTenant, "id": someID, "name": "'erp'", "url": "'https://erp.example/'", "event_types": "'{}'", "created_at": "now()",
	}},
	{"webhook_secrets", row{ //nolint:gosec // a secret of nothing
		"tenant_id": someTenant, "id": someID, "subscription_id": someID, "secret": "decode(repeat('00', 32), 'hex')", "created_at": "now()",
	}},
	{"idempotency_requests", row{
		"tenant_id": someTenant, "principal_id": somePrincipal, "operation": "'createOrder'",
		"idempotency_key": "'0123456789abcdef'", "fingerprint": "decode(repeat('00', 32), 'hex')", "fingerprint_version": "1",
		"field_digests": `'\x00'`, "api_version": "'2026-11-01'", "response_status": "201", "response_headers": "'{}'",
		"response_body": `'\x'`, "resource_type": "'order'", "resource_id": someID, "created_at": "now()",
		"completed_at": "now()", "expires_at": "now()",
	}},
}

func (r row) insert(table string) string {
	var columns, values []string
	for column, value := range r {
		columns = append(columns, column)
		values = append(values, value)
	}
	return "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
}

// A migration that works on empty tables may still fail on those of a customer.
func TestMigrateDownAndUpAgainWithRowsInEveryTable(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	conn := migrationConn(t, url)
	ups, err := fs.Glob(schema.Files, "*.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	fill := func() {
		t.Helper()
		var filled []string
		for _, good := range goodRows {
			if _, err := conn.Exec(t.Context(), good.row.insert(good.table)); err != nil {
				t.Fatalf("%s: %v", good.table, err)
			}
			filled = append(filled, good.table)
		}
		slices.Sort(filled)
		tables := migrationStrings(t, conn, "SELECT tablename FROM pg_tables WHERE schemaname = 'public' "+
			"AND tablename <> 'schema_migrations' ORDER BY tablename")
		if diff := cmp.Diff(tables, filled); diff != "" {
			t.Errorf("goodRows is not of every table (-tables +goodRows)\n%s", diff)
		}
	}
	fill()
	for step := range ups { // one by one, as an operator would
		if err := postgres.MigrateDown(t.Context(), url, 1); err != nil {
			t.Fatalf("step %d down: %v", step+1, err)
		}
	}
	if err := postgres.MigrateUp(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	fill() // no row has survived the way down, and every table is as it was
}

// badRows has what each named CHECK is there to refuse: columns of the good row, changed.
var badRows = map[string][]row{
	"tenants_name_form":    {{"name": "''"}, {"name": "'Acme'"}, {"name": "'1acme'"}, {"name": "'a b'"}, {"name": "repeat('a', 64)"}},
	"principals_name_form": {{"name": "''"}, {"name": "'Till'"}, {"name": "'-till'"}, {"name": "E'till\\n'"}, {"name": "repeat('a', 64)"}},
	"principals_subject_length": {
		{"name": "NULL", "issuer": "'https://id.example'", "subject": "''"},
		{"name": "NULL", "issuer": "'https://id.example'", "subject": "repeat('s', 256)"},
	},
	"principals_known_by": {
		{"name": "NULL"},
		{"name": "NULL", "issuer": "'https://id.example'"},
		{"name": "NULL", "subject": "'auth0|1'"},
		{"issuer": "'https://id.example'", "subject": "'auth0|1'"},
		{"issuer": "'https://id.example'"},
		{"subject": "'auth0|1'"},
	},
	"api_keys_name_form":      {{"name": "''"}, {"name": "'Key'"}, {"name": "'-key'"}, {"name": "'a b'"}, {"name": "repeat('a', 64)"}},
	"effects_end":             {{"state": "'succeeded'"}, {"state": "'failed'"}, {"ended_at": "now()"}},
	"audit_log_reason_length": {{"reason": "''"}, {"reason": "'no'"}, {"reason": "repeat('r', 501)"}},
	"api_keys_hash_length":    {{"secret_hash": `'\x'`}, {"secret_hash": "decode(repeat('00', 31), 'hex')"}, {"secret_hash": "decode(repeat('00', 33), 'hex')"}}, //nolint:gosec // hashes of nothing

	"reconciliation_findings_kind":       {{"kind": "''"}, {"kind": "'odd'"}},
	"reconciliation_findings_key_length": {{"idempotency_key": "repeat('k', 256)"}},

	"coupons_kind":          {{"kind": "'half'", "percent": "NULL", "amount_minor": "1", "currency": "'EUR'"}},
	"coupons_percent_range": {{"percent": "0"}, {"percent": "101"}, {"percent": "-1"}},
	"coupons_amount_positive": {
		{"kind": "'fixed'", "percent": "NULL", "amount_minor": "0", "currency": "'EUR'"},
		{"kind": "'fixed'", "percent": "NULL", "amount_minor": "-1", "currency": "'EUR'"},
	},
	"coupons_max_positive": {{"max_redemptions": "0", "redemptions": "0"}},
	"coupons_value": {
		{"percent": "NULL"},
		{"amount_minor": "1"},
		{"currency": "'EUR'"},
		{"kind": "'fixed'"},
		{"kind": "'fixed'", "percent": "NULL", "amount_minor": "1"},
		{"kind": "'fixed'", "percent": "NULL", "currency": "'EUR'"},
		{"kind": "'fixed'", "amount_minor": "1", "currency": "'EUR'"},
	},
	"coupons_redemptions_bounded": {{"redemptions": "4"}, {"redemptions": "-1"}, {"max_redemptions": "NULL", "redemptions": "-1"}},

	"orders_totals": {
		{"discount_minor": "-1", "total_minor": "101"},
		{"discount_minor": "101", "total_minor": "-1"},
		{"total_minor": "1"},
		{"subtotal_minor": "-1", "discount_minor": "0", "total_minor": "-1"},
	},

	"webhook_subscriptions_name_form": {
		{"name": "''"}, {"name": "'Erp'"}, {"name": "'-erp'"}, {"name": "'a b'"}, {"name": "repeat('a', 64)"},
	},
	"webhook_subscriptions_url_length": {{"url": "''"}, {"url": "repeat('u', 2049)"}},
	"webhook_subscriptions_disabled":   {{"active": "false"}, {"disabled_reason": "'gone'"}},
	"webhook_secrets_length":           {{"secret": `'\x'`}, {"secret": "decode(repeat('00', 23), 'hex')"}, {"secret": "decode(repeat('00', 65), 'hex')"}}, //nolint:gosec // secrets of nothing

	"idempotency_requests_result_whole": {
		{"response_status": "NULL"},
		{"response_headers": "NULL"},
		{"completed_at": "NULL", "expires_at": "NULL"},
		{"response_status": "NULL", "response_headers": "NULL", "completed_at": "NULL", "expires_at": "NULL"}, // a body alone
		{"response_body": "NULL", "resource_type": "NULL", "resource_id": "NULL"},                             // nothing to answer with
		{ // an expiry alone
			"response_status": "NULL", "response_headers": "NULL", "response_body": "NULL", "resource_type": "NULL",
			"resource_id": "NULL", "completed_at": "NULL",
		},
		{ // a resource alone
			"response_status": "NULL", "response_headers": "NULL", "response_body": "NULL", "completed_at": "NULL",
			"expires_at": "NULL",
		},
	},
}

// Each CHECK refuses what it is for, and is the one that refuses it: a rule that another happens to cover would be
// missed only after the other is gone.
func TestEveryCheckRefusesWhatItIsFor(t *testing.T) {
	t.Parallel()
	conn := migrationConn(t, postgrestest.URL(t))
	checks := migrationStrings(t, conn, "SELECT conname FROM pg_constraint WHERE contype = 'c' "+
		"AND connamespace = 'public'::regnamespace ORDER BY conname")
	var tested []string
	for name := range badRows {
		tested = append(tested, name)
	}
	slices.Sort(tested)
	if diff := cmp.Diff(checks, tested); diff != "" {
		t.Errorf("badRows is not of every CHECK (-checks +badRows)\n%s", diff)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, good := range goodRows {
		for name, bad := range badRows {
			if !strings.HasPrefix(name, good.table+"_") {
				continue
			}
			for _, change := range bad {
				if got := violated(t, tx, good.table, good.row, change); got != name {
					t.Errorf("%v violates %q, want %s", change, got, name)
				}
			}
		}
		// The good row itself passes, so it was the change that was refused. It stays for the tables that refer to it.
		if _, err := tx.Exec(t.Context(), good.row.insert(good.table)); err != nil {
			t.Fatalf("%s: %v", good.table, err)
		}
	}
}

// violated is the name of the CHECK that the changed row violates; "" for none.
func violated(t *testing.T, tx pgx.Tx, table string, good, change row) string {
	t.Helper()
	changed := maps.Clone(good)
	maps.Copy(changed, change)
	nested, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = nested.Exec(t.Context(), changed.insert(table))
	if err := nested.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	var pe *pgconn.PgError
	if err != nil && (!errors.As(err, &pe) || pe.Code != "23514") {
		t.Fatalf("%s %v: %v", table, change, err)
	}
	if pe == nil {
		return ""
	}
	return pe.ConstraintName
}

func migrationStrings(t *testing.T, conn *pgx.Conn, query string) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}
