package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"

	"orderonce/internal/effects"
	"orderonce/internal/httpapi"
	"orderonce/internal/outbox"
	"orderonce/internal/tasks"
	"orderonce/internal/telemetry"
)

// startTelemetry sets up what is told. What OpenTelemetry itself has to complain of, such as a collector that takes no
// metrics, goes where every other line goes.
func startTelemetry(ctx context.Context, c config, log *slog.Logger) (*telemetry.Telemetry, error) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.WarnContext(ctx, "telemetry is in trouble", "error", err)
	}))
	return telemetry.New(ctx, c.Telemetry, log)
}

// closeTelemetry sends what is left, when there is nothing more to tell.
func closeTelemetry(ctx context.Context, tells *telemetry.Telemetry, log *slog.Logger) {
	if err := tells.Close(ctx); err != nil {
		log.WarnContext(ctx, "the last of the telemetry was lost", "error", err)
	}
}

// metricsPath is where Prometheus looks unless it is told otherwise.
const metricsPath = "/metrics"

// scrapes answers Prometheus and nobody else.
func scrapes(tells *telemetry.Telemetry) http.Handler {
	routes := http.NewServeMux()
	if handler := tells.Handler(); handler != nil {
		routes.Handle("GET "+metricsPath, handler)
	}
	return routes
}

// tellFollowers registers what waits in this process's memory.
func (a *app) tellFollowers(modules httpapi.Modules) error {
	_, err := a.tells.Observe(
		"orderonce.idempotency.followers", "Duplicates that wait in memory for the first request with their key.",
		func() int64 { return int64(modules.Tenants.Keys.Followers() + modules.Operators.Keys.Followers()) },
	)
	return err
}

// behind looks at what waits behind the outbox. A server tells it too: where no worker runs, nobody else would.
func (a *app) behind(ctx context.Context) error {
	return errors.Join(outbox.Measure(ctx, a.workers), effects.Measure(ctx, a.workers, nil), tasks.Measure(ctx, a.workers))
}

// measureEvery is the mean pause between two looks at what only the database knows. Whoever asks for metrics gets what
// was seen last, so that they cost the database the same however many ask.
const measureEvery = 10 * time.Second

// measure reads ages and counts from the database until ctx ends. Each look is bounded: the left edge of an index, or a
// count up to a limit.
func measure(ctx context.Context, log *slog.Logger, tells *telemetry.Telemetry, looks ...func(context.Context) error) {
	if !tells.On() {
		return
	}
	for timer := time.NewTimer(0); ; timer.Reset(measureEvery/2 + rand.N(measureEvery)) { //nolint:gosec // chance, no secret
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		var failed []error
		for _, look := range looks {
			failed = append(failed, look(ctx))
		}
		if err := errors.Join(failed...); err != nil {
			log.DebugContext(ctx, "the database's figures could not be read", "error", err)
			continue
		}
		tells.Looked(ctx)
	}
}
