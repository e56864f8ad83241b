package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

const needsHuman = "0193b1f0-0000-7000-8000-0000000000e1"

// effectInDoubt is a database with one effect of acme that only a person can judge, its key forgotten by its destination.
func effectInDoubt(t *testing.T) operator {
	t.Helper()
	o := operator{t, databaseOfTest(t)}
	o.change("tenants", "create", "--tenant=acme")
	conn, err := pgx.Connect(t.Context(), o.database)
	must(t, err)
	defer func() { must(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), `INSERT INTO effects (tenant_id, id, destination, lane, operation, event_id, order_id, version, idempotency_key,
			request, request_hash, required, state, attempts, attempt_token, first_sent_at, key_valid_until, last_error, evidence, created_at)
		SELECT tenant_id, $1, 'payment', '', 'authorize', $1, $1, 1, $1, '{}', '', true, 'needs_human', 3, 3, now(), now() - interval '1 hour',
			'no answer', '[{"at": "2026-01-01T00:00:00Z", "token": 3, "owner": "w1", "verdict": "ambiguous", "status": 504, "detail": "no answer"}]', now()
		FROM tenants WHERE name = 'acme'`, needsHuman)
	must(t, err)
	return o
}

// What an operator does about a call that nobody can judge: finds it, reads what is known, is not allowed to send a
// forgotten key again, and says what became of it, once.
func TestEffectsCommands(t *testing.T) {
	t.Parallel()
	o := effectInDoubt(t)
	var listed []map[string]any
	must(t, json.Unmarshal([]byte(o.do("effects", "list", "--output=json")), &listed))
	if len(listed) != 1 || listed[0]["id"] != needsHuman || listed[0]["state"] != "needs_human" || listed[0]["operation"] != "authorize" {
		t.Errorf("%v", listed)
	}
	for command, want := range map[string][]string{
		"list":                                  {needsHuman, "payment", "needs_human", "no answer"},
		"replay --dry-run":                      {needsHuman, "refused: its destination may have forgotten it", "no answer"},
		"show " + needsHuman + " --tenant=acme": {"payment authorize", "needs_human after 3 attempts", "[succeed fail resend]", "w1: ambiguous 504: no answer"},
	} {
		out := o.do(append([]string{"effects"}, strings.Fields(command)...)...)
		for _, part := range want {
			if !strings.Contains(out, part) {
				t.Errorf("%s does not say %q: %s", command, part, out)
			}
		}
	}
	resolve := func(move string) []string {
		return []string{"effects", "resolve", needsHuman, "--tenant=acme", "--move=" + move, "--evidence=bank statement"}
	}
	refused := func(want string, args ...string) {
		t.Helper()
		status, stdout, stderr := o.try(append(args, "--reason=ticket 17")...)
		if status != 1 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, %q does not say %q", args, status, stdout+stderr, want)
		}
	}
	refused("may have forgotten", resolve("resend")...)
	refused("It can be moved by [succeed fail resend]", "effects", "retry", needsHuman, "--tenant=acme")
	for range 2 {
		if out := o.change(resolve("succeed")...); out != "effect "+needsHuman+" is succeeded\n" {
			t.Errorf("%q", out)
		}
	}
	refused("It is succeeded", resolve("fail")...)
	if n := o.count("SELECT count(*) FROM audit_log WHERE action = 'effect.succeed' AND reason = 'ticket 17'"); n != 1 {
		t.Errorf("%d entries in the audit log", n)
	}
	if out := o.do("effects", "list"); strings.Contains(out, needsHuman) {
		t.Errorf("it is listed still: %s", out)
	}
	if out := o.do("effects", "list", "--tenant=acme", "--state="); !strings.Contains(out, needsHuman) {
		t.Errorf("it is not listed: %s", out)
	}
}

func TestEffectsCommandsRefuse(t *testing.T) {
	t.Parallel()
	o := effectInDoubt(t)
	for want, args := range map[string][]string{
		"There is no such effect":             {"show", "0193b1f0-0000-7000-8000-0000000000e2", "--tenant=acme"},
		"There is no such tenant":             {"show", needsHuman, "--tenant=nobody"},
		"is no id of an effect":               {"show", "17", "--tenant=acme"},
		"name one effect":                     {"show", "--tenant=acme"},
		`required flag(s) "tenant" not set`:   {"show", needsHuman},
		"?tenant_id must be given":            {"list", "--state=pending"},
		"order: must be the id of an order":   {"list", "--order=" + needsHuman},
		"replay only looks":                   {"replay"},
		"/evidence must have 3 to 500":        {"resolve", needsHuman, "--tenant=acme", "--move=fail", "--evidence=x", "--reason=a test"},
		`required flag(s) "evidence" not set`: {"resolve", needsHuman, "--tenant=acme", "--move=fail", "--reason=a test"},
	} {
		status, stdout, stderr := o.try(append([]string{"effects"}, args...)...)
		if status != 1 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, %q does not say %q", args, status, stdout+stderr, want)
		}
	}
}

func TestOutboxCommand(t *testing.T) {
	t.Parallel()
	o := operator{t, databaseOfTest(t)}
	if out := o.do("outbox", "list"); !strings.HasPrefix(out, "0 events wait\n") {
		t.Errorf("%q", out)
	}
	if out := o.do("outbox", "list", "--output=json"); !strings.Contains(out, `"undispatched": 0`) || !strings.Contains(out, `"oldest": []`) {
		t.Errorf("%q", out)
	}
}

func (o operator) count(query string) (n int) {
	o.t.Helper()
	conn, err := pgx.Connect(o.t.Context(), o.database)
	must(o.t, err)
	defer func() { must(o.t, conn.Close(o.t.Context())) }()
	must(o.t, conn.QueryRow(o.t.Context(), query).Scan(&n))
	return n
}

// What a destination did and nobody here had asked for stays on the list until a person says what was done about it.
func TestDisagreementsCommands(t *testing.T) {
	t.Parallel()
	o := operator{t, databaseOfTest(t)}
	conn, err := pgx.Connect(t.Context(), o.database)
	must(t, err)
	defer func() { must(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), `INSERT INTO reconciliation_findings
			(tenant_id, id, destination, kind, idempotency_key, order_id, operation, details, found_at)
		SELECT tenant_id, $1, 'payment', 'executed_without_effect', 'a-key', $1, 'authorize', '{"executions": 1}', now()
		FROM tenants WHERE name = 'acme'`, needsHuman)
	must(t, err)
	var listed []struct {
		Tenant string `json:"tenant_id"`
		Kind   string
	}
	list := []string{"effects", "disagreements", "list", "--destination=payment"}
	must(t, json.Unmarshal([]byte(o.do(append(list, "--output=json")...)), &listed))
	if len(listed) != 1 || listed[0].Kind != "executed_without_effect" || !strings.Contains(o.do(list...), `{"executions": 1}`) {
		t.Fatalf("%v", listed)
	}
	for range 2 {
		o.change("effects", "disagreements", "clear", needsHuman, "--tenant-id="+listed[0].Tenant)
	}
	if out := o.do(list...); strings.Contains(out, needsHuman) {
		t.Errorf("it is listed still: %s", out)
	}
	if n := o.count("SELECT count(*) FROM audit_log WHERE action = 'reconciliation.cleared'"); n != 1 {
		t.Errorf("%d entries in the audit log", n)
	}
	status, _, stderr := o.try("effects", "disagreements", "clear", needsHuman, "--reason=a test")
	if status != 1 || !strings.Contains(stderr, "There is no such disagreement") {
		t.Errorf("of another tenant: %d %s", status, stderr)
	}
}
