package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"orderonce/internal/postgres"
	"orderonce/internal/telemetry"
)

// measured bounds how many waiting events are counted: past it the figure is a floor.
const measured = 5000

// Measure tells the metrics how many events wait for their dispatch, and since when the oldest does. db is of the Worker
// role.
func Measure(ctx context.Context, db *postgres.DB) error {
	return db.Read(ctx, uuid.Nil, func(ctx context.Context, reads postgres.DBTX) error {
		row, err := queries.MeasureOutbox(ctx, reads, measured)
		if err != nil {
			return fmt.Errorf("measure the outbox: %w", err)
		}
		db.Telemetry().Outbox(ctx, row.Pending, time.Duration(row.OldestSeconds*float64(time.Second)))
		return nil
	})
}

// linked bounds the links of a dispatcher's span.
const linked = 64

// told writes the span of a batch, linked to the traces of those of its events that have any; where none has there is
// nobody to read it. It also takes down how long the events waited.
func (d *Dispatcher) told(ctx context.Context, began time.Time, events []Recorded) {
	if !d.db.Telemetry().On() {
		return
	}
	var links []trace.Link
	for _, e := range events {
		d.db.Telemetry().Dispatched(ctx, time.Since(e.OccurredAt))
		if e.Traceparent == nil || len(links) == linked {
			continue
		}
		if link, ok := telemetry.LinkTo(*e.Traceparent); ok {
			links = append(links, link)
		}
	}
	if len(links) == 0 {
		return
	}
	_, span := d.db.Telemetry().Tracer().Start(
		ctx, "dispatch events", trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...),
		trace.WithAttributes(telemetry.Events.Int(len(events))),
	)
	span.End()
}
