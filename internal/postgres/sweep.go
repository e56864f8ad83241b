package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	// sweepBatch is how many rows one transaction removes at most: a few milliseconds of work.
	sweepBatch = 1000
	// sweepShare is how much of the time a sweep may be at work. A batch takes longer when the database is busy, and then
	// so does the pause behind it: others are slowed by about this share at the most.
	sweepShare = 0.1
	// sweepIdle is the pause after a batch that found nothing more to remove.
	sweepIdle = 30 * time.Second
	// sweepLockTimeout is short: a sweep has time.
	sweepLockTimeout = 100 * time.Millisecond
)

// Sweep removes rows that nobody needs any more, in the background. Any number may run at once, in any number of
// processes, where what they remove is not what another one holds.
type Sweep struct {
	db     *DB
	what   string
	log    *slog.Logger
	remove func(ctx context.Context, db DBTX, batch int32) (int64, error)
}

// NewSweep sweeps db of what remove removes: up to batch rows, in a transaction of its own. The log calls them what.
func NewSweep(db *DB, what string, log *slog.Logger, remove func(ctx context.Context, db DBTX, batch int32) (int64, error)) *Sweep {
	return &Sweep{db: db, what: what, log: log, remove: remove}
}

// Run sweeps until ctx ends. An error is logged and tried again after a pause.
func (s *Sweep) Run(ctx context.Context) {
	for ctx.Err() == nil {
		rows, took, err := s.All(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "rows were not removed", "what", s.what, "error", err)
		}
		if rows > 0 {
			s.log.InfoContext(ctx, "removed rows", "what", s.what, "rows", rows, "took", took.String())
		}
		rest(ctx, sweepIdle/2+rand.N(sweepIdle)) //nolint:gosec // chance, no secret
	}
}

// All removes what there is now, batch by batch, with pauses between. took is the time at work.
func (s *Sweep) All(ctx context.Context) (rows int64, took time.Duration, err error) {
	for ctx.Err() == nil {
		var removed int64
		began := time.Now()
		err := s.db.InTx(ctx, Unit{LockTimeout: sweepLockTimeout}, func(ctx context.Context, tx *Tx) error {
			db, err := tx.DB(ctx)
			if err == nil {
				removed, err = s.remove(ctx, db, sweepBatch)
			}
			return err
		})
		worked := time.Since(began)
		took += worked
		if err != nil {
			return rows, took, fmt.Errorf("remove %s: %w", s.what, err)
		}
		if rows += removed; removed == 0 {
			return rows, took, nil
		}
		rest(ctx, time.Duration(float64(worked)*(1/sweepShare-1)))
	}
	return rows, took, ctx.Err()
}

// rest waits, or ends with ctx.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
