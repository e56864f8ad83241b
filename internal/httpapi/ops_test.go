package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/identity"
)

// change sends an operator's change under a key; its body gets a reason.
func (w *world) change(key, path string, body map[string]any, options ...option) answer {
	w.t.Helper()
	members := map[string]any{"reason": "a test"}
	for name, value := range body {
		members[name] = value
	}
	text, err := json.Marshal(members)
	w.must(err)
	options = append([]option{as(w.operator), with(keyHeader, key), with("Content-Type", "application/json")}, options...)
	return w.send(http.MethodPost, path, strings.NewReader(string(text)), options...)
}

func read[T any](t *testing.T, a answer, status int) (thing T) {
	t.Helper()
	if a.status != status {
		t.Fatalf("got %d, want %d: %s", a.status, status, a.body)
	}
	if err := json.Unmarshal(a.body, &thing); err != nil {
		t.Fatal(err)
	}
	return thing
}

// customer makes a tenant with a principal through the API.
func (w *world) customer(name string) (path string, principal api.Principal) {
	w.t.Helper()
	tenant := read[api.Tenant](w.t, w.change(freshKey(), "/ops/tenants", map[string]any{"name": name}), 201)
	path = "/ops/tenants/" + tenant.Id.String()
	return path, read[api.Principal](w.t, w.change(freshKey(), path+"/principals", map[string]any{"name": "shop"}), 201)
}

func (w *world) audited(tenant string) (actions []string) {
	w.t.Helper()
	page := read[api.AuditLogPage](w.t, w.get("/ops/audit-log?page_size=100&tenant_id="+tenant, as(w.operator)), 200)
	for _, entry := range page.Entries {
		actions = append(actions, entry.Action)
	}
	slices.Reverse(actions)
	return actions
}

// An operator sets a customer up, and what is sent twice, under one key or under two, is there once.
func TestOperatorSetsATenantUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	first := w.change(key, "/ops/tenants", map[string]any{"name": "initech"})
	tenant := read[api.Tenant](t, first, 201)
	if !tenant.Active || tenant.Operator || tenant.Name != "initech" {
		t.Errorf("%+v", tenant)
	}
	wantReplay(t, first, w.change(key, "/ops/tenants", map[string]any{"name": "initech"}))
	wantReplay(t, first, w.change(key, "/ops/tenants", map[string]any{"name": "initech", "operator": false})) // the default
	if again := read[api.Tenant](t, w.change(freshKey(), "/ops/tenants", map[string]any{"name": "initech"}), 200); again != tenant {
		t.Errorf("%+v", again)
	}
	wantProblem(t, w.change(key, "/ops/tenants", map[string]any{"name": "initrode"}), 409, "idempotency_key_reused")
	taken := freshKey()
	refused := w.change(taken, "/ops/tenants", map[string]any{"name": "initech", "operator": true})
	wantProblem(t, refused, 409, "name_taken")
	wantReplay(t, refused, w.change(taken, "/ops/tenants", map[string]any{"name": "initech", "operator": true}))

	path := "/ops/tenants/" + tenant.Id.String()
	principal := read[api.Principal](t, w.change(freshKey(), path+"/principals", map[string]any{"name": "shop"}), 201)
	made := read[api.APIKey](t, w.change(freshKey(), path+"/api-keys", map[string]any{
		"name": "2026-11", "principal_id": principal.Id, "scopes": []string{identity.OrdersCreate, identity.OrdersRead},
	}), 201)
	if made.Secret == nil || !strings.HasPrefix(*made.Secret, made.Prefix+"_") || made.LastUsedAt != nil {
		t.Fatalf("%+v", made)
	}
	wantCreated(t, w.place(freshKey(), order(), as(*made.Secret)), "false")

	// All of it was one change each, of the tenant that it was about.
	if got, want := w.audited(tenant.Id.String()), []string{"tenant.created", "principal.created", "api_key.created"}; !slices.Equal(got, want) {
		t.Errorf("audited: %v", got)
	}
	// The records are of the operator's own tenant, whatever tenant the rows are of.
	var foreign int
	w.must(w.connect().QueryRow(t.Context(), `SELECT count(*) FROM idempotency_requests r JOIN tenants t USING (tenant_id)
		WHERE operation <> 'createOrder' AND NOT t.operator`).Scan(&foreign))
	if foreign > 0 {
		t.Errorf("%d records lie with the tenants", foreign)
	}
}

// What is not there is 404, what is not alive says so, and what the rules refuse says where.
func TestOperatorIsToldWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := setup(t)
	path, principal := w.customer("initech")
	other, _ := w.customer("initrode")
	nobody := "/ops/tenants/" + freshKey()
	newKey := func(name string, change ...func(map[string]any)) map[string]any {
		body := map[string]any{"name": name, "principal_id": principal.Id, "scopes": []string{identity.OrdersRead}}
		for _, c := range change {
			c(body)
		}
		return body
	}
	made := read[api.APIKey](t, w.change(freshKey(), path+"/api-keys", newKey("first")), 201)
	keyPath := "/api-keys/" + made.Id.String()
	for name, a := range map[string]answer{
		"unknown tenant":               w.change(freshKey(), nobody+"/deactivate", nil),
		"unknown tenant's principal":   w.change(freshKey(), nobody+"/principals", map[string]any{"name": "shop"}),
		"unknown tenant's key":         w.change(freshKey(), nobody+"/api-keys", newKey("a")),
		"unknown principal":            w.change(freshKey(), path+"/principals/"+freshKey()+"/deactivate", nil),
		"another tenant's principal":   w.change(freshKey(), other+"/principals/"+principal.Id.String()+"/deactivate", nil),
		"key of an unknown principal":  w.change(freshKey(), path+"/api-keys", newKey("a", set("principal_id", uuid.Max))),
		"unknown key":                  w.change(freshKey(), path+"/api-keys/"+freshKey()+"/revoke", nil),
		"another tenant's key":         w.change(freshKey(), other+keyPath+"/revoke", nil),
		"rotate another tenant's key":  w.change(freshKey(), other+keyPath+"/rotate", map[string]any{"name": "a"}),
		"list of an unknown tenant":    w.get(nobody+"/principals", as(w.operator)),
		"keys of an unknown principal": w.get(path+"/api-keys?principal_id="+uuid.Nil.String(), as(w.operator)),
	} {
		if a.status != 404 || a.Code != "not_found" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	for pointer, body := range map[string]map[string]any{
		"/scopes":     newKey("a", set("scopes", []string{identity.OpsWrite})),
		"/expires_at": newKey("a", set("expires_at", time.Now().Add(-time.Hour))),
		"/name":       newKey("A"),
		"/reason":     newKey("a", set("reason", "no")),
	} {
		a := w.change(freshKey(), path+"/api-keys", body)
		if a.status != 422 || a.Code != "validation_failed" || len(a.Errors) != 1 || a.Errors[0].Pointer != pointer {
			t.Errorf("%s: %d %s", pointer, a.status, a.body)
		}
	}
	wantProblem(t, w.change(freshKey(), path+"/api-keys", newKey("first", set("scopes", []string{identity.OrdersCancel}))), 409, "name_taken")
	if a := w.change(freshKey(), path+keyPath+"/revoke", nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	wantProblem(t, w.change(freshKey(), path+keyPath+"/rotate", map[string]any{"name": "a"}), 409, "not_active")
	if a := w.change(freshKey(), path+"/deactivate", nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	wantProblem(t, w.change(freshKey(), path+"/api-keys", newKey("a")), 409, "not_active")
	wantProblem(t, w.change(freshKey(), path+"/principals", map[string]any{"name": "later"}), 409, "not_active")
}

// Only a credential with the scope, of an operators' tenant, reaches beyond its own tenant.
func TestOpsAreForOperators(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, reader := w.principal("operations", "reader", identity.OpsRead)
	before := w.rows()
	for _, caller := range []string{w.token, reader} {
		wantProblem(t, w.change(freshKey(), "/ops/tenants", map[string]any{"name": "initech"}, as(caller)), 403, "forbidden")
	}
	wantProblem(t, w.get("/ops/tenants", as(w.token)), 403, "forbidden")
	wantProblem(t, w.get("/orders", as(w.operator)), 403, "forbidden") // an operator is no customer
	if a := w.get("/ops/tenants", as(reader)); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	// A scope that came into a customer's row by another way is not honoured, by a server that remembers the key either.
	if a := w.get("/orders"); a.status != 200 {
		t.Fatal(a.status)
	}
	w.exec("UPDATE api_keys SET scopes = scopes || '{ops:read,ops:write}'")
	wantProblem(t, w.get("/ops/tenants", as(w.token)), 403, "forbidden")
	wantProblem(t, w.change(freshKey(), "/ops/tenants", map[string]any{"name": "initech"}, as(w.token)), 403, "forbidden")
	// And an operator's counts only as long as its tenant is the operators'.
	key := freshKey()
	a := w.change(key, "/ops/tenants", map[string]any{"name": "initech"})
	read[api.Tenant](t, a, 201)
	w.exec("UPDATE tenants SET operator = false")
	wantProblem(t, w.change(key, "/ops/tenants", map[string]any{"name": "initech"}), 403, "replay_forbidden")
	wantProblem(t, w.get("/ops/audit-log", as(w.operator)), 403, "forbidden")
	before.records++
	w.wantRows(before)
}

// Fifty operators press the button: one tenant, one entry.
func TestParallelCreationsMakeOneTenant(t *testing.T) {
	t.Parallel()
	w := setup(t)
	made := 0
	for _, a := range storm(t, 50, func(int) (answer, error) {
		return w.try(http.MethodPost, "/ops/tenants", strings.NewReader(`{"name":"initech","reason":"a test"}`),
			as(w.operator), with(keyHeader, freshKey()), with("Content-Type", "application/json"))
	}) {
		if a.status == http.StatusCreated {
			made++
		} else if a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
}

// Lists have pages that stay what they were while items are added.
func TestOpsListsHavePages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var want []string
	for _, name := range []string{"initech", "initrode", "hooli"} {
		tenant := read[api.Tenant](t, w.change(freshKey(), "/ops/tenants", map[string]any{"name": name}), 201)
		want = append([]string{tenant.Name}, want...)
	}
	want = append(want, "operations", "acme")
	var got []string
	for path := "/ops/tenants?page_size=2"; path != ""; {
		page := read[api.TenantPage](t, w.get(path, as(w.operator)), 200)
		for _, tenant := range page.Tenants {
			got = append(got, tenant.Name)
		}
		path = ""
		if page.NextPageToken != nil {
			path = "/ops/tenants?page_size=2&page_token=" + *page.NextPageToken
		}
		w.principal("late-"+uuid.NewString(), "shop")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	wantProblem(t, w.get("/ops/tenants?page_token=x", as(w.operator)), 400, "invalid_request")
}

// The last use is told, once a server has written it.
func TestLastUseIsTold(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.get("/orders")
	before := time.Now()
	w.get("/orders") // remembered by now
	w.must(w.server.modules.Keyring.WriteUses(t.Context()))
	page := read[api.APIKeyPage](t, w.get("/ops/tenants/"+w.tenant.String()+"/api-keys", as(w.operator)), 200)
	if len(page.ApiKeys) != 1 || page.ApiKeys[0].LastUsedAt == nil || page.ApiKeys[0].LastUsedAt.Before(before.Truncate(time.Microsecond)) {
		t.Errorf("%+v", page)
	}
}
