package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// growthLeg names create beside so many live records.
func growthLeg(size int) string { return "create c64 beside " + thousands(size) }

// growth measures creates beside tables of each size. Each size has a database and a server of its own, so that the
// sizes take turns in every round, and what disturbs the machine disturbs them all.
func (s *stage) growth(ctx context.Context) (err error) {
	var legs []leg
	for _, size := range s.options.growth {
		name := fmt.Sprintf("growth%d", size)
		d, err := s.newDatabase(ctx, name)
		if err != nil {
			return err
		}
		defer d.close(ctx)
		server, err := s.serve(ctx, d, name)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.stop()) }()
		if err := server.grow(ctx, size); err != nil {
			return err
		}
		legs = append(legs, leg{growthLeg(size), server.create(64)})
	}
	s.report.Growth = s.options.growth
	for round := 1; round <= s.options.rounds; round++ {
		for _, leg := range legs {
			if err := s.turn(ctx, round, leg); err != nil {
				return err
			}
		}
	}
	return nil
}

// grow fills the tables up to a size with copies of an order that the server has placed.
func (s *server) grow(ctx context.Context, size int) error {
	began := time.Now()
	sample, err := s.sample(ctx)
	if err != nil {
		return err
	}
	before, err := s.rows(ctx)
	if err != nil {
		return err
	}
	if _, err := s.fill(ctx, sample.original(), size-int(before.orders)); err != nil {
		return err
	}
	if err := s.cluster.settle(ctx, s.db); err != nil {
		return err
	}
	after, err := s.rows(ctx)
	if err != nil {
		return err
	}
	if want := added(int64(size)); after != want {
		return fmt.Errorf("the tables should hold %s, but hold %s", want, after)
	}
	tell("%s live records after %s", thousands(size), time.Since(began).Round(time.Second))
	return nil
}

// thousands writes 1500000 as 1.5 M.
func thousands(n int) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%.3g M", float64(n)/1e6)
	case n >= 1_000:
		return fmt.Sprintf("%.3g k", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}
