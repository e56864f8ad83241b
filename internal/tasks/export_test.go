package tasks

import (
	"context"
	"time"
)

// Take makes one due task the test's own, without a heartbeat.
func (w *Worker) Take(ctx context.Context) (*Owned, error) {
	owned, err := (&hand{Worker: w}).take(ctx)
	if owned != nil {
		owned.begin(context.WithoutCancel(ctx))
	}
	return owned, err
}

// Finish writes what a step has come to.
func (o *Owned) Finish(ctx context.Context, next Next) error { return o.worker.finish(ctx, o, next) }

// Leave lets go of the task as a stopping worker does, and says whether it could.
func (o *Owned) Leave(ctx context.Context) error {
	return Write(ctx, o, func(_ context.Context, f Fenced) error {
		f.release(0, o.State, false)
		return nil
	})
}

// Heartbeat is one, at once.
func (o *Owned) Heartbeat(ctx context.Context) error {
	return Write(ctx, o, func(context.Context, Fenced) error { return nil })
}

// LocalEnd is how long this process would still work on a task whose lease it lengthened so long ago.
func LocalEnd(lease, ago time.Duration) time.Duration { return (&hold{lease: lease}).left(ago) }
