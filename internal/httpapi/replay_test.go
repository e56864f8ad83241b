package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"orderonce/internal/idempotency"
)

// policy is createOrder's, to be changed before the first request.
func (w *world) policy() *idempotency.Policy { return w.server.spec.policyOf("createOrder") }

// Case 15: an answer past the limit is kept by reference: never cut, never run again.
func TestLargeAnswerIsKeptByReference(t *testing.T) {
	t.Parallel()
	w := setup(t)
	body := order(set("metadata", map[string]any{"note": "x"}))
	size := len(w.place(freshKey(), body).body)
	const slack = 10 // the time in an answer has up to six digits
	for _, limit := range []int{size + slack, size - slack} {
		w.policy().MaxResponse = limit
		before := w.rows()
		key := freshKey()
		first := w.place(key, body)
		wantCreated(t, first, "false")
		wantReplay(t, first, w.place(key, body))
		w.wantRows(rows{before.orders + 1, before.records + 1, before.events + 1})
	}
	var whole, byReference int
	w.must(w.connect().QueryRow(t.Context(), `SELECT count(response_body), count(*) - count(response_body)
		FROM idempotency_requests`).Scan(&whole, &byReference))
	if whole != 2 || byReference != 1 {
		t.Errorf("%d kept whole, %d by reference", whole, byReference)
	}
}

// An answer by reference is the resource as it is now, under the first status.
func TestReplayByReferenceShowsTheResourceNow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.policy().Reference = true
	key := freshKey()
	first := w.place(key, order())
	wantReplay(t, first, w.place(key, order()))
	w.exec(`UPDATE orders SET status = 'confirmed', version = 2`)
	now := w.place(key, order())
	wantCreated(t, now, "true")
	if now.header.Get("Etag") != `"2"` || !strings.Contains(string(now.body), `"status":"confirmed"`) ||
		now.header.Get("Location") != first.header.Get("Location") {
		t.Errorf("%v %s", now.header, now.body)
	}
	wantProblem(t, w.place(key, order(set("currency", "USD"))), 409, "idempotency_key_reused")
}

// A duplicate may prefer to wait less than the policy's bound, never more.
func TestPreferredWait(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.policy().Wait = time.Minute
	for preference, applied := range map[string]string{
		"wait=0": "wait=0", "respond-async, wait=0": "wait=0", "WAIT = 0": "wait=0", "wait=0; x=1, wait=1": "wait=1",
	} {
		key := freshKey()
		held := w.hold(key)
		a := w.place(key, order(), with("Prefer", preference))
		wantProblem(t, a, 409, "idempotency_in_progress")
		if got := a.header.Get("Preference-Applied"); got != applied {
			t.Errorf("%s: Preference-Applied %q", preference, got)
		}
		w.must(held.Rollback(t.Context()))
		first := w.place(key, order(), with("Prefer", preference))
		wantCreated(t, first, "false")
		wantCreated(t, w.place(key, order()), "true")
	}
	for _, ignored := range []string{"wait=61", "wait=-1", "wait", "wait=x", "waits=0", "return=minimal"} {
		if a := w.place(freshKey(), order(), with("Prefer", ignored)); a.status != 201 || a.header.Get("Preference-Applied") != "" {
			t.Errorf("%s: %d %v", ignored, a.status, a.header)
		}
	}
}

// Case 20: whoever may no longer do it gets no part of what was done.
func TestReducedRightsGetNoReplay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	first := w.place(key, order(set("customer_id", "marked-secret")))
	wantCreated(t, first, "false")
	w.exec(`UPDATE api_keys SET scopes = '{orders:read}'`)
	a := w.place(key, order(set("customer_id", "marked-secret")))
	wantProblem(t, a, 403, "replay_forbidden")
	if strings.Contains(string(a.body), "marked-secret") || a.header.Get("Location") != "" {
		t.Errorf("a part of the order is shown: %v %s", a.header, a.body)
	}
	wantProblem(t, w.place(freshKey(), order()), 403, "forbidden")
	w.exec(`UPDATE api_keys SET scopes = '{orders:create,orders:read}'`)
	wantReplay(t, first, w.place(key, order(set("customer_id", "marked-secret")))) // and counts again from the next request
	w.wantRows(rows{1, 1, 1})
}

// What the rules refuse today they may have taken when the key was new.
func TestStoredOutcomeOutlivesARule(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	first := w.place(key, order())
	// As if XXZ had been a currency: the record is of a request that today's rules refuse.
	refused := order(set("currency", "XXZ"))
	other := freshKey()
	wantProblem(t, w.place(other, refused), 422, "validation_failed")
	wantProblem(t, w.place(key, refused), 409, "idempotency_key_reused")
	wantReplay(t, first, w.place(key, order()))
	w.wantRows(rows{1, 1, 1})
}

// Load past the bound is shed at once, and health still answers.
func TestTooManyRequestsAtOnceAreShed(t *testing.T) {
	t.Parallel()
	config := defaultConfig()
	config.InFlight = 2
	w := setupWith(t, config)
	key := freshKey()
	held := w.hold(key)
	done := make(chan answer, 2)
	for range 2 {
		go func() {
			a, err := w.tryPlace(key, order())
			if err != nil {
				t.Error(err)
			}
			done <- a
		}()
	}
	for w.server.inFlight.Load() < 2 { //nolint:revive // both are under way when the count says so
	}
	a := w.get("/orders")
	wantProblem(t, a, 503, "busy")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if a := w.get("/livez"); a.status != http.StatusOK {
		t.Errorf("/livez: %d", a.status)
	}
	w.must(held.Rollback(t.Context()))
	<-done
	<-done
	if a := w.get("/orders"); a.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

// Promise 6: 256 duplicates of a key that another process holds wait on one connection.
func TestStormOnAHeldKeyWaitsOnOneConnection(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.policy().Wait = time.Minute
	key := freshKey()
	held := w.hold(key)
	answers := make(chan []answer, 1)
	go func() { answers <- storm(t, 256, func(int) (answer, error) { return w.tryPlace(key, order()) }) }()
	for w.server.modules.Tenants.Keys.Followers() < 255 { //nolint:revive // until all but the leader follow
	}
	w.waiting(1)
	if n := w.db.Stat().AcquiredConns(); n != 1 {
		t.Errorf("%d connections are in use", n)
	}
	wantCreated(t, w.place(freshKey(), order()), "false")
	w.must(held.Rollback(t.Context()))
	statuses := map[string]int{}
	for _, a := range <-answers {
		statuses[fmt.Sprint(a.status, a.header.Get("Idempotency-Replayed"))]++
	}
	if statuses["201false"] != 1 || statuses["201true"] != 255 {
		t.Errorf("answers: %v", statuses)
	}
	w.wantRows(rows{2, 2, 2})
}
