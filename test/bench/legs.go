package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderonce/internal/load"
)

// The legs of a round, in their order: what is divided by one another is near one another.
const (
	naive16   = "naive c16"
	naive64   = "naive c64"
	create1   = "create c1"
	alone1    = "create alone c1"
	create16  = "create c16"
	alone16   = "create alone c16"
	create64  = "create c64"
	told64    = "create c64 told" // with metrics, and traces sampled at 1 %
	bare64    = "create without RLS c64"
	create256 = "create c256"
	hot64     = "replay hot c64"
	static64  = "static c64"
	db64      = "replay db c64"
	purging64 = "purging c64"
)

var legNames = []string{
	naive16, naive64, create1, alone1, create16, alone16, create64, told64, bare64, create256, hot64, static64, db64, purging64,
}

type leg struct {
	name    string
	measure func(context.Context) (measurement, error)
}

// table measures all rounds.
func (s *stage) table(ctx context.Context) (err error) {
	d, err := s.newDatabase(ctx, "server")
	if err != nil {
		return err
	}
	defer d.close(ctx)
	grouped, err := s.serve(ctx, d, "server")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, grouped.stop()) }()
	// The same server once more, on the same tables, but every unit commits by itself. It idles in all legs but its own.
	alone, err := s.serve(ctx, d, "alone", "--shared-commits=0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alone.stop()) }()
	collector, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer collector.server.Stop()
	// And once more with everything that telemetry has.
	told, err := s.serve(ctx, d, "told", "--otlp-endpoint="+collector.endpoint, "--metrics-listen=127.0.0.1:0", "--trace-sampling=0.01")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, told.stop()) }()
	sample, err := grouped.sample(ctx)
	if err != nil {
		return err
	}
	naive, err := prepareNaive(ctx, s.cluster, sample, s.options)
	if err != nil {
		return err
	}
	defer naive.close(ctx)
	legs := []leg{
		{naive16, naive.with(16)},
		{naive64, naive.with(64)},
		{create1, grouped.create(1)},
		{alone1, alone.create(1)},
		{create16, grouped.create(16)},
		{alone16, alone.create(16)},
		{create64, grouped.create(64)},
		{told64, told.create(64)},
		{bare64, grouped.bare(64)},
		{create256, grouped.create(256)},
		{hot64, grouped.replayHot(64)},
		{static64, grouped.static(64)},
		{db64, grouped.replayDB(64)},
		{purging64, grouped.purging(64)},
	}
	for round := 1; round <= s.options.rounds; round++ {
		// Each round begins with empty tables: the last one must not be slower than the first for its size.
		if err := errors.Join(naive.empty(ctx), d.empty(ctx)); err != nil {
			return err
		}
		for _, leg := range legs {
			if err := s.turn(ctx, round, leg); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn measures one leg of one round, if it is wanted.
func (s *stage) turn(ctx context.Context, round int, leg leg) error {
	if !s.options.only.MatchString(leg.name) {
		return nil
	}
	s.turnName = fmt.Sprintf("%s, round %d", leg.name, round)
	m, err := leg.measure(ctx)
	if skipped := skip(""); errors.As(err, &skipped) {
		s.report.remark(fmt.Sprintf("%s was left out: %s.", leg.name, string(skipped)))
		return nil
	}
	if err != nil {
		return fmt.Errorf("round %d, %s: %w", round, leg.name, err)
	}
	m.Round, m.Leg = round, leg.name
	s.report.Measurements = append(s.report.Measurements, m)
	tell("round %d of %d  %-22s %8.0f a second", round, s.options.rounds, leg.name, m.PerSecond)
	return nil
}

// skip is why a leg cannot be measured here.
type skip string

func (s skip) Error() string { return string(s) }

func (s *server) create(connections int) func(context.Context) (measurement, error) {
	return func(ctx context.Context) (measurement, error) {
		return s.drive(ctx, load.Job{Connections: connections, Work: load.Place}, added)
	}
}

// bare is create with row level security off, whatever it is on for.
func (s *server) bare(connections int) func(context.Context) (measurement, error) {
	return func(ctx context.Context) (_ measurement, err error) {
		tables, err := s.guarded(ctx)
		if err != nil {
			return measurement{}, err
		}
		if len(tables) == 0 {
			return measurement{}, skip("no table has row level security")
		}
		if err := s.guard(ctx, tables, false); err != nil {
			return measurement{}, err
		}
		defer func() { err = errors.Join(err, s.guard(context.WithoutCancel(ctx), tables, true)) }()
		return s.create(connections)(ctx)
	}
}

// known is how many orders a hot replay asks for again and again.
const known = 4096

// replayHot repeats keys that this server process has just answered.
func (s *server) replayHot(connections int) func(context.Context) (measurement, error) {
	return func(ctx context.Context) (measurement, error) {
		return s.drive(ctx, load.Job{Connections: connections, Work: load.Repeat, Known: known}, nothing)
	}
}

// unseenPerSecond is how many keys wait for each second of a replay through the database. With a faster server the leg
// ends early; its rate is that of the time it took.
const unseenPerSecond = 20_000

// replayDB asks once for each of many records that no server process has seen.
func (s *server) replayDB(connections int) func(context.Context) (measurement, error) {
	return func(ctx context.Context) (measurement, error) {
		if err := s.empty(ctx); err != nil {
			return measurement{}, err
		}
		filled, err := s.fillPlain(ctx, int((s.stage.options.measure+s.stage.options.warmup).Seconds()*unseenPerSecond))
		if err != nil {
			return measurement{}, err
		}
		m, err := s.drive(ctx, load.Job{Connections: connections, Work: load.Unseen, Unseen: filled}, nothing)
		return m, errors.Join(err, s.empty(ctx)) // what comes next begins with small tables, as this did
	}
}

// static asks for what touches no database and no key: as fast as the server's HTTP gets.
func (s *server) static(connections int) func(context.Context) (measurement, error) {
	return func(ctx context.Context) (measurement, error) {
		return s.drive(ctx, load.Job{Connections: connections, Work: load.Get, Path: "/livez"}, nothing)
	}
}

// sample places some orders and returns a typical one, as it is in the tables.
func (s *server) sample(ctx context.Context) (sample, error) {
	g, err := startGenerator(ctx, load.Job{Target: s.target(s.credential), Connections: 1, Work: load.Place, Strict: true})
	if err != nil {
		return sample{}, err
	}
	defer g.end()
	if _, err := g.work(500 * time.Millisecond); err != nil {
		return sample{}, s.complaint(err)
	}
	return takeSample(ctx, s.db)
}
