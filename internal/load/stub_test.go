package load

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
)

// stub answers as the server does: the first time with 201, from then on with the same body as a replay.
type stub struct {
	// answer, if there is one, may answer in the stub's place.
	answer func(w http.ResponseWriter, r *http.Request, first bool) (done bool)

	mu       sync.Mutex
	answers  map[string]string
	checkout map[string]bool
	orders   map[string]string
}

func (s *stub) start(t *testing.T) Target {
	t.Helper()
	s.answers, s.checkout, s.orders = map[string]string{}, map[string]bool{}, map[string]string{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	target, err := ParseTarget(server.URL+"/shop/", "secret")
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path, inside := strings.CutPrefix(r.URL.Path, "/shop")
	if !inside || r.Header.Get("Authorization") != "Bearer secret" {
		http.Error(w, "another server's or another client's", http.StatusBadRequest)
		return
	}
	if r.Method == http.MethodGet {
		s.read(w, r, path)
		return
	}
	var body struct {
		CheckoutID string           `json:"checkout_id"`
		Items      []map[string]any `json:"items"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || path != "/orders" || len(body.Items) != 2 {
		http.Error(w, "not an order", http.StatusBadRequest)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	first, again := s.answers[key]
	if !again {
		if s.checkout[body.CheckoutID] {
			http.Error(w, "this checkout has an order", http.StatusConflict)
			return
		}
		id := uuid.Must(uuid.NewV7()).String()
		first = fmt.Sprintf(`{"checkout_id":%q,"customer_id":"c","id":%q,"total_minor":1}`, body.CheckoutID, id)
		s.answers[key], s.checkout[body.CheckoutID], s.orders["/orders/"+id] = first, true, first
	}
	if s.answer != nil && s.answer(w, r, !again) {
		return
	}
	w.Header().Set("Idempotency-Replayed", fmt.Sprint(again))
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, first) // the client may be gone
}

func (s *stub) read(w http.ResponseWriter, r *http.Request, path string) {
	order, known := s.orders[path]
	switch {
	case s.answer != nil && s.answer(w, r, false):
	case path == "/livez":
		_, _ = io.WriteString(w, "{}")
	case known:
		_, _ = io.WriteString(w, order)
	default:
		http.NotFound(w, r)
	}
}

func problem(w http.ResponseWriter, status int, code string) bool {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"code":%q}`, code)
	return true
}

// gather makes a crew on the stub; it leaves with the test.
func gather(t *testing.T, s *stub, j Job) *Crew {
	t.Helper()
	j.Target = s.start(t)
	crew, err := Gather(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(crew.Leave)
	return crew
}
