package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/outbox/internal/outboxdb"
	"orderonce/internal/postgres"
)

// take holds the next events that nobody has dispatched. Of those that it has seen, the ready ones may go; the others
// are left, as they are: their turn comes when what they wait for has gone.
func (d *Dispatcher) take(ctx context.Context, tx *postgres.Tx) (seen, ready []Recorded, err error) {
	db, err := tx.DB(ctx)
	if err != nil {
		return nil, nil, err
	}
	rows, err := queries.TakeEvents(ctx, db, outboxdb.TakeEventsParams{
		AfterAggregate: d.after.aggregate, AfterVersion: d.after.version, Batch: d.batch,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("take events: %w", err)
	}
	seen = make([]Recorded, len(rows))
	for i, row := range rows {
		seen[i] = Recorded{
			Tenant: row.TenantID, ID: row.ID, AggregateType: row.AggregateType, AggregateID: row.AggregateID,
			Version: row.Version, Type: row.Type, Payload: row.Payload, Traceparent: row.Traceparent, OccurredAt: row.OccurredAt,
		}
	}
	waiting, err := predecessors(ctx, db, seen)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	ready = make([]Recorded, 0, len(seen))
	left := map[position]bool{} // of this batch
	for _, e := range seen {
		before := position{e.AggregateID, e.Version - 1}
		if waiting[before] || left[before] || d.later.holds(e.AggregateID, now) {
			left[e.position()] = true
			continue
		}
		ready = append(ready, e)
	}
	return seen, ready, nil
}

// predecessors are those versions just before the events that are still to be dispatched and are not among them: another
// dispatcher holds them, or one could not dispatch them.
func predecessors(ctx context.Context, db postgres.DBTX, events []Recorded) (waiting map[position]bool, err error) {
	var ask outboxdb.ListUndispatchedParams
	for i, e := range events {
		before := position{e.AggregateID, e.Version - 1}
		if e.Version > 1 && (i == 0 || events[i-1].position() != before) {
			ask.AggregateIds = append(ask.AggregateIds, before.aggregate)
			ask.Versions = append(ask.Versions, before.version)
		}
	}
	if len(ask.Versions) == 0 {
		return nil, nil
	}
	// A statement of its own, behind the one that took the events: what it does not see was dispatched before its snapshot.
	rows, err := queries.ListUndispatched(ctx, db, ask)
	if err != nil {
		return nil, fmt.Errorf("look for earlier events: %w", err)
	}
	waiting = map[position]bool{}
	for _, row := range rows {
		waiting[position{row.AggregateID, row.Version}] = true
	}
	return waiting, nil
}

// Waiting says whether an event of the aggregate is still to be dispatched, other than by the transaction that asks.
func Waiting(ctx context.Context, db postgres.DBTX, tenant, aggregate uuid.UUID) (bool, error) {
	waiting, err := queries.AreEventsWaiting(ctx, db, outboxdb.AreEventsWaitingParams{TenantID: tenant, AggregateID: aggregate})
	if err != nil {
		return false, fmt.Errorf("look for events to be dispatched: %w", err)
	}
	return waiting, nil
}

const (
	retryFirst = time.Second
	retryLast  = 5 * time.Minute
)

// retries are the aggregates whose event could not be dispatched, in this process's memory: another process finds out
// by itself.
type retries map[uuid.UUID]retry

type retry struct {
	at   time.Time
	wait time.Duration
}

func (r retries) holds(aggregate uuid.UUID, now time.Time) bool { return now.Before(r[aggregate].at) }

// failed leaves the aggregate alone for a time that doubles with each failure.
func (r retries) failed(aggregate uuid.UUID, now time.Time) time.Duration {
	wait := max(min(2*r[aggregate].wait, retryLast), retryFirst)
	r[aggregate] = retry{now.Add(wait), wait}
	return wait
}

// forget drops those that have not failed for long: their event has gone.
func (r retries) forget(now time.Time) {
	for aggregate, last := range r {
		if now.Sub(last.at) > 2*retryLast {
			delete(r, aggregate)
		}
	}
}
