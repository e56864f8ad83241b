package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"orderonce/internal/fault"
	"orderonce/internal/faultpoint"
	"orderonce/internal/postgres"
)

const (
	// pollLeast and pollMost bound the pause after a look that found nothing to take. It differs each time, so that
	// many workers do not look in step.
	pollLeast, pollMost = 250 * time.Millisecond, time.Second
	// againLeast and againMost bound the pause before a step that failed is tried again.
	againLeast, againMost = time.Second, time.Minute
)

// Options are what a worker may be told.
type Options struct {
	// Name is for people. It gives no right to a task: a worker that takes its own task again has another token.
	Name string
	// Concurrency is how many tasks are worked on at once; 1 where it is zero.
	Concurrency int
	// MaxStalls is how many takings may come to nothing, one after another, before the task fails; 5 where it is zero.
	MaxStalls int32
	Log       *slog.Logger
}

// Worker works on tasks of any tenant. Any number may run at once, in any number of processes.
type Worker struct {
	db           *postgres.DB
	kinds        map[string]*Kind
	operations   []string
	options      Options
	log          *slog.Logger
	fencedWrites atomic.Int64
}

// NewWorker works on the tasks of these kinds, and leaves all others to workers that know them. db is of the Worker role.
func NewWorker(db *postgres.DB, kinds []Kind, options Options) *Worker {
	options.Concurrency = max(options.Concurrency, 1)
	if options.MaxStalls == 0 {
		options.MaxStalls = 5
	}
	w := &Worker{db: db, kinds: map[string]*Kind{}, options: options, log: options.Log}
	for _, kind := range kinds {
		w.kinds[kind.Operation] = &kind
		w.operations = append(w.operations, kind.Operation)
	}
	return w
}

// FencedWrites is how many writes of this worker came too late.
func (w *Worker) FencedWrites() int64 { return w.fencedWrites.Load() }

// Run takes tasks and works on them until ctx ends. Then it finishes the steps under way and lets go of their tasks, so
// that another worker goes on with them at once.
func (w *Worker) Run(ctx context.Context) {
	var hands sync.WaitGroup
	for range w.options.Concurrency {
		hands.Go(func() {
			h := hand{Worker: w}
			for ctx.Err() == nil {
				owned, err := h.take(ctx)
				if err != nil && ctx.Err() == nil {
					w.log.WarnContext(ctx, "tasks were not looked for", "error", err)
				}
				if owned == nil {
					_ = rest(ctx, pollLeast+rand.N(pollMost-pollLeast)) //nolint:gosec // chance, no secret
					continue
				}
				w.work(ctx, owned)
			}
		})
	}
	hands.Wait()
}

// work does step after step until the task ends, waits, or is not ours any more. The end of stop ends it between two
// steps.
func (w *Worker) work(stop context.Context, owned *Owned) {
	ctx, span := owned.attempt(context.WithoutCancel(stop))
	defer span.End()
	ctx = owned.begin(ctx)
	defer owned.hold.end()
	owned.hold.beat(ctx, owned)
	faultpoint.Hit(faultpoint.TaskTaken)
	for {
		next, err := w.step(ctx, owned)
		switch {
		case ctx.Err() != nil || errors.Is(err, ErrFenced):
			w.log.WarnContext(ctx, "a task was left", append(owned.attributes(), "error", errors.Join(err, context.Cause(ctx)))...)
			return
		case errors.Is(err, postgres.ErrCommitUnknown):
			err = owned.again(ctx) // what was written is to be seen
		case err == nil && !next.going:
			err = w.finish(ctx, owned, next)
			if err == nil || errors.Is(err, ErrFenced) {
				return
			}
		}
		if err != nil {
			w.log.WarnContext(ctx, "a task's step failed", append(owned.attributes(), "error", err)...)
			w.leave(ctx, owned, backoff(owned.Stalls), fault.KindOf(err) == fault.Internal)
			return
		}
		if stop.Err() != nil {
			w.leave(ctx, owned, 0, false)
			return
		}
	}
}

// step guards the other tasks against a bug of one kind.
func (w *Worker) step(ctx context.Context, owned *Owned) (next Next, err error) {
	defer func() {
		if bug := recover(); bug != nil {
			err = fmt.Errorf("panic: %v", bug)
		}
	}()
	if owned.Stalls > w.options.MaxStalls {
		return Fail(ReasonStalled, true), nil
	}
	return owned.kind.Step(ctx, owned)
}

// ReasonStalled is why a task failed whose workers got nowhere, again and again.
const ReasonStalled = "stalled"

// again looks how far the task is. Whether it is still ours, the next write will be told.
func (o *Owned) again(ctx context.Context) error {
	return o.Read(ctx, func(ctx context.Context, db postgres.DBTX) error {
		task, err := Look(ctx, db, o.Tenant, o.ID)
		o.Checkpoint, o.Progress, o.State, o.Stalls = task.Checkpoint, task.Progress, task.State, task.Stalls
		return err
	})
}

// finish writes what the last step has come to.
func (w *Worker) finish(ctx context.Context, owned *Owned, next Next) error {
	faultpoint.Hit(faultpoint.TaskEnding)
	return Write(ctx, owned, func(ctx context.Context, f Fenced) error {
		if next.state.Ended() {
			return f.end(ctx, next)
		}
		f.release(next.delay, next.state, false)
		return nil
	})
}

// leave lets go of a task that is not done. Where it cannot be written, the lease runs out.
func (w *Worker) leave(ctx context.Context, owned *Owned, delay time.Duration, stalled bool) {
	err := Write(ctx, owned, func(_ context.Context, f Fenced) error {
		f.release(delay, owned.State, stalled)
		return nil
	})
	if err != nil {
		w.log.WarnContext(ctx, "a task was not let go of", append(owned.attributes(), "error", err)...)
	}
}

// backoff is a random time that doubles with each taking that came to nothing.
func backoff(stalls int32) time.Duration {
	most := min(againLeast<<min(stalls, 10), againMost)
	return most/2 + rand.N(most/2+1) //nolint:gosec // chance, no secret
}

// attributes name the task in a log line.
func (o *Owned) attributes() []any {
	return []any{
		"tenant_id", o.Tenant.String(), "task_id", o.ID.String(), "operation", o.Operation, "token", o.Token, "owner", o.worker.options.Name,
	}
}
