package tasks

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"orderonce/internal/postgres"
	"orderonce/internal/telemetry"
)

// attempt starts the trace of one taking, linked from its start to the trace of the request that asked for the task. The
// caller ends the span.
func (o *Owned) attempt(ctx context.Context) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithAttributes(
		telemetry.TenantID.String(o.Tenant.String()), telemetry.PrincipalID.String(o.Principal.String()),
		telemetry.TaskID.String(o.ID.String()), telemetry.Operation.String(o.Operation), telemetry.Fence.Int64(o.Token),
	)}
	if link, ok := telemetry.LinkTo(o.traceparent); ok {
		options = append(options, trace.WithLinks(link))
	}
	return o.worker.db.Telemetry().Tracer().Start(ctx, "work on "+o.Operation, options...) //nolint:spancheck // the caller ends it
}

// measured bounds how many unfinished tasks are counted: past it the figures are floors.
const measured = 5000

// Measure tells the metrics how many tasks have not ended, and how old the oldest of them is. A state without one is told
// as 0. db is of the Worker role.
func Measure(ctx context.Context, db *postgres.DB) error {
	counts := make(map[State]int64)
	for _, state := range []State{Processing, OutcomeUnknown} {
		counts[state] = 0
	}
	var oldest float64
	err := db.Read(ctx, uuid.Nil, func(ctx context.Context, reads postgres.DBTX) error {
		rows, err := queries.MeasureTasks(ctx, reads, measured)
		for _, row := range rows {
			counts[State(row.State)] = row.Tasks
			oldest = max(oldest, row.OldestSeconds)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("measure the tasks: %w", err)
	}
	for state, n := range counts {
		db.Telemetry().Tasks(ctx, string(state), n)
	}
	db.Telemetry().UnfinishedTasks(ctx, time.Duration(oldest*float64(time.Second)))
	return nil
}
