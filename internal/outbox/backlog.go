package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/postgres"
)

// Backlog is what waits for its dispatch, of all tenants.
type Backlog struct {
	Events int64          `json:"undispatched"` // counted up to 10 000
	Oldest []Undispatched `json:"oldest"`       // the first that will be dispatched, at most 20
}

// Undispatched is an event without its payload.
type Undispatched struct {
	Tenant        uuid.UUID `json:"tenant_id"`
	ID            uuid.UUID `json:"id"`
	AggregateType string    `json:"aggregate_type"`
	AggregateID   uuid.UUID `json:"aggregate_id"`
	Version       int64     `json:"version"`
	Type          string    `json:"type"`
	OccurredAt    time.Time `json:"occurred_at"`
}

// ReadBacklog reads how far the dispatch is behind. It costs as little with millions of events as with none waiting.
func ReadBacklog(ctx context.Context, db postgres.DBTX) (Backlog, error) {
	waiting, err := queries.MeasureOutbox(ctx, db, mostCounted)
	if err != nil {
		return Backlog{}, fmt.Errorf("count the events that wait: %w", err)
	}
	b := Backlog{Events: waiting.Pending, Oldest: []Undispatched{}}
	rows, err := queries.ListOldestUndispatched(ctx, db, mostListed)
	if err != nil {
		return Backlog{}, fmt.Errorf("list the events that wait: %w", err)
	}
	for _, r := range rows {
		b.Oldest = append(b.Oldest, Undispatched{
			Tenant: r.TenantID, ID: r.ID, AggregateType: r.AggregateType, AggregateID: r.AggregateID, Version: r.Version,
			Type: r.Type, OccurredAt: r.OccurredAt,
		})
	}
	return b, nil
}

const mostCounted, mostListed = 10_000, 20
