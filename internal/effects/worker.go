package effects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/postgres"
)

// Ended is told of an effect that has just succeeded or failed, in the transaction that says so. Its error undoes that:
// the effect is then looked into again. It must not call tx.Undo, which would take back the end itself.
type Ended func(ctx context.Context, tx *postgres.Tx, e Effect) error

// Options are how a worker works. A zero value means the default, where one is named.
type Options struct {
	// Owner is the process, for people who look at an effect. It fences nothing: the attempt token does.
	Owner string
	// Lease is how long a taking counts: longer than any destination's Timeout and Finish together. Default: 1 minute.
	Lease time.Duration
	// Finish bounds the writing of an outcome. Default: 10 s.
	Finish time.Duration
	// Margin is how much longer than now a key must be remembered for its bytes to be sent again: at least the lease,
	// within which they may still leave. Default: the lease.
	Margin time.Duration
	// Stop is how long calls under way may go on after the worker was stopped, before they are cut. Default: 10 s.
	Stop time.Duration
	// MaxAttempts is how often an effect is taken before a person has to look at it. Default: 12.
	MaxAttempts int32
	// Poll is the longest pause between two looks for what is due; each pause is a random one of at least its quarter.
	// Default: 1 s.
	Poll time.Duration
	// BackoffBase doubles with each attempt up to BackoffCap; the pause is any time between 0 and that. Defaults: 1 s and
	// 10 minutes.
	BackoffBase, BackoffCap time.Duration
	// Failures is how many calls in a row have to fail until a destination, or a lane of it, is left alone for Open.
	// Defaults: 5 and 10 s.
	Failures uint32
	Open     time.Duration
	// Ended may be nil.
	Ended Ended
	Log   *slog.Logger
}

// Worker sends the effects of its destinations and finds out what became of them. Any number may run at once, in any
// number of processes.
type Worker struct {
	db      *postgres.DB
	options Options
	lines   []*line
	counts  counters
}

// NewWorker checks that what its options and destinations promise can be kept together. db is of the Worker role.
func NewWorker(db *postgres.DB, destinations []Destination, options Options) (*Worker, error) {
	options.defaults()
	if err := options.check(destinations); err != nil {
		return nil, err
	}
	w := &Worker{db: db, options: options}
	for _, d := range destinations {
		d.MaxAttempts, d.BackoffCap = cmp.Or(d.MaxAttempts, options.MaxAttempts), cmp.Or(d.BackoffCap, options.BackoffCap)
		w.lines = append(w.lines, &line{
			Destination: &d, busy: make(chan struct{}, d.Concurrency), woken: make(chan struct{}, 1),
			circuits: newCircuits(d.Name, options),
		})
	}
	return w, nil
}

func (o *Options) defaults() {
	o.Lease = cmp.Or(o.Lease, time.Minute)
	o.Finish = cmp.Or(o.Finish, 10*time.Second)
	o.Margin = cmp.Or(o.Margin, o.Lease)
	o.Stop = cmp.Or(o.Stop, 10*time.Second)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, 12)
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.BackoffBase = cmp.Or(o.BackoffBase, time.Second)
	o.BackoffCap = cmp.Or(o.BackoffCap, 10*time.Minute)
	o.Failures = cmp.Or(o.Failures, 5)
	o.Open = cmp.Or(o.Open, 10*time.Second)
	o.Log = cmp.Or(o.Log, slog.Default())
}

// check refuses what would let two calls of one effect overlap unnoticed, or a key be sent that is forgotten.
func (o *Options) check(destinations []Destination) error {
	var wrong []error
	must := func(holds bool, format string, args ...any) {
		if !holds {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	must(o.Owner != "", "effects: a worker needs an owner's name")
	must(min(o.Lease, o.Finish, o.Stop, o.Poll, o.BackoffBase, o.Open) > 0 && o.MaxAttempts > 0, "effects: durations and attempts must be positive")
	must(o.BackoffCap >= o.BackoffBase, "effects: the longest pause %s is shorter than the first one %s", o.BackoffCap, o.BackoffBase)
	must(o.Margin >= o.Lease, "effects: the margin %s is shorter than the lease %s: a key could be forgotten while it is on its way", o.Margin, o.Lease)
	seen := map[string]bool{}
	for _, d := range destinations {
		must(d.Name != "" && !seen[d.Name], "effects: two destinations are named %q, or one has no name", d.Name)
		seen[d.Name] = true
		must(d.Send != nil && d.Concurrency > 0 && d.Timeout > 0, "effects: %s needs a Send, a concurrency and a time-out", d.Name)
		must(o.Lease > d.Timeout+o.Finish, "effects: the lease %s is not longer than the time-out %s of %s and the %s to write its outcome",
			o.Lease, d.Timeout, d.Name, o.Finish)
		must(d.MaxAttempts >= 0 && (d.BackoffCap == 0 || d.BackoffCap >= o.BackoffBase),
			"effects: %s has %d attempts, with pauses of up to %s", d.Name, d.MaxAttempts, d.BackoffCap)
		switch d.Capability {
		case Idempotent:
			must(d.Retention > o.Margin, "effects: %s remembers a key for %s, which is not longer than the margin %s", d.Name, d.Retention, o.Margin)
		case Queryable:
			must(d.Query != nil, "effects: %s is queryable and has no Query", d.Name)
		case None:
			must(d.Query == nil, "effects: %s can be queried, and says that it cannot", d.Name)
		default:
			must(false, "effects: %s has the capability %q, which there is not", d.Name, d.Capability)
		}
	}
	return errors.Join(wrong...)
}

// Run works until ctx ends. Then nothing more is taken, and calls under way may go on for Options.Stop. What was
// certainly not sent by then goes back as if it had not been taken; what may have been sent is unknown, or stays in
// flight, and is unknown when its lease ends. Send and Query have to return soon after their context has ended.
func (w *Worker) Run(ctx context.Context) {
	calls, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var lines, under sync.WaitGroup
	for _, l := range w.lines {
		lines.Go(func() { w.serve(ctx, calls, l, &under) })
	}
	lines.Wait()
	stopping := time.AfterFunc(w.options.Stop, cut)
	defer stopping.Stop()
	under.Wait()
}

// Wake lets the worker look at once for what is due: after a COMMIT that made or moved effects. It never blocks.
func (w *Worker) Wake() {
	for _, l := range w.lines {
		l.wake()
	}
}

// line is a destination as this worker serves it.
type line struct {
	*Destination
	busy     chan struct{} // holds one for each call under way
	woken    chan struct{}
	circuits *circuits
	after    uuid.UUID // the tenant whose turn was last
	took     bool      // anything, since the turns began at the first tenant
}

func (l *line) wake() {
	select {
	case l.woken <- struct{}{}:
	default: // it is about to look anyway
	}
}

// reserve waits for a free place and takes all that are free with it.
func (l *line) reserve(ctx context.Context) (places int32) {
	select {
	case l.busy <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for places = 1; ; places++ {
		select {
		case l.busy <- struct{}{}:
		default:
			return places
		}
	}
}

func (l *line) free(places int32) {
	for range places {
		<-l.busy
	}
}

// serve takes what is due as places get free. calls outlive ctx.
func (w *Worker) serve(ctx, calls context.Context, l *line, under *sync.WaitGroup) {
	for ctx.Err() == nil {
		places := l.reserve(ctx)
		most := l.circuits.most(places)
		if ctx.Err() != nil || most == 0 {
			l.free(places)
			w.rest(ctx, l)
			continue
		}
		taken, more, err := w.take(ctx, l, most)
		l.free(places - int32(len(taken))) //nolint:gosec // no more than places
		for _, t := range taken {
			under.Go(func() {
				defer l.free(1)
				w.work(calls, l, t)
			})
		}
		if err != nil {
			w.options.Log.WarnContext(ctx, "effects are not taken", "destination", l.Name, "error", err)
		}
		if !more {
			w.rest(ctx, l)
		}
	}
}

// rest waits for a sign that something is due, or for the next look. The poll is the truth; the sign only saves time.
func (w *Worker) rest(ctx context.Context, l *line) {
	timer := time.NewTimer(w.options.Poll/4 + rand.N(w.options.Poll*3/4+1)) //nolint:gosec // chance, no secret
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.woken:
	case <-ctx.Done():
	}
}
