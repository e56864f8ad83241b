package outbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/outbox/internal/outboxdb"
	"orderonce/internal/postgres"
)

// Entry is an event as operators see it, without its payload.
type Entry struct {
	ID         uuid.UUID `json:"id"`
	Version    int64     `json:"version"`
	Type       string    `json:"type"`
	OccurredAt time.Time `json:"occurred_at"`
}

// Between lists the events of an aggregate that were added from one time to another, both included. It costs what the
// tenant's events of that time cost.
func Between(
	ctx context.Context, db postgres.DBTX, tenant uuid.UUID, aggregateType string, aggregate uuid.UUID, from, to time.Time,
) ([]Entry, error) {
	last := firstOf(to.Add(time.Millisecond))
	rows, err := queries.ListEventsBetween(ctx, db, outboxdb.ListEventsBetweenParams{
		TenantID: tenant, First: firstOf(from), Last: last, AggregateType: aggregateType, AggregateID: aggregate,
	})
	if err != nil {
		return nil, fmt.Errorf("list the events of an aggregate: %w", err)
	}
	entries := make([]Entry, len(rows))
	for i, row := range rows {
		entries[i] = Entry{ID: row.ID, Version: row.Version, Type: row.Type, OccurredAt: row.OccurredAt}
	}
	return entries, nil
}

// firstOf is what no UUIDv7 of this millisecond, or of a later one, is less than.
func firstOf(at time.Time) (id uuid.UUID) {
	var text [8]byte
	binary.BigEndian.PutUint64(text[:], uint64(at.UnixMilli()))
	copy(id[:6], text[2:])
	return id
}
