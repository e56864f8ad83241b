package tasks

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// errLeaseOver ends the work on a task whose lease would be over in a moment, by this process's own measure. It spares
// work that the fence would refuse; the fence does not rely on it.
var errLeaseOver = errors.New("the lease is about to end")

// hold keeps a lease from running out for as long as its work goes on. It measures durations alone, on the monotonic
// clock: what the time of day is in this process decides nothing.
type hold struct {
	lease  time.Duration
	cancel context.CancelCauseFunc
	over   *time.Timer
	beats  sync.WaitGroup
}

// begin bounds the work by a moment before the lease ends.
func (o *Owned) begin(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	h := &hold{lease: o.kind.Policy.Task.Lease, cancel: cancel}
	h.over = time.AfterFunc(h.left(time.Since(o.taken)), func() { cancel(errLeaseOver) })
	o.hold = h
	return ctx
}

// left is how much of a lease there is to work in, that was written so long ago or less.
func (h *hold) left(ago time.Duration) time.Duration {
	margin := min(time.Second, h.lease/4)
	return h.lease - margin - ago
}

// lengthen is told of each write that lengthened the lease, and how long ago that was sent.
func (h *hold) lengthen(ago time.Duration) { h.over.Reset(h.left(ago)) }

// beat lengthens the lease every third of it, more or less, until ctx ends or the task is not ours any more.
func (h *hold) beat(ctx context.Context, owned *Owned) {
	h.beats.Go(func() {
		pause := h.lease / 3
		for {
			if rest(ctx, pause*3/4+rand.N(pause/4+1)) != nil { //nolint:gosec // chance, no secret
				return
			}
			err := Write(ctx, owned, func(context.Context, Fenced) error { return nil })
			if errors.Is(err, ErrFenced) {
				h.cancel(ErrFenced)
				return
			}
			pause = h.lease / 3
			if err != nil && ctx.Err() == nil {
				owned.worker.log.WarnContext(ctx, "a lease was not lengthened", append(owned.attributes(), "error", err)...)
				pause = h.lease / 12 // there is time for some more tries
			}
		}
	})
}

// end stops the heartbeat and waits for it.
func (h *hold) end() {
	h.over.Stop()
	h.cancel(context.Canceled)
	h.beats.Wait()
}

func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
