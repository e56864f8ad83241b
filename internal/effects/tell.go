package effects

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"orderonce/internal/postgres"
	"orderonce/internal/telemetry"
)

// attempt starts the trace of one taking, linked from its start to the trace of the request that asked for the effect.
// The caller ends the span.
func (w *Worker) attempt(calls context.Context, t taking) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		telemetry.TenantID.String(t.Tenant.String()), telemetry.OrderID.String(t.Order.String()),
		telemetry.EffectID.String(t.ID.String()), telemetry.Destination.String(t.Destination),
		telemetry.Attempt.Int(int(t.Attempts)), telemetry.Fence.Int64(t.Token),
	)}
	if t.Traceparent != nil {
		if link, ok := telemetry.LinkTo(*t.Traceparent); ok {
			options = append(options, trace.WithLinks(link))
		}
	}
	return w.db.Telemetry().Tracer().Start(calls, t.Operation+" "+t.Destination, options...) //nolint:spancheck // the caller ends it
}

// tellResult says in the attempt's span and the metrics what the call found out.
func (w *Worker) tellResult(ctx context.Context, l *line, s step, r Result) {
	w.db.Telemetry().EffectAttempt(ctx, l.Name, string(r.Verdict))
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(telemetry.Verdict.String(string(r.Verdict)), telemetry.Asked.Bool(s == ask))
	if r.Status != 0 {
		span.SetAttributes(semconv.HTTPResponseStatusCode(r.Status))
	}
}

// tellState says in the attempt's span where the effect stands now. What is in doubt is rare, and its trace is kept.
func tellState(ctx context.Context, state State) {
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(telemetry.EffectState.String(string(state)))
	if state == Unknown || state == NeedsHuman {
		telemetry.Keep(span, telemetry.ReasonUnknownEffect)
	}
}

// measured bounds how many effects of a kind are counted: past it the figures are floors.
const measured = 5000

// shown are the states that are counted; the others are final.
var shown = []State{Pending, InFlight, Unknown, NeedsHuman}

// Measure tells the metrics how many effects are on their way or in doubt, and how long the oldest unknown one has been
// so. Of these destinations a state without an effect is told as 0. db is of the Worker role.
func Measure(ctx context.Context, db *postgres.DB, destinations []Destination) error {
	type kind struct {
		destination string
		state       State
	}
	counts := map[kind]int64{}
	for _, d := range destinations {
		for _, state := range shown {
			counts[kind{d.Name, state}] = 0
		}
	}
	var oldest float64
	err := db.Read(ctx, uuid.Nil, func(ctx context.Context, reads postgres.DBTX) error {
		rows, err := queries.MeasureEffects(ctx, reads, measured)
		for _, row := range rows {
			counts[kind{row.Destination, State(row.State)}] = row.Effects
			if State(row.State) == Unknown {
				oldest = max(oldest, row.OldestSeconds)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("measure the effects: %w", err)
	}
	for k, n := range counts {
		db.Telemetry().Effects(ctx, k.destination, string(k.state), n)
	}
	db.Telemetry().UnknownEffects(ctx, time.Duration(oldest*float64(time.Second)))
	return nil
}
