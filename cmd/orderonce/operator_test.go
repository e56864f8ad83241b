package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"orderonce/cmd/orderonce/orderoncetest"
)

// operator runs commands on one database.
type operator struct {
	t        *testing.T
	database string
}

func (o operator) try(args ...string) (status int, stdout, stderr string) {
	o.t.Helper()
	return run(o.t, []string{"ORDERONCE_DATABASE_URL=" + o.database}, args...)
}

func (o operator) do(args ...string) (stdout string) {
	o.t.Helper()
	status, stdout, stderr := o.try(args...)
	if status != 0 {
		o.t.Fatalf("%v: status %d: %s", args, status, stderr)
	}
	return stdout
}

func (o operator) change(args ...string) string {
	o.t.Helper()
	return o.do(append(args, "--reason=ticket 17")...)
}

// What an operator does by hand: a customer's whole life, each step said twice.
func TestOperatorsCommands(t *testing.T) {
	t.Parallel()
	d := startDev(t, dataDir(t))
	o := operator{t, d.DatabaseURL}
	for _, want := range []string{"made tenant initech\n", "tenant initech is there already\n"} {
		if got := o.change("tenants", "create", "--tenant=initech"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, want := range []string{"made principal shop of initech\n", "principal shop of initech is there already\n"} {
		if got := o.change("principals", "create", "--tenant=initech", "--principal=shop"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	shop := []string{"--tenant=initech", "--principal=shop"}
	key := o.change(append(shop, "keys", "create", "--name=2026-11")...)
	if !regexp.MustCompile(`^oo_live_\w+\n$`).MatchString(key) {
		t.Fatalf("not a key alone: %q", key)
	}
	client := orderoncetest.NewClient(d.BaseURL, strings.TrimSpace(key))
	wantFirst(t, client.Place(t, orderoncetest.NewKey(), orderoncetest.Order(nil)))
	// Once: said again it gives no other key, and says so instead of printing nothing.
	status, stdout, stderr := o.try(append(shop, "keys", "create", "--name=2026-11", "--reason=again")...)
	if status != 1 || stdout != "" || !strings.Contains(stderr, "there is a key 2026-11 already") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}

	rotated := o.change(append(shop, "keys", "rotate", "--name=2026-11", "--new-name=2026-12")...)
	next := orderoncetest.NewClient(d.BaseURL, strings.TrimSpace(rotated))
	wantFirst(t, next.Place(t, orderoncetest.NewKey(), orderoncetest.Order(nil)))
	for range 2 {
		o.change(append(shop, "keys", "revoke", "--name=2026-12")...)
	}
	if a := next.Place(t, orderoncetest.NewKey(), orderoncetest.Order(nil)); a.Status != http.StatusUnauthorized {
		t.Errorf("a revoked key: %d %s", a.Status, a.Body)
	}
	for _, noun := range []string{"principals", "tenants"} {
		for _, step := range []struct {
			verb   string
			status int
		}{{"deactivate", http.StatusUnauthorized}, {"activate", http.StatusCreated}} {
			args := []string{noun, step.verb, "--tenant=initech"}
			if noun == "principals" {
				args = append(args, "--principal=shop")
			}
			o.change(args...)
			o.change(args...)
			if a := client.Place(t, orderoncetest.NewKey(), orderoncetest.Order(nil)); a.Status != step.status {
				t.Errorf("%v: %d %s", args, a.Status, a.Body)
			}
		}
	}
	// Each change once, by whom and why.
	if n := d.query(t, `SELECT count(*) FROM audit_log a JOIN tenants t USING (tenant_id)
		WHERE t.name = 'initech' AND actor LIKE 'cli:_%' AND reason = 'ticket 17'`); n != 9 {
		t.Errorf("%d entries in the audit log", n)
	}
	var keys []map[string]any
	must(t, json.Unmarshal([]byte(o.do("keys", "list", "--tenant=initech", "--output=json")), &keys))
	if len(keys) != 2 || keys[0]["name"] != "2026-12" || keys[0]["revoked_at"] == nil || keys[1]["expires_at"] == nil {
		t.Errorf("%v", keys)
	}
	for _, list := range [][]string{{"tenants", "list"}, {"principals", "list", "--tenant=initech"}, {"keys", "list", "--tenant=initech", "--principal=shop"}} {
		if table := o.do(list...); !strings.Contains(table, "initech") && !strings.Contains(table, "shop") {
			t.Errorf("%v: %s", list, table)
		}
	}
}

// What cannot be done ends with a reason and changes nothing.
func TestOperatorsCommandsRefuse(t *testing.T) {
	t.Parallel()
	o := operator{t, databaseOfTest(t)}
	for want, args := range map[string][]string{
		`required flag(s) "reason" not set`: {"tenants", "create", "--tenant=initech"},
		"/reason must have 3 to 500":        {"tenants", "create", "--tenant=initech", "--reason=no"},
		"/name must be 1 to 63":             {"tenants", "create", "--tenant=Initech", "--reason=a test"},
		"There is a tenant operations":      {"tenants", "create", "--tenant=operations", "--reason=a test"},
		"There is no such tenant":           {"tenants", "deactivate", "--tenant=nobody", "--reason=a test"},
		"There is no such principal":        {"keys", "create", "--tenant=acme", "--principal=nobody", "--name=a", "--reason=a test"},
		"There is no such API key":          {"keys", "revoke", "--tenant=acme", "--principal=shop", "--name=a", "--reason=a test"},
		"for principals of an operators'":   {"keys", "create", "--tenant=acme", "--principal=shop", "--name=a", "--scopes=ops:read", "--reason=a test"},
		"must lie in the future":            {"keys", "create", "--tenant=acme", "--principal=shop", "--name=a", "--expires=-1h", "--reason=a test"},
		"acme has no principal nobody":      {"keys", "list", "--tenant=acme", "--principal=nobody"},
		"output: must be table or json":     {"tenants", "list", "--output=xml"},
	} {
		status, stdout, stderr := o.try(args...)
		if status != 1 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, %q does not say %q", args, status, stdout+stderr, want)
		}
	}
}

// Dev's operator works on /ops, for every tenant, and dev starts again whatever was closed there.
func TestDevsOperator(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	d := startDev(t, data)
	ops := orderoncetest.NewClient(d.BaseURL, d.Keys["ops"])
	a, err := ops.Do(t.Context(), http.MethodGet, "/ops/tenants", "", nil)
	must(t, err)
	var page struct{ Tenants []struct{ ID, Name string } }
	must(t, json.Unmarshal([]byte(a.Body), &page))
	if len(page.Tenants) != 3 || !strings.Contains(d.Stdout.String(), d.Keys["ops"]) {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	for _, tenant := range page.Tenants {
		if tenant.Name != "acme" {
			continue
		}
		a, err := ops.Do(t.Context(), http.MethodPost, "/ops/tenants/"+tenant.ID+"/deactivate", `{"reason":"a test"}`,
			http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {orderoncetest.NewKey()}})
		if err != nil || a.Status != http.StatusOK {
			t.Fatalf("%d %s %v", a.Status, a.Body, err)
		}
	}
	if a := d.acme.Place(t, orderoncetest.NewKey(), orderoncetest.Order(nil)); a.Status != http.StatusUnauthorized {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	d.Kill()
	wantFirst(t, startDev(t, data).acme.Place(t, orderoncetest.NewKey(), orderoncetest.Order(nil)))
}

// docs/identity.md: a production server logs in as a role that owns nothing. It is enough for serve and for operators, and
// not for more. And the owner needs no right to make roles, where the two were made before.
func TestLoginRoleThatOwnsNothingIsEnough(t *testing.T) {
	t.Parallel()
	d := startDev(t, dataDir(t))
	conn, err := pgx.Connect(t.Context(), d.DatabaseURL)
	must(t, err)
	defer conn.Close(t.Context())
	for _, sql := range []string{
		`CREATE ROLE orderonce_app LOGIN PASSWORD 'secret' IN ROLE orderonce_request, orderonce_worker`,
		`CREATE ROLE orderonce_owner LOGIN PASSWORD 'secret'`,
		`CREATE DATABASE production OWNER orderonce_owner`,
	} {
		_, err := conn.Exec(t.Context(), sql)
		must(t, err)
	}
	u, err := url.Parse(d.DatabaseURL)
	must(t, err)
	u.Path, u.User = "/production", url.UserPassword("orderonce_owner", "secret")
	operator{t, u.String()}.do("migrate", "up")
	u.User = url.UserPassword("orderonce_app", "secret")
	o := operator{t, u.String()}
	o.change("tenants", "create", "--tenant=acme")
	o.change("principals", "create", "--tenant=acme", "--principal=shop")
	key := o.change("keys", "create", "--tenant=acme", "--principal=shop", "--name=2026-11")
	_, ready := orderoncetest.StartServer(t, orderoncetest.Command{
		Binary: orderoncetest.Binary(t), Args: []string{"serve", "--drain-delay=0s"}, Env: []string{"ORDERONCE_DATABASE_URL=" + o.database},
	})
	client := orderoncetest.NewClient(ready.BaseURL, strings.TrimSpace(key))
	wantFirst(t, client.Place(t, orderoncetest.NewKey(), orderoncetest.Order(nil)))
	if status, _, stderr := o.try("migrate", "down"); status != 1 || !strings.Contains(stderr, "must be owner") && !strings.Contains(stderr, "permission denied") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// The last use of a key is written now and then; a server that stops in order leaves none unwritten.
func TestStoppedServerHasWrittenTheLastUses(t *testing.T) {
	t.Parallel()
	d := startDev(t, dataDir(t))
	o := operator{t, d.DatabaseURL}
	key := o.change("keys", "create", "--tenant=acme", "--principal=shop", "--name=mine")
	process, ready := orderoncetest.StartServer(t, orderoncetest.Command{
		Binary: orderoncetest.Binary(t), Args: []string{"serve", "--drain-delay=0s"}, Env: []string{"ORDERONCE_DATABASE_URL=" + o.database},
	})
	wantFirst(t, orderoncetest.NewClient(ready.BaseURL, strings.TrimSpace(key)).Place(t, orderoncetest.NewKey(), orderoncetest.Order(nil)))
	const used = `SELECT count(*) FROM api_keys WHERE name = 'mine' AND last_used_at IS NOT NULL`
	if d.query(t, used) != 0 {
		t.Error("written with the request")
	}
	process.Signal(t, syscall.SIGTERM)
	if status := process.Wait(t); status != 0 || d.query(t, used) != 1 {
		t.Errorf("status %d, and the last use is lost: %s", status, process.Stderr)
	}
}
