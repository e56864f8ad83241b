package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderonce/internal/load"
)

// The legs of dispatch, in their order. What the first one leaves undispatched is what the second one catches up with:
// only with more waiting than comes in does it show how much a worker can do.
const (
	withoutWorker = "create c64 without a worker"
	catchingUp    = "create c64, a worker catching up"
	besideWorker  = "create c64 beside a worker"
)

var dispatchLegs = []string{withoutWorker, catchingUp, besideWorker}

// dispatch measures creates without a worker and with one, a process of its own that has no destination but webhooks
// that nobody has asked for: what is made of an event comes on top.
func (s *stage) dispatch(ctx context.Context) (err error) {
	for _, statement := range aged { // the dispatcher walks past dead entries until they are cleaned away
		if _, err := s.cluster.admin.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	d, err := s.newDatabase(ctx, "dispatch")
	if err != nil {
		return err
	}
	defer d.close(ctx)
	server, err := s.serve(ctx, d, "dispatch")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	for round := 1; round <= s.options.rounds; round++ {
		if err := d.empty(ctx); err != nil {
			return err
		}
		if err := s.turn(ctx, round, leg{withoutWorker, server.create(64)}); err != nil {
			return err
		}
		if err := server.dispatchTurn(ctx, round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// dispatchTurn is the two legs with a worker, which begins with the first one's measured time.
func (s *server) dispatchTurn(ctx context.Context, round int) (err error) {
	both := *s
	defer func() {
		if both.beside != nil {
			err = errors.Join(err, both.beside.stop())
		}
	}()
	for _, name := range []string{catchingUp, besideWorker} {
		if err := s.stage.turn(ctx, round, leg{name, both.dispatching(64)}); err != nil {
			return err
		}
		if both.beside == nil { // this leg was not wanted
			continue
		}
		if err := s.dispatched(ctx); err != nil {
			return err
		}
	}
	return nil
}

// dispatching is create beside a worker, with the events that were dispatched meanwhile and those that wait at the end.
func (s *server) dispatching(connections int) func(context.Context) (measurement, error) {
	return func(ctx context.Context) (measurement, error) {
		var counts [2]struct{ dispatched, waiting int64 }
		read := func(i int) func() error {
			return func() error {
				return s.db.QueryRow(ctx, "SELECT count(*) FILTER (WHERE dispatched_at IS NOT NULL), count(*) FILTER (WHERE dispatched_at IS NULL) "+
					"FROM outbox_events").Scan(&counts[i].dispatched, &counts[i].waiting)
			}
		}
		first := func() (err error) {
			if s.beside == nil {
				s.beside, err = s.stage.work(ctx, s.database, "worker")
			}
			return errors.Join(err, read(0)())
		}
		m, err := s.driveBetween(ctx, load.Job{Connections: connections, Work: load.Place}, added, first, read(1))
		m.Dispatched, m.Waiting = counts[1].dispatched-counts[0].dispatched, counts[1].waiting
		return m, err
	}
}

// dispatched waits until every event is.
func (s *server) dispatched(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			return errors.New("there are events that nobody dispatches")
		case <-tick.C:
		}
		if err := s.db.QueryRow(ctx, "SELECT EXISTS (SELECT FROM outbox_events WHERE dispatched_at IS NULL)").Scan(&waiting); err != nil {
			return err
		}
	}
	return nil
}
