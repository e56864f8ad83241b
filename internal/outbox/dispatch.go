package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/faultpoint"
	"orderonce/internal/outbox/internal/outboxdb"
	"orderonce/internal/postgres"
)

const (
	// dispatchBatch is how many events one transaction dispatches at most: enough that its round trips and its commit
	// are a small part of each, few enough that nobody waits for its locks.
	dispatchBatch = 500
	// dispatchPoll is the longest pause between two looks; each is a random one of at least its quarter.
	dispatchPoll = time.Second
	// dispatchDeadline bounds one batch when the process stops.
	dispatchDeadline = 10 * time.Second
	// dispatchLockTimeout bounds a wait for an effect that somebody else is just writing.
	dispatchLockTimeout = 2 * time.Second
)

// FanOut makes of events whatever others are to do about them, in tx and nowhere else. It may run again for the same
// events. The events of an aggregate come in the order of their versions; an error leaves nothing of the batch.
type FanOut func(ctx context.Context, tx *postgres.Tx, events []Recorded) error

// Dispatcher hands each event to FanOut, once, in the transaction that marks it as dispatched. Any number may run at
// once, in any number of processes: an event of version v goes after v-1 has gone, or beside it, whoever takes them.
type Dispatcher struct {
	db     *postgres.DB
	fanOut FanOut
	log    *slog.Logger
	wake   chan struct{}
	most   int32 // events of a batch
	poll   time.Duration

	// Of Run's one goroutine:
	after position // the last event of the last batch; the next one begins behind it
	batch int32    // how many events the next one has at most
	later retries
}

// position is a place in the order of the events.
type position struct {
	aggregate uuid.UUID
	version   int64
}

func (e Recorded) position() position { return position{e.AggregateID, e.Version} }

// NewDispatcher dispatches the events of db, which is of the Worker role. It is woken by the commits of db, and of what
// else it watches.
func NewDispatcher(db *postgres.DB, fanOut FanOut, log *slog.Logger) *Dispatcher {
	d := &Dispatcher{
		db: db, fanOut: fanOut, log: log, wake: make(chan struct{}, 1), most: dispatchBatch, poll: dispatchPoll,
		batch: dispatchBatch, later: retries{},
	}
	d.Watch(db)
	return d
}

// Watch lets commits of another pool of this process wake the dispatcher. Those of other processes it finds by polling.
func (d *Dispatcher) Watch(db *postgres.DB) {
	db.OnCommit(eventKind, func() {
		select {
		case d.wake <- struct{}{}:
		default: // it is awake already
		}
	})
}

// Run dispatches until ctx ends; the batch under way is finished.
func (d *Dispatcher) Run(ctx context.Context) {
	for ctx.Err() == nil {
		more, err := d.round(ctx)
		switch {
		case err != nil:
			d.log.WarnContext(ctx, "events were not dispatched", "error", err)
			d.pause(ctx, nil)
		case !more:
			d.pause(ctx, d.wake)
		}
	}
}

// pause waits for a random time, or for a wake-up, or for the end of ctx.
func (d *Dispatcher) pause(ctx context.Context, wake <-chan struct{}) {
	timer := time.NewTimer(d.poll/4 + rand.N(d.poll*3/4)) //nolint:gosec // chance, no secret
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// round dispatches one batch and says whether there may be more. An error is one of the database, which the next round
// may not meet; what an event itself is to blame for is dealt with here.
func (d *Dispatcher) round(ctx context.Context) (more bool, err error) {
	ctx, cancel := postgres.Detach(ctx, dispatchDeadline)
	defer cancel()
	var seen, ready []Recorded
	err = d.db.InTx(ctx, postgres.Unit{LockTimeout: dispatchLockTimeout}, func(ctx context.Context, tx *postgres.Tx) error {
		if seen, ready, err = d.take(ctx, tx); err != nil || len(ready) == 0 {
			return err
		}
		if err := d.hand(ctx, tx, ready); err != nil {
			return err
		}
		faultpoint.Hit(faultpoint.BeforeDispatched)
		return nil
	})
	switch {
	case err == nil:
		if len(ready) > 0 {
			faultpoint.Hit(faultpoint.AfterDispatched)
		}
		return d.advance(seen), nil
	case len(ready) == 0 || errors.Is(err, postgres.ErrTransient) || errors.Is(err, postgres.ErrCommitUnknown):
		return true, err
	default:
		d.isolate(ctx, seen, ready, err)
		return true, nil
	}
}

// hand marks the events as dispatched and lets FanOut see them: so marked, for what it reads in the same transaction.
func (d *Dispatcher) hand(ctx context.Context, tx *postgres.Tx, events []Recorded) (err error) {
	db, err := tx.DB(ctx)
	if err != nil {
		return err
	}
	var marks outboxdb.MarkDispatchedParams
	for _, e := range events {
		marks.TenantIds = append(marks.TenantIds, e.Tenant)
		marks.Ids = append(marks.Ids, e.ID)
	}
	marked, err := queries.MarkDispatched(ctx, db, marks)
	if err != nil {
		return fmt.Errorf("mark events as dispatched: %w", err)
	}
	if marked != int64(len(events)) {
		return fault.Wrap(fault.Internal, "mark events as dispatched", fmt.Errorf("%d of %d", marked, len(events)))
	}
	defer func() {
		if bug := recover(); bug != nil { // of one event; the others must not wait for a process that ends each time
			err = fmt.Errorf("fan out panicked: %v\n%s", bug, debug.Stack())
		}
	}()
	return d.fanOut(ctx, tx, events)
}

// advance goes on behind what was seen. At the end it begins anew, for what has been left or has come behind it.
func (d *Dispatcher) advance(seen []Recorded) (more bool) {
	full := len(seen) == int(d.batch)
	d.batch = min(2*d.batch, d.most)
	if !full {
		d.after = position{}
		d.later.forget(time.Now())
		return false
	}
	d.after = seen[len(seen)-1].position()
	return true
}

// isolate finds the event that a batch failed for: the next batch is half of this one, until it is that event alone,
// whose aggregate is then left for a while. The batches behind it grow again.
func (d *Dispatcher) isolate(ctx context.Context, seen, ready []Recorded, err error) {
	if len(ready) > 1 {
		d.batch = max(int32(len(ready)/2), 1) //nolint:gosec // at most most
		return
	}
	e := ready[0]
	next := d.later.failed(e.AggregateID, time.Now())
	d.log.ErrorContext(ctx, "event cannot be dispatched", "tenant_id", e.Tenant, "event_id", e.ID, "type", e.Type,
		"aggregate_id", e.AggregateID, "version", e.Version, "error", err, "next_try_in", next.String())
	d.after = seen[len(seen)-1].position()
}
