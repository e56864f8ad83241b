package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// job is what a load generator is told.
type job struct {
	Address     string
	Credential  string
	Connections int
	Warmup      time.Duration
	Measure     time.Duration
	// Replay is how many orders are placed first, to be asked for again from then on. 0 places new ones all the time.
	Replay int
}

// tally is what a load generator has seen in one phase. A phase with any other answer than it should get is an error.
type tally struct {
	Answers   int64
	Elapsed   time.Duration // from the first request to the last answer
	Processor time.Duration // that the generator itself had
	P50       time.Duration
	P95       time.Duration
	P99       time.Duration
}

// grace is how long the last answers of a phase may take.
const grace = 20 * time.Second

// generate is the whole life of a load generator: it reads a job, warms up, writes a tally, waits for one more JSON
// value, measures and writes another tally. It ends early when in does, so it does not outlive who started it.
func generate(in io.Reader, out io.Writer) error {
	said, say := json.NewDecoder(in), json.NewEncoder(out)
	var j job
	if err := said.Decode(&j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	if j.Connections < 1 {
		return errors.New("no connection to make")
	}
	c, err := gather(j)
	defer c.leave()
	if err != nil {
		return err
	}
	warm, err := c.work(j.Warmup)
	if err != nil {
		return err
	}
	if err := say.Encode(warm); err != nil {
		return err
	}
	var begin struct{}
	if err := said.Decode(&begin); err != nil {
		return fmt.Errorf("wait for the beginning: %w", err)
	}
	measured, err := c.work(j.Measure)
	if err != nil {
		return err
	}
	return say.Encode(measured)
}

// crew is all workers of a generator. Each has one connection and sends its next request when it has its answer.
type crew []*worker

type worker struct {
	conn    *connection
	order   *order
	request []byte
	known   []exchange // to be asked for again; none in a generator that places orders
	took    []time.Duration
}

// exchange is a request with the answer that every repetition must get.
type exchange struct{ request, body []byte }

func gather(j job) (crew, error) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	c := make(crew, 0, j.Connections)
	for i := range j.Connections {
		conn, err := dial(ctx, j.Address)
		if err != nil {
			return c, err
		}
		c = append(c, &worker{conn: conn, order: newOrder(j.Address, j.Credential, uint64(i))})
	}
	if j.Replay == 0 {
		return c, nil
	}
	each := (j.Replay + j.Connections - 1) / j.Connections
	return c, c.all(time.Minute, func(w *worker) error {
		for range each {
			if err := w.learn(); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c crew) leave() {
	for _, w := range c {
		_ = w.conn.net.Close()
	}
}

// all runs f for every worker at once. Nothing in it outlasts the bound.
func (c crew) all(bound time.Duration, f func(*worker) error) error {
	var group errgroup.Group
	deadline := time.Now().Add(bound)
	for _, w := range c {
		if err := w.conn.until(deadline); err != nil {
			return err
		}
		group.Go(func() error { return f(w) })
	}
	return group.Wait()
}

// work lets everybody work for the given time and waits for the last answers.
func (c crew) work(length time.Duration) (tally, error) {
	for _, w := range c {
		w.took = w.took[:0]
	}
	spent := ownProcessor()
	began := time.Now()
	err := c.all(length+grace, func(w *worker) error {
		for now := time.Now(); now.Sub(began) < length; {
			if err := w.once(); err != nil {
				return err
			}
			then := time.Now()
			w.took = append(w.took, then.Sub(now))
			now = then
		}
		return nil
	})
	if err != nil {
		return tally{}, err
	}
	t := tally{Elapsed: time.Since(began), Processor: ownProcessor() - spent}
	var took []time.Duration
	for _, w := range c {
		took = append(took, w.took...)
	}
	slices.Sort(took)
	t.Answers = int64(len(took))
	if len(took) > 0 {
		t.P50, t.P95, t.P99 = took[len(took)/2], took[len(took)*95/100], took[len(took)*99/100]
	}
	return t, nil
}

func (w *worker) once() error {
	if len(w.known) > 0 {
		return w.repeat(w.known[w.order.random.IntN(len(w.known))])
	}
	_, err := w.place()
	return err
}

func (w *worker) place() (answer, error) {
	var err error
	if w.request, err = w.order.append(w.request[:0]); err != nil {
		return answer{}, err
	}
	a, err := w.conn.exchange(w.request)
	if err == nil && (a.status != 201 || a.replayed) {
		err = fmt.Errorf("a new order was answered with status %d, replayed %t: %.500s", a.status, a.replayed, a.body)
	}
	return a, err
}

func (w *worker) learn() error {
	a, err := w.place()
	if err != nil {
		return err
	}
	w.known = append(w.known, exchange{request: bytes.Clone(w.request), body: bytes.Clone(a.body)})
	return nil
}

func (w *worker) repeat(e exchange) error {
	a, err := w.conn.exchange(e.request)
	if err == nil && (a.status != 201 || !a.replayed || !bytes.Equal(a.body, e.body)) {
		err = fmt.Errorf("a repeated order was answered with status %d, replayed %t: %.500s", a.status, a.replayed, a.body)
	}
	return err
}

func ownProcessor() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
