package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A webhook's whole life by hand: each change once in the audit log, however often it is said, and never its secret.
func TestWebhooksCommands(t *testing.T) {
	t.Parallel()
	o := operator{t, databaseOfTest(t)}
	erp := []string{"--tenant=acme", "--name=erp"}
	secret := o.change(append(erp, "webhooks", "create", "--url=https://erp.example/hooks?token=t0ken", "--events=orderonce.order.created.v1")...)
	if !regexp.MustCompile(`^whsec_[A-Za-z0-9+/]{43}=\n$`).MatchString(secret) {
		t.Fatalf("not a secret alone: %q", secret)
	}
	status, stdout, stderr := o.try(append(erp, "webhooks", "create", "--url=https://erp.example/hooks?token=t0ken",
		"--events=orderonce.order.created.v1", "--reason=again")...)
	if status != 1 || stdout != "" || !strings.Contains(stderr, "there is a webhook erp already") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	if next := o.change(append(erp, "webhooks", "rotate", "--overlap=1h")...); next == secret || !strings.HasPrefix(next, "whsec_") {
		t.Errorf("rotated: %q", next)
	}
	for _, verb := range []string{"disable", "enable"} {
		for range 2 {
			want := map[string]string{"disable": "webhook erp is inactive\n", "enable": "webhook erp is active\n"}[verb]
			if got := o.change(append(erp, "webhooks", verb)...); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
	var hooks []map[string]any
	must(t, json.Unmarshal([]byte(o.do("webhooks", "list", "--tenant=acme", "--output=json")), &hooks))
	if len(hooks) != 1 || hooks[0]["name"] != "erp" || hooks[0]["active"] != true {
		t.Errorf("%v", hooks)
	}
	if table := o.do("webhooks", "list", "--tenant=acme"); !strings.Contains(table, "https://erp.example/hooks") || strings.Contains(table, "whsec_") {
		t.Error(table)
	}

	conn, err := pgx.Connect(t.Context(), o.database)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	rows, err := conn.Query(t.Context(), "SELECT action || ' ' || details FROM audit_log WHERE subject_type = 'webhook' ORDER BY id")
	must(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	said := strings.Join(lines, "\n")
	for i, action := range []string{"webhook.created", "webhook.rotated", "webhook.disabled", "webhook.enabled"} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], action) {
			t.Fatalf("audited: %s", said)
		}
	}
	if len(lines) != 4 || strings.Contains(said, "t0ken") || strings.Contains(said, strings.TrimSpace(secret)) {
		t.Errorf("audited: %s", said)
	}
}

func TestWebhooksCommandsRefuse(t *testing.T) {
	t.Parallel()
	o := operator{t, databaseOfTest(t)}
	for want, args := range map[string][]string{
		"There is no such tenant":         {"webhooks", "create", "--tenant=nobody", "--name=erp", "--url=https://erp.example/"},
		"/url must begin with https://":   {"webhooks", "create", "--tenant=acme", "--name=erp", "--url=http://erp.example/"},
		"/url must not lead to a private": {"webhooks", "create", "--tenant=acme", "--name=erp", "--url=https://169.254.169.254/"},
		"/event_types/0 is none of":       {"webhooks", "create", "--tenant=acme", "--name=erp", "--url=https://erp.example/", "--events=all"},
		"There is no such webhook":        {"webhooks", "rotate", "--tenant=acme", "--name=nobody"},
	} {
		status, stdout, stderr := o.try(append(args, "--reason=a test")...)
		if status != 1 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, %q does not say %q", args, status, stdout+stderr, want)
		}
	}
}
