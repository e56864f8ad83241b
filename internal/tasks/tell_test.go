package tasks_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"orderonce/internal/postgres"
	"orderonce/internal/tasks"
	"orderonce/internal/telemetry"
)

// A lease that was lost is counted once, and so is the write that came too late, whose trace is kept at any sampling.
func TestLostLeasesAreTold(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var kept []sdktrace.ReadOnlySpan
	tells, err := telemetry.New(t.Context(), telemetry.Config{
		Metrics: true, Spans: func(span sdktrace.ReadOnlySpan) { kept = append(kept, span) },
	}, slog.New(slog.DiscardHandler))
	f.must(err)
	f.db, err = postgres.Open(t.Context(), postgres.Config{
		URL: f.url, Role: postgres.Worker, MaxConns: 4, Acquire: patience, Statement: patience, IdleInTransaction: patience,
		Deadline: patience, Telemetry: tells,
	})
	f.must(err)
	t.Cleanup(f.db.Close)
	f.task(1)
	old := f.take(f.worker("the first"))
	f.endLease(old.Task)
	f.take(f.worker("another"))
	ctx, span := tells.Tracer().Start(t.Context(), "late")
	if err := old.Heartbeat(ctx); !errors.Is(err, tasks.ErrFenced) {
		t.Fatal(err)
	}
	span.End()
	if len(kept) != 1 || !slices.Contains(kept[0].Attributes(), telemetry.Reason.String(telemetry.ReasonFencedWrite)) ||
		len(kept[0].Events()) != 1 || kept[0].Events()[0].Name != telemetry.EventFencedWrite {
		t.Errorf("the fenced write's trace is %v", kept)
	}
	f.must(tasks.Measure(t.Context(), f.db))
	scrape := httptest.NewRecorder()
	tells.Handler().ServeHTTP(scrape, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		"orderonce_tasks_lease_takeovers_total 1\n", "orderonce_tasks_fenced_writes_total 1\n",
		"orderonce_tasks_count{state=\"processing\"} 1\n", "orderonce_tasks_count{state=\"outcome_unknown\"} 0\n",
		"orderonce_tasks_oldest_unfinished_age_seconds ",
	} {
		if !strings.Contains(scrape.Body.String(), "\n"+line) {
			t.Errorf("%q is not told", line)
		}
	}
}
