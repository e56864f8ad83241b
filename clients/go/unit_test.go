package orderonce_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	orderonce "orderonce/clients/go"
	"orderonce/clients/go/api"
)

// What comes back from a store is the same request, whatever its JSON library makes of the text.
func TestIntentSurvivesAStore(t *testing.T) {
	t.Parallel()
	metadata := orderonce.PlaceOrder{Metadata: &orderonce.Metadata{"b": "<&> \u2028 é", "a": "\"\\\n"}}
	intent, err := orderonce.NewOrder(metadata)
	must(t, err)
	text, err := json.MarshalIndent(intent, "", "\t")
	must(t, err)
	var back map[string]any
	must(t, json.Unmarshal(text, &back))
	text, err = json.Marshal(back)
	must(t, err)
	var stored orderonce.Intent
	must(t, json.Unmarshal(text, &stored))
	again, err := json.Marshal(stored)
	must(t, err)
	if first, err := json.Marshal(intent); err != nil || string(again) != string(first) {
		t.Errorf("stored %s, got back %s", first, again)
	}
	if key, err := uuid.Parse(intent.Key); err != nil || key.Version() != 7 {
		t.Errorf("the key %s is no UUIDv7", intent.Key)
	}
}

// A base URL that requests would go astray with is refused before there are any.
func TestBaseURL(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "orders.example.org", "/orders", "ftp://orders.example.org", "https://", "https://x/?a=b", "https://x/#y", "http://[::1"} {
		if _, err := orderonce.New(bad, "key"); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Idempotency-Replayed", "false")
		_ = json.NewEncoder(w).Encode(r.URL.Path)
	}))
	defer server.Close()
	for _, base := range []string{server.URL + "/api", server.URL + "/api/"} {
		client, err := orderonce.New(base, "key")
		must(t, err)
		intent, err := orderonce.NewIntent("someOperation", http.MethodPost, "/things", nil)
		must(t, err)
		result, err := client.Do(t.Context(), intent)
		if must(t, err); string(result.Body) != "\"/api/things\"\n" || result.Kind != orderonce.Created {
			t.Errorf("%s: %s %s", base, result.Kind, result.Body)
		}
	}
}

// The credential goes to its own server and nowhere else.
func TestCredentialStaysWithItsServer(t *testing.T) {
	t.Parallel()
	var asked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer other.Close()
	client, err := orderonce.New("https://orders.example.org", "key")
	must(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, other.URL, nil)
	must(t, err)
	response, err := client.HTTP().Do(r)
	if err == nil {
		must(t, response.Body.Close())
	}
	if err == nil || asked.Load() {
		t.Errorf("another server was asked: %v", err)
	}
}

// A task is looked at as often as the service asks, until it is no longer processing. A gateway's page is no news of it.
func TestWaitForTask(t *testing.T) {
	t.Parallel()
	id := uuid.Must(uuid.NewV7())
	var looks atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/tasks/"+id.String() || r.Header.Get("Authorization") != "Bearer key" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch looks.Add(1) {
		case 1, 3:
			w.Header().Set("Retry-After", "7")
			_, _ = fmt.Fprintf(w, `{"id": %q, "state": "processing", "progress": {"done": 1, "total": 2}}`, id)
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		default:
			_, _ = fmt.Fprintf(w, `{"id": %q, "state": "succeeded", "progress": {"done": 2, "total": 2}, "new": true}`, id)
		}
	}))
	defer server.Close()
	p := &pauses{}
	client, err := orderonce.New(server.URL, "key", orderonce.WithPolicy(orderonce.Policy{Pause: p.note}))
	must(t, err)
	task, err := client.WaitForTask(t.Context(), id)
	if must(t, err); task.State != api.TaskStateSucceeded || task.Progress.Done != 2 {
		t.Errorf("%+v", task)
	}
	if len(p.ms) != 3 || p.ms[0] < 7000 || p.ms[1] >= 7000 || p.ms[2] < 7000 {
		t.Errorf("pauses: %v ms", p.ms)
	}
	if task, err := client.WaitForTask(t.Context(), uuid.Nil); err == nil {
		t.Errorf("a task that is not there: %+v", task)
	}
}
