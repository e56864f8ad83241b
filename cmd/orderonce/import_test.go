package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"orderonce/cmd/orderonce/orderoncetest"
)

// A file of orders into a running server, said twice; then what operators see of it, and do about it.
func TestFileIsImported(t *testing.T) {
	t.Parallel()
	d := startDev(t, dataDir(t))
	dir := t.TempDir()
	var lines []string
	for i := range 150 {
		lines = append(lines, orderoncetest.Order(map[string]any{"client_order_id": fmt.Sprint("bulk-", i)}))
	}
	good := filepath.Join(dir, "good.ndjson")
	write(t, good, strings.Join(lines, "\n"))
	imports := func(args ...string) (int, string, string) {
		t.Helper()
		return run(t, []string{"ORDERONCE_IMPORT_KEY=" + d.Keys["acme"]}, append([]string{"import", "--url=" + d.BaseURL}, args...)...)
	}
	for range 2 {
		status, stdout, stderr := imports(good)
		if status != 0 || stdout != "" || !strings.Contains(stderr, "150/150, 0 rejected, succeeded") || !strings.Contains(stderr, "[##############################]") {
			t.Fatalf("status %d: %s%s", status, stdout, stderr)
		}
	}
	lines[3] = orderoncetest.Order(map[string]any{"client_order_id": "bulk-3", "currency": "XXX"})
	document := filepath.Join(dir, "bad.json")
	write(t, document, `{"orders":[`+strings.Join(lines[:10], ",")+`]}`)
	status, stdout, stderr := imports(document, "--reserve-inventory")
	if status != 1 || !strings.HasPrefix(stdout, "row 3 bulk-3: validation_failed: ") || !strings.Contains(stdout, "/currency") || !strings.Contains(stderr, "1 of 10 rows were rejected") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	broken := filepath.Join(dir, "broken.json")
	write(t, broken, `{"orders":[}`)
	for _, wrong := range [][]string{{broken}, {filepath.Join(dir, "none.json")}, {good, "--format=csv"}, {good, "--url=nowhere"}, {good, "--key=oo_live_x"}} {
		if status, _, stderr := imports(wrong...); status != 1 || stderr == "" {
			t.Errorf("%v: status %d: %s", wrong, status, stderr)
		}
	}

	o := operator{t, d.DatabaseURL}
	var tasks []struct {
		ID    string
		State string
		Token int
		Total int
	}
	if err := json.Unmarshal([]byte(o.do("tasks", "list", "--tenant=acme", "--output=json")), &tasks); err != nil || len(tasks) != 2 {
		t.Fatalf("%+v, %v", tasks, err)
	}
	if got := o.do("tasks", "list", "--state=failed"); strings.Count(got, "\n") != 1 {
		t.Errorf("%s", got)
	}
	of := func(verb string) []string { return []string{"tasks", verb, tasks[0].ID, "--tenant=acme"} }
	if got := o.do(of("show")...); !regexp.MustCompile(tasks[0].ID + ` +importOrders +succeeded +10/10`).MatchString(got) {
		t.Errorf("%s", got)
	}
	if status, _, stderr := o.try(append(of("cancel"), "--reason=too late")...); status != 1 || !strings.Contains(stderr, "The task is succeeded") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if status, _, stderr := o.try(append(of("retry"), "--reason=once more")...); status != 1 || !strings.Contains(stderr, "task_not_retryable") {
		t.Errorf("status %d: %s", status, stderr)
	}
	// One that waits for its time is cancelled, and one that has failed is sent on its way again; each said twice.
	conn, err := pgx.Connect(t.Context(), d.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	revive := `UPDATE tasks SET state = '%s', reason = %s, retryable = %s, due_at = %s, ended_at = %s, result_expires_at = %s WHERE id = $1`
	for _, step := range []struct{ sql, verb, want string }{
		{fmt.Sprintf(revive, "processing", "NULL", "false", "now() + interval '1 hour'", "NULL", "NULL"), "cancel", "failed"},
		{fmt.Sprintf(revive, "failed", "'stalled'", "true", "NULL", "now()", "now() + interval '1 hour'"), "retry", "(processing|succeeded)"},
	} {
		if _, err := conn.Exec(t.Context(), step.sql, tasks[1].ID); err != nil {
			t.Fatal(err)
		}
		verb := []string{"tasks", step.verb, tasks[1].ID, "--tenant=acme"}
		if got := o.change(verb...); !regexp.MustCompile("^task " + tasks[1].ID + " is " + step.want + "\n$").MatchString(got) {
			t.Errorf("%s: %q", step.verb, got)
		}
		if step.verb == "cancel" {
			o.change(verb...)
		}
	}
	var entries int
	err = conn.QueryRow(t.Context(), "SELECT count(*) FROM audit_log WHERE subject_type = 'task' AND reason = 'ticket 17'").Scan(&entries)
	if err != nil || entries != 2 {
		t.Errorf("%d entries in the audit log, %v", entries, err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
