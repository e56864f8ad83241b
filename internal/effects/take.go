package effects

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects/internal/effectsdb"
	"orderonce/internal/faultpoint"
	"orderonce/internal/postgres"
)

// nearTenants is how many tenants TakeEffects looks at.
const nearTenants = 64

// lockTimeout is how long the worker waits for a row: of an order, or of an effect that is just being planned.
const lockTimeout = 2 * time.Second

var queries = effectsdb.New()

// take takes up to most due effects, from the tenants whose turn it is. more says whether there may be others due.
func (w *Worker) take(ctx context.Context, l *line, most int32) (taken []taking, more bool, err error) {
	until := time.Now().Add(w.options.Lease - w.options.Finish)
	var rows []effectsdb.TakeEffectsRow
	err = w.db.Run(ctx, postgres.Unit{LockTimeout: lockTimeout}, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		rows, err = queries.TakeEffects(ctx, db, effectsdb.TakeEffectsParams{
			Destination: l.Name, AfterTenant: l.after, Most: most, Owner: w.options.Owner,
			Lease: w.options.Lease.Microseconds(), Retention: l.Retention.Microseconds(),
		})
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("take effects: %w", err)
	}
	for _, row := range rows {
		if row.ID.Valid {
			taken = append(taken, taking{Effect: effectTaken(row), at: row.TakenAt, until: until})
		}
	}
	w.counts.looks.Add(1)
	w.counts.taken.Add(int64(len(taken)))
	return taken, l.turn(taken, most, rows[0].Tenants, rows[0].LastTenant), nil
}

// turn moves on to the tenants whose turn it is next. Past the last of all it begins again with the first; a whole round
// without a due effect is the end of what there is.
func (l *line) turn(taken []taking, most int32, seen int64, last uuid.UUID) (more bool) {
	l.took = l.took || len(taken) > 0
	if len(taken) == int(most) { // those behind the last that gave one were not asked
		served := uuid.Nil
		for _, t := range taken {
			if bytes.Compare(t.Tenant[:], served[:]) > 0 {
				served = t.Tenant
			}
		}
		if served != last {
			l.after = served
			return true
		}
	}
	if seen == nearTenants {
		l.after = last
		return true
	}
	more, l.took, l.after = l.took, false, uuid.Nil
	return more
}

// work does what may be done with an effect that was taken, and writes what came of it.
func (w *Worker) work(calls context.Context, l *line, t taking) {
	step, why := l.step(t, w.options.Margin, l.MaxAttempts)
	if step == giveUp {
		w.finish(calls, l, t, outcome{state: NeedsHuman, entry: Entry{Detail: why}})
		return
	}
	done, allowed := l.circuits.allow(t.Lane)
	if !allowed {
		w.putBack(calls, l, t, w.options.leaveAlone())
		w.deferLane(calls, l, t)
		return
	}
	deadline := time.Now().Add(l.Timeout)
	if calls.Err() != nil || deadline.After(t.until) { // stopped, or asleep for so long that the lease may end under the call
		done(errUnused)
		w.putBack(calls, l, t, 0)
		return
	}
	ctx, cancel := context.WithDeadline(calls, deadline)
	result := w.call(ctx, l, t, step)
	cancel()
	if cut := calls.Err() != nil && result.Status == 0; cut {
		done(errUnused)
		if t.State == InFlight && result.Verdict == NotExecuted {
			w.putBack(calls, l, t, 0)
			return
		}
	} else {
		done(failure(result.Verdict))
	}
	w.finish(calls, l, t, w.judge(l, t, step, result))
}

// call makes the one call of a taking. No transaction of this worker is open while it is under way: each function here
// that opens one ends it before it returns.
func (w *Worker) call(ctx context.Context, l *line, t taking, s step) (result Result) {
	defer func() {
		if thrown := recover(); thrown != nil {
			// What was thrown may hold anything, a credential too.
			w.options.Log.ErrorContext(ctx, "a destination's code panicked", "destination", l.Name, "effect", t.ID, "stack", string(debug.Stack()))
			result = Result{Verdict: Ambiguous, Detail: "the destination's code panicked"}
		}
	}()
	if s == ask {
		w.counts.asked.Add(1)
		return l.Query(ctx, t.Effect)
	}
	w.counts.sent.Add(1)
	faultpoint.Hit(faultpoint.BeforeSend)
	result = l.Send(ctx, t.Effect)
	faultpoint.Hit(faultpoint.AfterAnswer)
	return result
}

// judge makes of a result what is written.
func (w *Worker) judge(l *line, t taking, s step, r Result) outcome {
	o := outcome{
		state: l.land(t, r.Verdict, l.MaxAttempts), unsent: t.unsent(r.Verdict),
		entry: Entry{Verdict: r.Verdict, Asked: s == ask, Status: r.Status, Detail: r.Detail},
	}
	if o.state == Pending || o.state == Unknown {
		pause := w.options.pause(l.BackoffCap, t.Attempts, r.RetryAfter)
		if l.Capability == Queryable && s == send {
			pause = max(pause, l.Timeout) // what was cut here may still be on its way there: it is absent only after that
		}
		o.pause = &pause
	}
	return o
}
