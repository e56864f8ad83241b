package telemetry

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/test/collector"
)

const acquire = "orderonce.idempotency.acquire"

// One request of each outcome, in the order of a story: each trace tells it apart from the others.
func TestEachOutcomeHasItsTrace(t *testing.T) {
	t.Parallel()
	w := setup(t, "--trace-sampling=1")
	order, other := orderoncetest.Order(nil), orderoncetest.Order(map[string]any{"customer_id": "customer-2"})
	key, held := youngKey(), youngKey()
	var first []collector.Span
	for _, c := range []struct {
		outcome, picture string
		status           int
		send             func() orderoncetest.Answer
		check            func(t *testing.T, trace []collector.Span)
	}{
		{"created", "created", http.StatusCreated, func() orderoncetest.Answer { return w.post(key, order, "") }, func(_ *testing.T, trace []collector.Span) {
			first = trace
		}},
		{"replayed", "replayed", http.StatusCreated, func() orderoncetest.Answer { return w.post(key, order, "") }, func(t *testing.T, trace []collector.Span) {
			t.Helper()
			if links := w.named(trace, acquire).LinkedTraces(); !slices.Equal(links, []string{first[0].TraceID()}) {
				t.Errorf("the replay links to %v, not to the first request's trace %s", links, first[0].TraceID())
			}
		}},
		{"key_reused", "key_reused", http.StatusConflict, func() orderoncetest.Answer { return w.post(key, other, "") }, nil},
		{"rejected", "rejected", http.StatusUnprocessableEntity, func() orderoncetest.Answer {
			return w.post(youngKey(), orderoncetest.Order(map[string]any{"coupon_code": "EXPIRED10"}), "")
		}, nil},
		{"invalid", "invalid", http.StatusUnprocessableEntity, func() orderoncetest.Answer {
			return w.post(youngKey(), orderoncetest.Order(map[string]any{"items": []any{}}), "")
		}, nil},
		{"in_progress", "lock_wait_timeout", http.StatusConflict, func() orderoncetest.Answer {
			defer w.hold(held)()
			return w.post(held, order, "")
		}, func(t *testing.T, trace []collector.Span) {
			t.Helper()
			span := w.named(trace, acquire)
			if wait, _ := span.Attributes["orderonce.idempotency.wait.duration"].(float64); wait < 1 {
				t.Errorf("a wait of 2 s is told as %v s", wait)
			}
			event, ok := span.Event("lock_wait_timeout")
			if !ok || event["orderonce.lock.kind"] != "idempotency claim" {
				t.Errorf("the span does not tell what was waited for: %v", event)
			}
		}},
		{"in_progress", "in_progress", http.StatusConflict, w.followed, nil},
	} {
		a := c.send()
		if a.Status != c.status {
			t.Fatalf("%s: status %d: %s", c.picture, a.Status, a.Body)
		}
		trace := w.trace(a)
		root := w.named(trace, "POST /orders")
		if got := root.Attributes["orderonce.idempotency.outcome"]; got != c.outcome {
			t.Errorf("%s: the outcome is told as %v", c.picture, got)
		}
		for _, span := range trace {
			if span.Status.GetCode() == 2 {
				t.Errorf("%s: %s is an error of a span", c.picture, span.Name)
			}
		}
		if c.check != nil {
			c.check(t, trace)
		}
		wantTraceID(t, a, root)
		wantPicture(t, c.picture, trace)
	}
}

// youngKey is a key that does not tell its age: one that looks old is read before it is claimed, and how fast the test is
// must not show in its pictures.
func youngKey() string { return "story-" + orderoncetest.NewKey() }

// followed is the answer to a duplicate that does not wait for its leader, in the same process.
func (w *world) followed() orderoncetest.Answer {
	w.t.Helper()
	key, order := youngKey(), orderoncetest.Order(nil)
	release := w.hold(key) // holds the leader up
	led := make(chan orderoncetest.Answer, 1)
	go func() {
		a, err := w.server.TryPlace(w.t.Context(), key, order)
		if err != nil {
			w.t.Error(err)
		}
		led <- a
	}()
	var a orderoncetest.Answer
	orderoncetest.Poll(w.t, "a follower", func() bool {
		// Until the leader is there this is one itself, and is refused by the database.
		a = w.post(key, order, "", "Prefer", "wait=0")
		return w.named(w.trace(a), acquire).Attributes["orderonce.idempotency.role"] == "follower"
	})
	release()
	<-led
	return a
}

// wantTraceID checks that a problem names its trace. A rejection is stored: it goes on naming the trace that made it.
func wantTraceID(t *testing.T, a orderoncetest.Answer, root collector.Span) {
	t.Helper()
	if a.Status < http.StatusBadRequest {
		return
	}
	var problem struct {
		TraceID string `json:"trace_id"`
	}
	if err := json.Unmarshal([]byte(a.Body), &problem); err != nil || problem.TraceID != root.TraceID() {
		t.Errorf("the problem of trace %s names %q: %v", root.TraceID(), problem.TraceID, err)
	}
}

// A client that has a trace of its own finds the server's spans in it.
func TestTheClientsTraceGoesOn(t *testing.T) {
	t.Parallel()
	w := setup(t, "--trace-sampling=0")
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	a := w.post(orderoncetest.NewKey(), orderoncetest.Order(nil), "00-"+id+"-00f067aa0ba902b7-01")
	orderoncetest.Poll(t, "the client's trace", func() bool {
		return slices.ContainsFunc(w.collector.Spans(), func(s collector.Span) bool {
			return s.TraceID() == id && s.Parent() == "00f067aa0ba902b7" && s.Attributes["orderonce.request.id"] == a.Header.Get("X-Request-Id")
		})
	})
}

// With no trace sampled those of the rare outcomes are kept all the same, and only those.
func TestRareOutcomesAreKept(t *testing.T) {
	t.Parallel()
	w := setup(t, "--trace-sampling=0")
	key, order := orderoncetest.NewKey(), orderoncetest.Order(nil)
	for range 20 {
		w.post(orderoncetest.NewKey(), order, "")
	}
	w.post(key, order, "")
	w.post(key, order, "")
	reused := w.post(key, orderoncetest.Order(map[string]any{"customer_id": "customer-2"}), "")
	held := orderoncetest.NewKey()
	release := w.hold(held)
	late := w.post(held, order, "", "Prefer", "wait=0")
	release()
	for what, a := range map[string]orderoncetest.Answer{"key_reused": reused, "lock_wait_timeout": late} {
		trace := w.trace(a)
		span := w.named(trace, acquire)
		if got := span.Attributes["orderonce.sampling.reason"]; got != what {
			t.Errorf("kept for %v, not for %s", got, what)
		}
		if len(trace) != 2 {
			t.Errorf("a trace that was not sampled shows details:\n%s", picture(trace))
		}
		wantTraceID(t, a, w.named(trace, "POST /orders"))
	}
	if spans := w.collector.Spans(); len(spans) != 4 {
		t.Errorf("%d spans were kept: %v", len(spans), names(spans))
	}
	if !strings.Contains(w.scraped("application/openmetrics-text"), "trace_id=\""+w.trace(reused)[0].TraceID()) {
		t.Error("no exemplar leads to the conflict")
	}
}

func names(spans []collector.Span) (all []string) {
	for _, span := range spans {
		all = append(all, span.Name)
	}
	return all
}
