package load

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Crew is all workers of a generator: each has one connection, and sends its next request when it has its answer.
type Crew struct {
	job     Job
	workers []*worker
	unseen  atomic.Int64 // how many of Job.Unseen were asked for
	same    atomic.Pointer[[]byte]
}

// audited is how many exchanges a crew keeps for its audit and for its repetitions, over all connections.
const audited = 8192

// Gather connects everybody, and places the orders that are to be repeated. Leave belongs behind it.
func Gather(ctx context.Context, j Job) (*Crew, error) {
	if j.Connections < 1 {
		return nil, errors.New("no connection to make")
	}
	c := &Crew{job: j}
	for i := range j.Connections {
		w := &worker{crew: c, conn: &connection{target: j.Target}, order: newOrder(j, uint64(i))}
		switch {
		case j.Work == Same:
			w.request = w.order.whole(nil, j.Key, PlainBody())
		case j.Work == Get:
			w.request = j.Target.get(j.Path)
		case j.Work == Repeat:
			w.keep = (j.Known + j.Connections - 1) / j.Connections
		case j.Audit || j.Share > 0:
			w.keep = max(audited/j.Connections, 4)
		}
		c.workers = append(c.workers, w)
	}
	return c, c.gather(ctx)
}

func (c *Crew) gather(ctx context.Context) error {
	if err := c.all(ctx, grace, func(w *worker) error { return w.conn.dial(ctx) }); err != nil {
		c.Leave()
		return err
	}
	if c.job.Work != Repeat {
		return nil
	}
	err := c.all(ctx, time.Minute, func(w *worker) error {
		for range w.keep {
			if err := w.place(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.Leave()
	}
	return err
}

// Leave closes all connections.
func (c *Crew) Leave() {
	for _, w := range c.workers {
		w.conn.close()
	}
}

// all runs f for every worker at once. Nothing in it outlasts the bound, nor ctx, nor the first error by much.
func (c *Crew) all(ctx context.Context, bound time.Duration, f func(*worker) error) error {
	deadline := time.Now().Add(bound)
	for _, w := range c.workers {
		if err := w.conn.until(deadline); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Not errgroup's own context: that one ends with the group, and would interrupt the next phase.
	stop := context.AfterFunc(ctx, func() {
		for _, w := range c.workers {
			w.conn.interrupt()
		}
	})
	defer stop()
	var group errgroup.Group
	for _, w := range c.workers {
		group.Go(func() error {
			err := f(w)
			if err != nil {
				cancel()
			}
			return err
		})
	}
	return group.Wait()
}

// Phase lets everybody work for the given time, at least one request each, and waits for the last answers.
func (c *Crew) Phase(ctx context.Context, length time.Duration) (Tally, error) {
	for _, w := range c.workers {
		w.seen = sight{}
	}
	began := time.Now()
	err := c.all(ctx, length+grace, func(w *worker) error {
		for first := true; first || time.Since(began) < length; first = false {
			if err := w.once(ctx); errors.Is(err, errNoMore) {
				return nil
			} else if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Tally{}, err
	}
	return c.tally(time.Since(began)), nil
}

// Tally is what a crew has seen in one phase.
type Tally struct {
	Answers  int64            `json:"answers"`
	Outcomes map[string]int64 `json:"outcomes"` // of each request that was sent, answered or not
	Elapsed  time.Duration    `json:"elapsed_ns"`
	P50      time.Duration    `json:"p50_ns"`
	P95      time.Duration    `json:"p95_ns"`
	P99      time.Duration    `json:"p99_ns"`
	Max      time.Duration    `json:"max_ns"`
	Wrong    int64            `json:"wrong"`              // answers that break a promise, or none at all
	Examples []string         `json:"examples,omitempty"` // of what is wrong
}

// PerSecond is the rate of answers.
func (t Tally) PerSecond() float64 {
	if t.Elapsed <= 0 {
		return 0
	}
	return float64(t.Answers) / t.Elapsed.Seconds()
}

const maxExamples = 5

func (c *Crew) tally(elapsed time.Duration) Tally {
	t := Tally{Outcomes: map[string]int64{}, Elapsed: elapsed}
	var took latencies
	for _, w := range c.workers {
		took.merge(&w.seen.took)
		for outcome, n := range w.seen.outcomes {
			t.Outcomes[outcome] += n
		}
		t.Wrong += w.seen.wrong
		t.Examples = append(t.Examples, w.seen.examples...)
	}
	t.Examples = t.Examples[:min(len(t.Examples), maxExamples)]
	t.Answers, t.Max = took.count, took.longest
	t.P50, t.P95, t.P99 = took.quantile(0.50), took.quantile(0.95), took.quantile(0.99)
	return t
}
