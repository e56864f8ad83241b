package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderonce/internal/load"
)

// added says which rows so many answers should have added: one of each, or nothing.
func added(answers int64) rows { return rows{answers, answers, answers} }
func nothing(int64) rows       { return rows{} }

// drive measures one leg of the server: warm up, settle, measure, count.
func (s *server) drive(ctx context.Context, j load.Job, expected func(answers int64) rows) (measurement, error) {
	nothing := func() error { return nil }
	return s.driveBetween(ctx, j, expected, nothing, nothing)
}

// driveBetween is drive with something to read just before and after what is measured.
func (s *server) driveBetween(
	ctx context.Context, j load.Job, expected func(answers int64) rows, first, last func() error,
) (measurement, error) {
	j.Target, j.Strict = s.target(s.credential), true
	g, err := startGenerator(ctx, j)
	if err != nil {
		return measurement{}, err
	}
	defer g.end()
	if _, err := g.work(s.stage.options.warmup); err != nil {
		return measurement{}, s.complaint(err)
	}
	if err := s.cluster.settle(ctx, s.db); err != nil {
		return measurement{}, err
	}
	rowsBefore, err := s.rows(ctx)
	if err != nil {
		return measurement{}, err
	}
	profiles := s.profile(ctx)
	if err := first(); err != nil {
		return measurement{}, err
	}
	before, err := s.cluster.read(ctx, s.processes()...)
	if err != nil {
		return measurement{}, err
	}
	p, err := g.work(s.stage.options.measure)
	if err != nil {
		return measurement{}, s.complaint(err)
	}
	after, err := s.cluster.read(ctx, s.processes()...)
	if err != nil {
		return measurement{}, err
	}
	if err := last(); err != nil {
		return measurement{}, err
	}
	if err := profiles(); err != nil {
		return measurement{}, err
	}
	rowsAfter, err := s.rows(ctx)
	if err != nil {
		return measurement{}, err
	}
	if added, want := rowsAfter.since(rowsBefore), expected(p.Answers); added != want {
		return measurement{}, fmt.Errorf("%d answers should have added %s, but added %s", p.Answers, want, added)
	}
	return measure(p, before, after)
}

func measure(p phase, before, after reading) (measurement, error) {
	if p.Answers == 0 {
		return measurement{}, errors.New("the server gave no answer in the measured time")
	}
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(p.Answers) }
	return measurement{
		Done:           p.Answers,
		PerSecond:      p.PerSecond(),
		P50Millis:      millis(p.P50),
		P95Millis:      millis(p.P95),
		P99Millis:      millis(p.P99),
		MaxMillis:      millis(p.Max),
		PostgresMicros: each(after.postgres - before.postgres),
		ServerMicros:   each(after.server - before.server),
		LoadMicros:     each(p.Processor),
		WALBytes:       float64(after.wal-before.wal) / float64(p.Answers),
		Strangers:      after.strangers(before, p.Processor),
	}, nil
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }
