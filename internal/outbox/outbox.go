// Package outbox owns the events: facts that become visible with the change they speak of, in the same transaction,
// or not at all. It knows none of the modules whose events it keeps. An event added outside the unit of work of its
// change would speak of something that may never have happened; the signature of Add leaves no way to do that.
package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"orderonce/internal/fault"
	"orderonce/internal/outbox/internal/outboxdb"
	"orderonce/internal/postgres"
	"orderonce/internal/telemetry"
)

// Event is one fact about one aggregate.
type Event struct {
	Tenant        uuid.UUID
	AggregateType string // such as "order"
	AggregateID   uuid.UUID
	// Version is the aggregate's own version after the change, read or made while its row is held by the same unit.
	// It has no gaps, and is the one order of an aggregate's events: ids and sequences commit out of order.
	Version    int64
	Type       string // named and versioned, such as "orderonce.order.created.v1"
	Payload    any    // encoded as JSON, once; consumers get these bytes
	OccurredAt time.Time
}

var eventKind = &postgres.Kind{Name: "outbox event", Rank: postgres.RankEvent, Busy: fault.Busy}

var queries = outboxdb.New()

// Add stages the event in the unit of its change and gives it an id. What is done for the event later, in traces of its
// own, links to the span of this moment.
func Add(ctx context.Context, tx *postgres.Tx, event Event) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("event id: %w", err)
	}
	payload, err := json.Marshal(event.Payload)
	if err != nil {
		return fmt.Errorf("encode %s: %w", event.Type, err)
	}
	traceparent := told(ctx, id, event.Type)
	tx.Stage(eventKind, row{
		TenantID: event.Tenant, ID: id,
		AggregateType: event.AggregateType, AggregateID: event.AggregateID, Version: event.Version,
		Type: event.Type, Payload: payload, Traceparent: traceparent, OccurredAt: event.OccurredAt,
	})
	return nil
}

// told writes the producer's span into a trace that shows details, and is what to link to.
func told(ctx context.Context, id uuid.UUID, eventType string) (traceparent *string) {
	if !telemetry.Sampled(ctx) {
		return nil
	}
	ctx, span := telemetry.Detail(
		ctx, "create "+subject(eventType), trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(
			semconv.MessagingSystemKey.String("orderonce"), semconv.MessagingOperationName("create"),
			semconv.MessagingOperationTypeCreate, semconv.MessagingDestinationName("outbox"),
			telemetry.EventID.String(id.String()), telemetry.EventType.String(eventType),
		),
	)
	defer span.End()
	text := telemetry.Traceparent(ctx)
	return &text
}

// subject is what an event of this type is about: order.created of orderonce.order.created.v1.
func subject(eventType string) string {
	name := strings.TrimPrefix(eventType, "orderonce.")
	if at := strings.LastIndex(name, ".v"); at > 0 {
		return name[:at]
	}
	return name
}

type row outboxdb.InsertEventParams

func (r row) Write(ctx context.Context, db postgres.DBTX) error {
	return queries.InsertEvent(ctx, db, outboxdb.InsertEventParams(r))
}

// LockOrder is the event's id, which no other unit knows.
func (r row) LockOrder() string { return string(r.ID[:]) }

func (r row) Undo(ctx context.Context, db postgres.DBTX) error {
	return queries.UndoEvent(ctx, db, outboxdb.UndoEventParams{TenantID: r.TenantID, ID: r.ID})
}

// Recorded is an event as it was committed.
type Recorded struct {
	Tenant, ID    uuid.UUID
	AggregateType string
	AggregateID   uuid.UUID
	Version       int64
	Type          string
	Payload       json.RawMessage
	Traceparent   *string // W3C trace context of the request that added it
	OccurredAt    time.Time
}
