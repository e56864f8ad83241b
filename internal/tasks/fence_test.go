package tasks_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orderonce/internal/tasks"
)

// writes are all that an owner can write.
var writes = map[string]func(ctx context.Context, owned *tasks.Owned) error{
	"a heartbeat":             func(ctx context.Context, o *tasks.Owned) error { return o.Heartbeat(ctx) },
	"a step with its rows":    countOne,
	"letting go":              func(ctx context.Context, o *tasks.Owned) error { return o.Leave(ctx) },
	"waiting":                 func(ctx context.Context, o *tasks.Owned) error { return o.Finish(ctx, tasks.Wait(time.Hour, true)) },
	"the end":                 func(ctx context.Context, o *tasks.Owned) error { return o.Finish(ctx, tasks.Done()) },
	"the end, with a failure": func(ctx context.Context, o *tasks.Owned) error { return o.Finish(ctx, tasks.Fail("gave up", true)) },
	"rows in a unit that reads": func(ctx context.Context, o *tasks.Owned) error {
		return tasks.Write(ctx, o, func(ctx context.Context, w tasks.Fenced) error {
			db, err := w.Tx.DB(ctx)
			if err != nil {
				return err
			}
			_, err = db.Exec(ctx, "UPDATE tasks SET total = 77 WHERE tenant_id = $1 AND id = $2", o.Tenant, o.ID)
			return err
		})
	},
}

// Promise 9, cases 31 and 32. Whoever has lost the lease can write nothing: whether another one has the task now, the same
// one has taken it again, somebody has ended it, or nobody has come yet. The token decides, never the worker's name.
func TestEveryWriteOfAnEarlierOwnerIsFenced(t *testing.T) {
	t.Parallel()
	for ending, end := range map[string]func(f *fixture, old *tasks.Owned, w *tasks.Worker){
		"another worker has it": func(f *fixture, old *tasks.Owned, _ *tasks.Worker) {
			f.endLease(old.Task)
			f.take(f.worker("another"))
		},
		"the same worker has it again": func(f *fixture, old *tasks.Owned, w *tasks.Worker) {
			f.endLease(old.Task)
			again := f.take(w)
			if again.ID != old.ID || again.Token != old.Token+1 || *again.Owner != *old.Owner {
				f.t.Errorf("took %+v", again.Task)
			}
		},
		"it was done by another": func(f *fixture, old *tasks.Owned, _ *tasks.Worker) {
			f.endLease(old.Task)
			other := f.take(f.worker("another"))
			f.must(countOne(f.t.Context(), other))
			f.must(other.Finish(f.t.Context(), tasks.Done()))
		},
		"it was let go of": func(f *fixture, old *tasks.Owned, _ *tasks.Worker) {
			f.must(old.Leave(f.t.Context()))
		},
		"the lease is over, and nobody has come": func(f *fixture, old *tasks.Owned, _ *tasks.Worker) { f.endLease(old.Task) },
	} {
		t.Run(ending, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			w := f.worker("the first")
			task := f.task(1)
			old := f.take(w)
			end(f, old, w)
			before := f.rows()
			for name, write := range writes {
				if err := write(t.Context(), old); !errors.Is(err, tasks.ErrFenced) {
					t.Errorf("%s: %v, want ErrFenced", name, err)
				}
				if diff := cmp.Diff(before, f.rows()); diff != "" {
					t.Errorf("%s changed rows (-before +after)\n%s", name, diff)
				}
			}
			if n := f.now(task).FencedWrites; int(n) != len(writes) || w.FencedWrites() != int64(len(writes)) {
				t.Errorf("%d fenced writes are noted, and %d by the worker, of %d", n, w.FencedWrites(), len(writes))
			}
		})
	}
}

// The other way round: the same writes of the owner are done.
func TestEveryWriteOfTheOwnerIsDone(t *testing.T) {
	t.Parallel()
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.task(1)
			owned := f.take(f.worker("the owner"))
			before := f.rows()
			f.must(write(t.Context(), owned))
			if f.rows() == before {
				t.Error("nothing was written")
			}
		})
	}
}

// A write that holds the task keeps takers waiting: what they find is what it left.
func TestTakerWaitsForTheWriteUnderWay(t *testing.T) {
	t.Parallel()
	f := setup(t)
	task := f.task(3)
	owned := f.take(f.worker("the owner"))
	held, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	written := make(chan error)
	go func() {
		written <- tasks.Write(t.Context(), owned, func(ctx context.Context, w tasks.Fenced) error {
			if _, err := w.Tx.DB(ctx); err != nil {
				return err
			}
			once.Do(func() { close(held); <-goOn })
			w.Checkpoint(2, 2, 0)
			return nil
		})
	}()
	<-held
	taken := make(chan *tasks.Owned)
	go func() {
		// The lease is over for whoever looks now; the write's own look was before.
		for {
			other, err := f.worker("another").Take(t.Context())
			if err != nil || other != nil {
				taken <- other
				return
			}
		}
	}()
	close(goOn)
	f.must(<-written)
	f.endLease(task)
	other := <-taken
	if other == nil || other.Checkpoint != 2 || other.Token != owned.Token+1 {
		t.Fatalf("took %+v", other)
	}
	if err := countOne(t.Context(), owned); !errors.Is(err, tasks.ErrFenced) {
		t.Errorf("the first owner's next write: %v", err)
	}
}

// Case 30: the end and a taking of the same moment. One of them is first, and the other finds it so.
func TestEndRacesTaking(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for range 30 {
		task := f.task(1)
		owned := f.take(f.worker("the owner"))
		f.must(countOne(t.Context(), owned))
		var barrier, both sync.WaitGroup
		barrier.Add(3)
		var ended error
		var other *tasks.Owned
		both.Go(func() { barrier.Done(); barrier.Wait(); ended = owned.Finish(t.Context(), tasks.Done()) })
		both.Go(func() {
			w := f.worker("another")
			barrier.Done()
			barrier.Wait()
			var err error
			if other, err = w.Take(t.Context()); err != nil {
				t.Error(err)
			}
		})
		barrier.Done()
		f.endLease(task)
		both.Wait()
		now := f.now(task)
		switch {
		case ended == nil && other == nil && now.State == tasks.Succeeded && now.Token == owned.Token:
		case errors.Is(ended, tasks.ErrFenced) && !now.State.Ended():
			if other == nil {
				other = f.take(f.worker("a third"))
			}
			f.must(other.Finish(t.Context(), tasks.Done()))
		default:
			t.Errorf("the end: %v; taken: %v; the task: %+v", ended, other != nil, now)
		}
	}
}
