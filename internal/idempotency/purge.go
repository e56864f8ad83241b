package idempotency

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/idempotency/internal/idempotencydb"
	"orderonce/internal/postgres"
)

const (
	// purgeBatch is how many records one transaction removes at most: a few milliseconds of work.
	purgeBatch = 1000
	// purgeShare is how much of the time the purge may be at work. A batch takes longer when the database is busy, and
	// then so does the pause behind it: requests are slowed by about this share at the most.
	purgeShare = 0.1
	// purgeIdle is the pause after a look that found nothing more to remove.
	purgeIdle = 30 * time.Second
	// purgeLockTimeout is short: a purge has time, and what it waits for is a request.
	purgeLockTimeout = 100 * time.Millisecond
	// countMost bounds what a dry run counts.
	countMost = 1_000_000
)

// Purger removes the records that have outlived their retention: those and no others. Any number may run at once, in
// any number of processes.
type Purger struct {
	db  *postgres.DB
	log *slog.Logger
}

// NewPurger purges db and logs what it removed.
func NewPurger(db *postgres.DB, log *slog.Logger) *Purger { return &Purger{db: db, log: log} }

// Purged is the account of one batch, or of several.
type Purged struct {
	Rows   int64
	Oldest time.Duration // how long the oldest one was overdue
	Took   time.Duration // at work, pauses not counted
}

// Run purges until ctx ends. An error is logged and tried again after a pause.
func (p *Purger) Run(ctx context.Context) {
	for ctx.Err() == nil {
		done, err := p.Purge(ctx)
		if err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "purge of idempotency records failed", "error", err)
		}
		if done.Rows > 0 {
			p.log.InfoContext(ctx, "purged idempotency records",
				"rows", done.Rows, "oldest_overdue", done.Oldest.String(), "took", done.Took.String())
		}
		rest(ctx, purgeIdle/2+rand.N(purgeIdle)) //nolint:gosec // chance, no secret
	}
}

// Purge removes all that is overdue now, batch by batch, with pauses between.
func (p *Purger) Purge(ctx context.Context) (total Purged, err error) {
	for ctx.Err() == nil {
		batch, err := p.batch(ctx)
		total.Rows += batch.Rows
		total.Oldest = max(total.Oldest, batch.Oldest)
		total.Took += batch.Took
		if err != nil || batch.Rows == 0 {
			return total, err
		}
		rest(ctx, time.Duration(float64(batch.Took)*(1/purgeShare-1)))
	}
	return total, ctx.Err()
}

// Overdue counts what Purge would remove now, up to a million, and tells how long the oldest is overdue.
func (p *Purger) Overdue(ctx context.Context) (rows int64, oldest time.Duration, err error) {
	err = p.db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		row, err := queries.CountOverdueKeys(ctx, db, countMost)
		rows, oldest = row.Overdue, time.Duration(row.OldestSeconds*float64(time.Second))
		return err
	})
	return rows, oldest, err
}

// Measure tells the metrics for how long the oldest record is overdue: one look at the left edge of an index.
func (p *Purger) Measure(ctx context.Context) error {
	return p.db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		row, err := queries.CountOverdueKeys(ctx, db, 1)
		if err == nil {
			p.db.Telemetry().Overdue(ctx, time.Duration(row.OldestSeconds*float64(time.Second)))
		}
		return err
	})
}

// batch removes the oldest overdue records, one transaction for each tenant among them.
func (p *Purger) batch(ctx context.Context) (done Purged, err error) {
	began := time.Now()
	defer func() { done.Took = time.Since(began) }()
	var overdue []idempotencydb.ListOverdueKeysRow
	err = p.db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
		overdue, err = queries.ListOverdueKeys(ctx, db, purgeBatch)
		return err
	})
	if err != nil || len(overdue) == 0 {
		return done, err
	}
	done.Oldest = began.Sub(overdue[0].ExpiresAt)
	byTenant := map[uuid.UUID]idempotencydb.PurgeKeysParams{}
	for _, row := range overdue {
		keys := byTenant[row.TenantID]
		keys.TenantID = row.TenantID
		keys.PrincipalIds = append(keys.PrincipalIds, row.PrincipalID)
		keys.Operations = append(keys.Operations, row.Operation)
		keys.Keys = append(keys.Keys, row.IdempotencyKey)
		byTenant[row.TenantID] = keys
	}
	for _, keys := range byTenant {
		rows, err := p.remove(ctx, keys)
		if err != nil {
			return done, err
		}
		done.Rows += rows
		p.db.Telemetry().Purged(ctx, rows)
	}
	return done, nil
}

func (p *Purger) remove(ctx context.Context, keys idempotencydb.PurgeKeysParams) (rows int64, err error) {
	err = p.db.InTx(ctx, postgres.Unit{LockTimeout: purgeLockTimeout}, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		rows, err = queries.PurgeKeys(ctx, db, keys)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("purge keys: %w", err)
	}
	return rows, nil
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
