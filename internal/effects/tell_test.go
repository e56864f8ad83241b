package effects_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"orderonce/internal/effects"
	"orderonce/internal/postgres"
	"orderonce/internal/telemetry"
)

const request = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" // the trace that asked for an effect

// observed is a database whose telemetry samples nothing by itself, and what is kept all the same.
func (f *fixture) observed() (db *postgres.DB, kept func(name string) []sdktrace.ReadOnlySpan) {
	f.t.Helper()
	var mu sync.Mutex
	var spans []sdktrace.ReadOnlySpan
	tells, err := telemetry.New(f.t.Context(), telemetry.Config{Spans: func(span sdktrace.ReadOnlySpan) {
		mu.Lock()
		defer mu.Unlock()
		spans = append(spans, span)
	}}, slog.New(slog.DiscardHandler))
	if err != nil {
		f.t.Fatal(err)
	}
	db, err = postgres.Open(f.t.Context(), postgres.Config{
		URL: f.url, Role: postgres.Worker, MaxConns: 8, Acquire: patience, Statement: patience, IdleInTransaction: patience,
		Deadline: patience, Telemetry: tells,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(db.Close)
	return db, func(name string) []sdktrace.ReadOnlySpan {
		mu.Lock()
		defer mu.Unlock()
		return slices.DeleteFunc(slices.Clone(spans), func(s sdktrace.ReadOnlySpan) bool { return s.Name() != name })
	}
}

func said(span sdktrace.ReadOnlySpan, key attribute.Key) string {
	for _, a := range span.Attributes() {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// Of calls whose request was not sampled the traces of those in doubt are kept, and of those that came too late. Those
// that went well are forgotten.
func TestTracesOfDoubtAndOfLostLeasesAreKept(t *testing.T) {
	t.Parallel()
	f := setup(t)
	db, kept := f.observed()
	destination := func(name string, send func(effects.Effect) effects.Result) effects.Destination {
		return effects.Destination{
			Name: name, Capability: effects.None, Concurrency: 1, Timeout: time.Second,
			Send: func(_ context.Context, e effects.Effect) effects.Result { return send(e) },
		}
	}
	f.run(f.workerOn(
		db, f.options(),
		destination("well", func(effects.Effect) effects.Result { return effects.Result{Verdict: effects.Done} }),
		destination("doubt", func(effects.Effect) effects.Result { return effects.Result{Verdict: effects.Ambiguous, Status: 502} }),
		destination("late", func(e effects.Effect) effects.Result {
			f.exec("UPDATE effects SET attempt_token = attempt_token + 1, due_at = NULL, state = 'needs_human' WHERE id = $1", e.ID)
			return effects.Result{Verdict: effects.Done}
		}),
	))
	well := f.add(plan{destination: "well"})
	f.add(plan{destination: "doubt"})
	f.add(plan{destination: "late"})
	f.awaitState(well, effects.Succeeded)
	for name, reason := range map[string]string{"authorize doubt": telemetry.ReasonUnknownEffect, "authorize late": telemetry.ReasonFencedWrite} {
		f.await("the trace of "+name, func() bool { return len(kept(name)) > 0 })
		if got := said(kept(name)[0], telemetry.Reason); got != reason {
			t.Errorf("%s was kept for %q, not for %s", name, got, reason)
		}
	}
	if spans := kept("authorize well"); len(spans) > 0 {
		t.Errorf("a call that went well was kept: %v", spans[0].Attributes())
	}
}

// The call for a request that was sampled is sampled as well, in a trace of its own that links to the request's from its
// start.
func TestCallsLinkToTheirRequest(t *testing.T) {
	t.Parallel()
	f := setup(t)
	db, kept := f.observed()
	var sent string
	id := f.add(plan{blocked: true})
	f.exec("UPDATE effects SET traceparent = $1, due_at = now() WHERE id = $2", request, id)
	f.run(f.workerOn(db, f.options(), effects.Destination{
		Name: "payment", Capability: effects.None, Concurrency: 1, Timeout: time.Second,
		Send: func(ctx context.Context, _ effects.Effect) effects.Result {
			sent = telemetry.Traceparent(ctx)
			return effects.Result{Verdict: effects.Done, Status: 200}
		},
	}))
	f.await("the call's trace", func() bool { return len(kept("authorize payment")) == 1 })
	span := kept("authorize payment")[0]
	links := span.Links()
	if len(links) != 1 || links[0].SpanContext.TraceID() != telemetry.ParseTraceparent(request).TraceID() {
		t.Errorf("the call links to %v", links)
	}
	if span.SpanContext().TraceID() == links[0].SpanContext.TraceID() || span.Parent().IsValid() {
		t.Error("the call is in the request's trace, hours of it")
	}
	if telemetry.ParseTraceparent(sent).SpanID() != span.SpanContext().SpanID() {
		t.Errorf("the destination was told of %q", sent)
	}
	for key, want := range map[attribute.Key]string{telemetry.EffectState: "succeeded", telemetry.Verdict: "done", telemetry.Attempt: "1"} {
		if got := said(span, key); got != want {
			t.Errorf("%s is %q, not %s", key, got, want)
		}
	}
}
