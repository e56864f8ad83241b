package tasks

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/postgres"
	"orderonce/internal/tasks/internal/tasksdb"
)

const (
	// purgeBatch is how many tasks one look finds.
	purgeBatch = 100
	// purgeShare is how much of the time the purge may be at work, as that of the idempotency records.
	purgeShare = 0.1
	// purgeIdle is the pause after a look that found nothing more to remove.
	purgeIdle = 30 * time.Second
	// purgeLockTimeout is short: a purge has time.
	purgeLockTimeout = 100 * time.Millisecond
)

// Expired names a task whose results have outlived their retention.
type Expired struct{ Tenant, ID uuid.UUID }

// Purger removes the results that have outlived their retention. The task itself stays, to say that it was. Any number may
// run at once.
type Purger struct {
	db    *postgres.DB
	kinds map[string]Kind
	log   *slog.Logger
}

// NewPurger removes results of these kinds. db is of the Worker role.
func NewPurger(db *postgres.DB, kinds []Kind, log *slog.Logger) *Purger {
	p := &Purger{db: db, kinds: map[string]Kind{}, log: log}
	for _, kind := range kinds {
		p.kinds[kind.Operation] = kind
	}
	return p
}

// Run purges until ctx ends. An error is logged and tried again after a pause.
func (p *Purger) Run(ctx context.Context) {
	for ctx.Err() == nil {
		done, err := p.Purge(ctx)
		if err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "purge of task results failed", "error", err)
		}
		if done > 0 {
			p.log.InfoContext(ctx, "purged task results", "tasks", done)
		}
		_ = rest(ctx, purgeIdle/2+rand.N(purgeIdle)) //nolint:gosec // chance, no secret
	}
}

// Purge removes all results that are overdue now, part by part, with pauses between, and says of how many tasks.
func (p *Purger) Purge(ctx context.Context) (done int, err error) {
	for ctx.Err() == nil {
		var overdue []tasksdb.ListExpiredTasksRow
		err = p.db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
			overdue, err = queries.ListExpiredTasks(ctx, db, purgeBatch)
			return err
		})
		if err != nil {
			return done, fmt.Errorf("list expired tasks: %w", err)
		}
		purged := 0
		for _, task := range overdue {
			kind, known := p.kinds[task.Operation]
			if !known {
				continue
			}
			if err := p.purge(ctx, kind, Expired{task.TenantID, task.ID}); err != nil {
				return done + purged, err
			}
			purged++
		}
		done += purged
		if purged == 0 {
			return done, nil
		}
	}
	return done, ctx.Err()
}

// purge removes one task's results in bounded parts, each in a transaction that judges the expiry again.
func (p *Purger) purge(ctx context.Context, kind Kind, task Expired) error {
	for more := true; more && ctx.Err() == nil; {
		began := time.Now()
		err := p.db.InTx(ctx, postgres.Unit{Tenant: task.Tenant, LockTimeout: purgeLockTimeout}, func(ctx context.Context, tx *postgres.Tx) error {
			db, err := tx.DB(ctx)
			if err != nil {
				return err
			}
			row, err := queries.LockTask(ctx, db, tasksdb.LockTaskParams{TenantID: task.Tenant, ID: task.ID})
			if err != nil || !fromRow(read(row)).Expired() {
				more = false
				return err
			}
			if more, err = kind.Forget(ctx, db, task); err != nil || more {
				return err
			}
			return queries.MarkTaskPurged(ctx, db, tasksdb.MarkTaskPurgedParams{TenantID: task.Tenant, ID: task.ID})
		})
		if err != nil {
			return fmt.Errorf("purge the results of a task: %w", err)
		}
		_ = rest(ctx, time.Duration(float64(time.Since(began))*(1/purgeShare-1)))
	}
	return ctx.Err()
}
