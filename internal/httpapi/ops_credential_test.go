package httpapi

import (
	"strings"
	"testing"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/identity"
)

// A secret is shown in the first answer and is nowhere afterwards: not in a replay, a list, or a table.
func TestSecretIsShownOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	path, principal := w.customer("initech")
	body := map[string]any{"name": "2026-11", "principal_id": principal.Id, "scopes": []string{identity.OrdersRead}}
	key := freshKey()
	made := read[api.APIKey](t, w.change(key, path+"/api-keys", body), 201)
	keys := path + "/api-keys/" + made.Id.String()
	rotation := map[string]any{"name": "2026-12"}
	rotateKey := freshKey()
	rotated := read[api.APIKey](t, w.change(rotateKey, keys+"/rotate", rotation), 201)
	if made.Secret == nil || rotated.Secret == nil || rotated.PrincipalId != made.PrincipalId || rotated.Id == made.Id {
		t.Fatalf("%+v\n%+v", made, rotated)
	}
	later := map[string]answer{
		"replay":             w.change(key, path+"/api-keys", body),
		"the name again":     w.change(freshKey(), path+"/api-keys", map[string]any{"name": "2026-12", "principal_id": principal.Id, "scopes": []string{identity.OrdersRead}}),
		"replay of rotation": w.change(rotateKey, keys+"/rotate", map[string]any{"name": "2026-12", "overlap_seconds": 86400}), // the default
		"the rotation again": w.change(freshKey(), keys+"/rotate", rotation),
		"list":               w.get(path+"/api-keys", as(w.operator)),
		"audit log":          w.get("/ops/audit-log", as(w.operator)),
	}
	for name, want := range map[string]int{"replay": 201, "the name again": 200, "replay of rotation": 201, "the rotation again": 200, "list": 200, "audit log": 200} {
		a := later[name]
		if a.status != want || strings.Contains(string(a.body), "secret") || strings.Contains(string(a.body), *made.Secret) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if replayed := a.header.Get("Idempotency-Replayed") == "true"; replayed != strings.HasPrefix(name, "replay") {
			t.Errorf("%s: replayed %t", name, replayed)
		}
	}
	if again := read[api.APIKey](t, later["replay"], 201); again.Id != made.Id || again.ExpiresAt == nil {
		t.Errorf("the replay does not show the key as it is: %+v", again)
	}
	for _, text := range []string{*made.Secret, *rotated.Secret} {
		secret := strings.Split(text, "_")[3]
		for _, table := range []string{"idempotency_requests", "audit_log", "api_keys", "outbox_events"} {
			var found bool
			w.must(w.connect().QueryRow(t.Context(), `SELECT coalesce(bool_or(encode(convert_to(r::text, 'UTF8'), 'escape') LIKE '%' || $1 || '%'
				OR r::text LIKE '%' || encode(convert_to($1, 'UTF8'), 'hex') || '%'), false) FROM `+table+` r`, secret).Scan(&found))
			if found {
				t.Errorf("the secret lies in %s", table)
			}
		}
	}
}

// Case 20, on two servers that both remember the key: a revocation counts from the next request on each of them.
func TestRevocationCountsOnEveryServerAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	second := w.beside()
	path, principal := w.customer("initech")
	// Each way to end a credential, and the way back where there is one.
	for name, end := range map[string]struct {
		path func(key string) string
		back string
	}{
		"key revoked":           {func(key string) string { return path + "/api-keys/" + key + "/revoke" }, ""},
		"principal deactivated": {func(string) string { return path + "/principals/" + principal.Id.String() + "/deactivate" }, path + "/principals/" + principal.Id.String() + "/activate"},
		"tenant deactivated":    {func(string) string { return path + "/deactivate" }, path + "/activate"},
	} {
		made := read[api.APIKey](t, w.change(freshKey(), path+"/api-keys", map[string]any{
			"name": freshKey(), "principal_id": principal.Id, "scopes": identity.TenantScopes(),
		}), 201)
		caller := as(*made.Secret)
		key := freshKey()
		first := w.place(key, order(), caller)
		wantCreated(t, first, "false")
		for _, server := range []*world{w, second} {
			wantReplay(t, first, server.place(key, order(), caller)) // now each of them remembers it
			if _, remembered := server.server.modules.Keyring.Recall(*made.Secret); !remembered {
				t.Fatalf("%s: not remembered", name)
			}
		}
		before := w.rows()
		ended := freshKey()
		if a := w.change(ended, end.path(made.Id.String()), nil); a.status != 200 {
			t.Fatalf("%s: %d %s", name, a.status, a.body)
		}
		for _, server := range []*world{second, w} {
			wantProblem(t, server.place(freshKey(), order(), caller), 401, "unauthenticated")
			wantProblem(t, server.place(key, order(), caller), 403, "replay_forbidden")
			wantProblem(t, server.get("/orders", caller), 401, "unauthenticated")
		}
		before.records++ // the operator's
		w.wantRows(before)
		if end.back != "" {
			if a := second.change(freshKey(), end.back, nil); a.status != 200 {
				t.Fatalf("%s: %d %s", name, a.status, a.body)
			}
			wantReplay(t, first, w.place(key, order(), caller))
		}
	}
}
