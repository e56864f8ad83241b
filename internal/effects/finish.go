package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"orderonce/internal/effects/internal/effectsdb"
	"orderonce/internal/faultpoint"
	"orderonce/internal/postgres"
)

// errLost is a taking that another one, or a person, has taken the effect from.
var errLost = errors.New("the lease was lost")

// outcome is what a taking writes.
type outcome struct {
	state  State
	entry  Entry
	pause  *time.Duration // until it is looked at again; nil for never
	unsent bool           // no sending of its key was executed, for certain
	back   bool           // as if it had not been taken: no attempt, no entry
}

// finish writes the outcome, unless the lease was lost. Where the database is away it tries for as long as Finish says;
// what could not be written stays in flight, and is unknown when the lease ends.
func (w *Worker) finish(ctx context.Context, l *line, t taking, o outcome) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.options.Finish)
	defer cancel()
	log := w.options.Log.With("tenant", t.Tenant, "effect", t.ID, "order", t.Order, "destination", t.Destination, "operation", t.Operation)
	var woken bool
	var err error
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		woken, err = w.write(ctx, t, o)
		if err == nil || errors.Is(err, errLost) || !sleep(ctx, wait) {
			break
		}
	}
	switch {
	case errors.Is(err, errLost):
		w.counts.fenced.Add(1)
		log.WarnContext(ctx, "an effect's outcome came too late and is not written", "state", o.state, "token", t.Token)
		return
	case err != nil:
		w.counts.unwritten.Add(1)
		log.ErrorContext(ctx, "an effect's outcome is not written", "state", o.state, "error", err)
		return
	case o.state == NeedsHuman:
		w.counts.needsHuman.Add(1)
		log.WarnContext(ctx, "an effect needs a person", "attempts", t.Attempts, "verdict", o.entry.Verdict, "detail", clean(o.entry.Detail))
	case o.back:
		w.counts.putBack.Add(1)
	case o.state.definite():
		w.counts.ended.Add(1)
	}
	if woken || o.pause != nil && *o.pause == 0 {
		l.wake()
	}
}

// putBack undoes a taking of which nothing was sent.
func (w *Worker) putBack(ctx context.Context, l *line, t taking, pause time.Duration) {
	o := outcome{state: t.State, pause: &pause, back: true}
	if t.State == InFlight {
		o.state, o.unsent = Pending, t.first()
	}
	w.finish(ctx, l, t, o)
}

// leaveAlone is for how long a lane is left alone whose circuit is open: about as long as that stays so, spread.
func (o *Options) leaveAlone() time.Duration {
	return o.Open/2 + rand.N(o.Open) //nolint:gosec // chance, no secret
}

// deferLane lets what else is due in a lane that is left alone wait too, so that it is not taken one by one in vain.
func (w *Worker) deferLane(ctx context.Context, l *line, t taking) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.options.Finish)
	defer cancel()
	err := w.db.InTx(ctx, postgres.Unit{LockTimeout: lockTimeout}, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		return queries.DeferLane(ctx, db, effectsdb.DeferLaneParams{
			TenantID: t.Tenant, Destination: t.Destination, Lane: t.Lane, Pause: w.options.Open.Microseconds(),
		})
	})
	if err != nil { // they are put back one by one
		w.options.Log.WarnContext(ctx, "a lane is not deferred", "destination", l.Name, "lane", t.Lane, "error", err)
	}
}

// write is one unit: the outcome, who is told of it, and the successor's turn. woken says whether one is due now.
func (w *Worker) write(ctx context.Context, t taking, o outcome) (woken bool, err error) {
	params, err := w.params(t, o)
	if err != nil {
		return false, err
	}
	err = w.db.Run(ctx, postgres.Unit{LockTimeout: lockTimeout}, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		row, err := queries.FinishEffect(ctx, db, params)
		if errors.Is(err, pgx.ErrNoRows) {
			return w.lost(ctx, db, t, o)
		}
		if err == nil && o.state.definite() {
			woken, err = settle(ctx, tx, db, effectOf(row), w.options.Ended)
		}
		if err == nil {
			faultpoint.Hit(faultpoint.BeforeFinish)
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("finish effect %s: %w", t.ID, err)
	}
	faultpoint.Hit(faultpoint.AfterFinish)
	return woken, nil
}

// lost tells a lost lease from an outcome that an earlier try has written, whose COMMIT nobody answered.
func (w *Worker) lost(ctx context.Context, db postgres.DBTX, t taking, o outcome) error {
	row, err := queries.ReadEffect(ctx, db, effectsdb.ReadEffectParams{TenantID: t.Tenant, ID: t.ID})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if err == nil && row.AttemptToken == t.Token && State(row.State) == o.state && row.Owner == nil {
		return nil
	}
	return errLost
}

func (w *Worker) params(t taking, o outcome) (effectsdb.FinishEffectParams, error) {
	p := effectsdb.FinishEffectParams{
		TenantID: t.Tenant, ID: t.ID, AttemptToken: t.Token, Found: string(t.State), State: string(o.state), Unsent: o.unsent,
	}
	if o.pause != nil {
		pause := o.pause.Microseconds()
		p.Pause = &pause
	}
	if o.back {
		p.AttemptsBack = 1
		return p, nil
	}
	o.entry.Owner, o.entry.Token = w.options.Owner, t.Token
	o.entry.Detail = clean(o.entry.Detail)
	if o.entry.Verdict != Done && o.entry.Detail != "" {
		p.LastError = &o.entry.Detail
	}
	var err error
	if p.Entry, err = json.Marshal(o.entry); err != nil {
		return p, fmt.Errorf("encode the evidence: %w", err)
	}
	return p, nil
}

// settle does what follows from the end of an effect, in its transaction: ended is told, and the next one of its lane
// gets its turn. What would undo a thing that was never done ends with it. woken says whether one is due now.
func settle(ctx context.Context, tx *postgres.Tx, db postgres.DBTX, e Effect, ended Ended) (woken bool, err error) {
	for {
		if ended != nil {
			if err := ended(ctx, tx, e); err != nil {
				return false, fmt.Errorf("tell of the end: %w", err)
			}
		}
		row, err := queries.ReadFirstOfLane(ctx, db, effectsdb.ReadFirstOfLaneParams{
			TenantID: e.Tenant, OrderID: e.Order, Destination: e.Destination, Lane: e.Lane,
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		next := effectOf(row)
		if next.State != Pending || next.DueAt != nil {
			return false, nil // it had not to wait for this one
		}
		undoes, err := undoesNothing(ctx, db, next)
		if err != nil {
			return false, err
		}
		if !undoes {
			return true, queries.ActivateEffect(ctx, db, effectsdb.ActivateEffectParams{TenantID: next.Tenant, ID: next.ID})
		}
		entry, err := json.Marshal(Entry{Token: next.Token, Detail: NothingToUndo})
		if err != nil {
			return false, err
		}
		row, err = queries.FinishEffect(ctx, db, effectsdb.FinishEffectParams{
			TenantID: next.Tenant, ID: next.ID, AttemptToken: next.Token, Found: string(Pending), State: string(Succeeded), Entry: entry,
		})
		if err != nil {
			return false, err
		}
		e = effectOf(row)
	}
}

// undoesNothing says whether an effect is there to undo another one that was not executed.
func undoesNothing(ctx context.Context, db postgres.DBTX, e Effect) (bool, error) {
	if e.Reverts == nil {
		return false, nil
	}
	state, err := queries.ReadEffectState(ctx, db, effectsdb.ReadEffectStateParams{
		TenantID: e.Tenant, OrderID: e.Order, Destination: e.Destination, Lane: e.Lane, Operation: *e.Reverts,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return true, nil
	}
	return State(state) == Failed, err
}

// sleep waits, and says whether ctx still goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
