package downstream_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects"
)

// Only what clearly speaks of this key is certain.
func TestVerdictOfAQuestion(t *testing.T) {
	t.Parallel()
	e := effect()
	key := e.Key.String()
	for _, c := range []struct {
		status     int
		problem    bool
		body, want string
	}{
		{200, false, `{"idempotency_key":"` + key + `","outcome":"executed"}`, "done"},
		{200, false, `{"idempotency_key":"` + key + `","outcome":"declined"}`, "refused"},
		{200, false, `{"idempotency_key":"` + key + `","outcome":"in_progress"}`, "ambiguous"},
		{200, false, `{"idempotency_key":"` + key + `"}`, "ambiguous"},
		{200, false, `{"idempotency_key":"` + uuid.NewString() + `","outcome":"executed"}`, "ambiguous"},
		{200, false, `{"outcome":"executed"}`, "ambiguous"},
		{200, false, `<html>Welcome</html>`, "ambiguous"},
		{202, false, `{"idempotency_key":"` + key + `","outcome":"executed"}`, "ambiguous"},
		{404, true, `{"code":"absent"}`, "absent"},
		{404, true, `{"code":"not_queryable"}`, "ambiguous"},
		{404, false, `{"code":"absent"}`, "ambiguous"}, // a proxy's page may be anything
		{404, false, `Not Found`, "ambiguous"},
		{410, true, `{"code":"absent"}`, "ambiguous"},
		{401, true, `{"code":"absent"}`, "ambiguous"},
		{429, false, `{}`, "ambiguous"},
		{500, false, `{}`, "ambiguous"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.Path != "/payment/operations/"+key || r.Header.Get("Authorization") != "Bearer marked-secret" {
				t.Errorf("asked %s %s %v", r.Method, r.URL, r.Header)
			}
			if c.problem {
				w.Header().Set("Content-Type", "application/problem+json")
			}
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		got := reach(server.URL, effects.Queryable).Query(t.Context(), e)
		server.Close()
		if string(got.Verdict) != c.want || got.Status != c.status || got.RetryAfter != 3*time.Second {
			t.Errorf("%d %s: %+v, want %s", c.status, c.body, got, c.want)
		}
	}
	if got := reach("http://127.0.0.1:1", effects.Queryable).Query(t.Context(), e); got.Verdict != effects.Ambiguous {
		t.Errorf("nobody answers: %+v", got)
	}
}

// A list is read page by page, and what it says is judged: an operation that nobody here has asked for is in it too.
func TestListOfOperations(t *testing.T) {
	t.Parallel()
	tenant, order := uuid.New(), uuid.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch query := r.URL.Query(); {
		case query.Get("page") == "2":
			_, _ = io.WriteString(w, `{"operations":[{"idempotency_key":"not ours","order_id":"7","outcome":"executed","executions":2}]}`)
		case query.Get("since") == "2026-01-02T03:04:05Z":
			_, _ = fmt.Fprintf(w, `{"operations":[{"tenant_id":%q,"order_id":%q,"operation":"void","idempotency_key":"k","outcome":"declined",
				"changed_at":"2026-01-02T03:04:06Z","reference":"pay_1"}],"next":"2"}`, tenant, order)
		default:
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	to := reach(server.URL, effects.Queryable)
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	first, err := to.List(t.Context(), since, "")
	if err != nil || first.Next != "2" || len(first.Operations) != 1 || first.Operations[0] != (effects.Listed{
		Tenant: tenant, Order: order, Operation: "void", Key: "k", Executions: 1, Reference: "pay_1", At: since.Add(time.Second),
	}) {
		t.Errorf("%+v, %v", first, err)
	}
	second, err := to.List(t.Context(), since, first.Next)
	if err != nil || second.Next != "" || len(second.Operations) != 1 || second.Operations[0] != (effects.Listed{
		Key: "not ours", Executed: true, Executions: 2,
	}) {
		t.Errorf("%+v, %v", second, err)
	}
	if _, err := to.List(t.Context(), since.Add(1), ""); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("a refusal is %v", err)
	}
}
