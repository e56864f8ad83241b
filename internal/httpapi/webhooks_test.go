package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orderonce/internal/effects/webhooks"
	"orderonce/internal/httpapi/api"
	"orderonce/internal/identity"
)

// post sends a keyed request of a tenant's about its webhooks; a nil body is none.
func (w *world) post(key, path string, body map[string]any, options ...option) answer {
	w.t.Helper()
	options = append([]option{with(keyHeader, key)}, options...)
	if body == nil {
		return w.send(http.MethodPost, path, nil, options...)
	}
	text, err := json.Marshal(body)
	w.must(err)
	return w.send(http.MethodPost, path, strings.NewReader(string(text)), append(options, with("Content-Type", "application/json"))...)
}

func newHook(name string) map[string]any {
	return map[string]any{"name": name, "url": "https://hooks.example/in"}
}

func (w *world) hook(key, name string) api.Webhook {
	w.t.Helper()
	return read[api.Webhook](w.t, w.post(key, "/webhooks", newHook(name)), 201)
}

// A tenant's own way through a webhook's life, each request sent twice.
func TestTenantManagesItsWebhooks(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	body := map[string]any{
		"name": "erp", "url": "https://hooks.example/in",
		"event_types": []string{"orderonce.order.created.v1", "orderonce.order.cancelled.v1", "orderonce.order.created.v1"},
	}
	hook := read[api.Webhook](t, w.post(key, "/webhooks", body), 201)
	if hook.Secret == nil || !strings.HasPrefix(*hook.Secret, "whsec_") || !hook.Active || len(hook.EventTypes) != 2 {
		t.Fatalf("%+v", hook)
	}
	known := hook
	known.Secret = nil
	replay := w.post(key, "/webhooks", body)
	if diff := cmp.Diff(known, read[api.Webhook](t, replay, 201)); diff != "" || replay.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the replay (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(known, read[api.Webhook](t, w.post(freshKey(), "/webhooks", body), 200)); diff != "" {
		t.Errorf("under another key (-want +got)\n%s", diff)
	}
	taken := freshKey()
	refused := w.post(taken, "/webhooks", newHook("erp"))
	wantProblem(t, refused, 409, "name_taken")
	wantReplay(t, refused, w.post(taken, "/webhooks", newHook("erp")))

	path := "/webhooks/" + hook.Id.String()
	rotating := freshKey()
	rotated := read[api.Webhook](t, w.post(rotating, path+"/rotate-secret", map[string]any{}), 200)
	if rotated.Secret == nil || *rotated.Secret == *hook.Secret {
		t.Errorf("rotated: %+v", rotated)
	}
	if again := read[api.Webhook](t, w.post(rotating, path+"/rotate-secret", map[string]any{"overlap_seconds": 86400}), 200); again.Secret != nil {
		t.Error("a replay shows the secret")
	}

	off := freshKey()
	first := w.post(off, path+"/disable", nil)
	if got := read[api.Webhook](t, first, 200); got.Active || got.DisabledReason == nil || *got.DisabledReason != api.Requested {
		t.Errorf("disabled: %+v", got)
	}
	on := freshKey()
	if got := read[api.Webhook](t, w.post(on, path+"/enable", nil), 200); !got.Active || got.DisabledReason != nil {
		t.Errorf("enabled: %+v", got)
	}
	wantReplay(t, first, w.post(off, path+"/disable", nil)) // what it was then, and it stays enabled

	page := read[api.WebhookPage](t, w.get("/webhooks"), 200)
	if diff := cmp.Diff([]api.Webhook{known}, page.Webhooks); diff != "" {
		t.Errorf("the list (-want +got)\n%s", diff)
	}
	other := w.hook(freshKey(), "mail")
	page = read[api.WebhookPage](t, w.get("/webhooks?page_size=1"), 200)
	if len(page.Webhooks) != 1 || page.Webhooks[0].Id != other.Id || page.NextPageToken == nil {
		t.Fatalf("the first page: %+v", page)
	}
	page = read[api.WebhookPage](t, w.get("/webhooks?page_size=1&page_token="+*page.NextPageToken), 200)
	if len(page.Webhooks) != 1 || page.Webhooks[0].Id != hook.Id || page.NextPageToken != nil {
		t.Errorf("the last page: %+v", page)
	}
	var kept int
	w.must(w.connect().QueryRow(t.Context(), `SELECT count(*) FROM idempotency_requests
		WHERE encode(response_body, 'escape') LIKE '%whsec\_%' OR response_headers::text LIKE '%whsec\_%'`).Scan(&kept))
	if kept > 0 {
		t.Error("a secret is kept with the answers")
	}
}

func TestWebhookRequestsAreJudged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for pointer, bodies := range map[string][]map[string]any{
		"/name": {{"name": "Erp", "url": "https://a.example"}, {"url": "https://a.example"}},
		"/url": {
			{"name": "erp"},
			{"name": "erp", "url": ""},
			{"name": "erp", "url": "http://a.example"},
			{"name": "erp", "url": "https://10.0.0.1/"},
			{"name": "erp", "url": "https://[::ffff:169.254.169.254]/"},
			{"name": "erp", "url": "https://u" + ":p@a.example"},
			{"name": "erp", "url": "https://a.example/\u0001"},
			{"name": "erp", "url": "https://a.example/" + strings.Repeat("x", 2048)},
		},
		"/event_types/0": {{"name": "erp", "url": "https://a.example", "event_types": []string{"order.created"}}},
	} {
		for _, body := range bodies {
			a := w.post(freshKey(), "/webhooks", body)
			if a.status != 422 || len(a.Errors) == 0 || !strings.HasPrefix(a.Errors[0].Pointer, pointer) {
				t.Errorf("%v: %d %s", body, a.status, a.body)
			}
		}
	}
	hook := w.hook(freshKey(), "erp")
	path := "/webhooks/" + hook.Id.String()
	for _, seconds := range []any{-1, 2592001, "1d"} {
		if a := w.post(freshKey(), path+"/rotate-secret", map[string]any{"overlap_seconds": seconds}); a.status != 422 {
			t.Errorf("an overlap of %v: %d %s", seconds, a.status, a.body)
		}
	}
	_, stranger := w.principal("globex", "shop", identity.TenantScopes()...)
	for _, verb := range []string{"/disable", "/enable"} {
		wantProblem(t, w.post(freshKey(), "/webhooks/"+freshKey()+verb, nil), 404, "not_found")
		wantProblem(t, w.post(freshKey(), path+verb, nil, as(stranger)), 404, "not_found")
	}
	wantProblem(t, w.post(freshKey(), path+"/rotate-secret", map[string]any{}, as(stranger)), 404, "not_found")
	if page := read[api.WebhookPage](t, w.get("/webhooks", as(stranger)), 200); len(page.Webhooks) > 0 {
		t.Errorf("another tenant sees %+v", page)
	}

	for range 4 { // beside the first
		_ = read[api.Webhook](t, w.post(freshKey(), path+"/rotate-secret", map[string]any{}), 200)
	}
	full := freshKey()
	refused := w.post(full, path+"/rotate-secret", map[string]any{})
	wantProblem(t, refused, 409, "limit_reached")
	wantReplay(t, refused, w.post(full, path+"/rotate-secret", map[string]any{}))
	for i := 1; i < webhooks.MaxActive; i++ {
		w.hook(freshKey(), "hook-"+freshKey()[30:]+string(rune('a'+i)))
	}
	wantProblem(t, w.post(freshKey(), "/webhooks", newHook("one-too-many")), 409, "limit_reached")
	_ = read[api.Webhook](t, w.post(freshKey(), path+"/disable", nil), 200)
	w.hook(freshKey(), "in-its-place")
	wantProblem(t, w.post(freshKey(), path+"/enable", nil), 409, "limit_reached")
}

// The contract and the module name the same events.
func TestEventTypesAreTheModules(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var contract []string
	for _, name := range w.server.spec.doc.Components.Schemas["EventType"].Value.Enum {
		contract = append(contract, name.(string))
	}
	if !slices.Equal(contract, webhooks.EventTypes()) {
		t.Errorf("openapi.yaml has %v", contract)
	}
}
