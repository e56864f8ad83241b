package tasks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks/internal/tasksdb"
)

const (
	// takeOfEach is how many tasks of one tenant are looked at: more than one, so that workers who look at the same time
	// do not all want the same.
	takeOfEach = 8
	// takeAmong bounds one look.
	takeAmong = 64
)

// hand is one of a worker's. The tenants take turns: it begins behind the one that it took from last, so that ten thousand
// tasks of one tenant do not delay another's one by more than a task.
type hand struct {
	*Worker
	after uuid.UUID
}

// take makes one due task this hand's; nil where there is none.
func (h *hand) take(ctx context.Context) (*Owned, error) {
	from := h.after
	h.after = uuid.Nil // the next look begins with the first tenant, unless something is found
	due, err := h.due(ctx, from)
	if err == nil && len(due) == 0 && from != uuid.Nil {
		due, err = h.due(ctx, uuid.Nil)
	}
	if err != nil {
		return nil, err
	}
	shuffleWithinTenants(due)
	for _, seen := range due {
		owned, err := h.compareAndSwap(ctx, seen)
		if err != nil || owned != nil {
			h.after = seen.TenantID
			return owned, err
		}
	}
	return nil, nil //nolint:nilnil // there is none, and that is well
}

func (h *hand) due(ctx context.Context, after uuid.UUID) (due []tasksdb.ListDueTasksRow, err error) {
	err = h.db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
		due, err = queries.ListDueTasks(ctx, db, tasksdb.ListDueTasksParams{
			After: after, Operations: h.operations, OfEach: takeOfEach, Batch: takeAmong,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list due tasks: %w", err)
	}
	return due, nil
}

func shuffleWithinTenants(due []tasksdb.ListDueTasksRow) {
	for len(due) > 0 {
		n := 1
		for n < len(due) && due[n].TenantID == due[0].TenantID {
			n++
		}
		rand.Shuffle(n, func(i, j int) { due[i], due[j] = due[j], due[i] }) //nolint:gosec // chance, no secret
		due = due[n:]
	}
}

// compareAndSwap takes the task that was seen with this token; nil where somebody else was first, or holds it just now.
func (h *hand) compareAndSwap(ctx context.Context, seen tasksdb.ListDueTasksRow) (*Owned, error) {
	kind := h.kinds[seen.Operation]
	owned := &Owned{kind: kind, worker: h.Worker, taken: time.Now()}
	unit := postgres.Unit{Tenant: seen.TenantID, LockTimeout: lockTimeout}
	err := h.db.InTx(ctx, unit, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		row, err := queries.TakeTask(ctx, db, tasksdb.TakeTaskParams{
			TenantID: seen.TenantID, ID: seen.ID, AttemptToken: seen.AttemptToken, Owner: h.options.Name,
			Lease: kind.Policy.Task.Lease,
		})
		owned.Task = taken(row)
		if row.Traceparent != nil {
			owned.traceparent = *row.Traceparent
		}
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows) || fault.KindOf(err) == fault.Busy:
		return nil, nil //nolint:nilnil // the next look will tell
	case err != nil: // an unknown COMMIT among them: a task that was taken for nothing has a lease that ends
		return nil, fmt.Errorf("take a task: %w", err)
	}
	if owned.Takeovers > seen.Takeovers {
		h.db.Telemetry().LeaseTaken(ctx)
	}
	if owned.Takeovers > 0 {
		h.log.InfoContext(ctx, "took a task over", owned.attributes()...)
	}
	return owned, nil
}

func taken(row tasksdb.Task) Task {
	return fromRow(read{
		TenantID: row.TenantID, ID: row.ID, Operation: row.Operation, PrincipalID: row.PrincipalID,
		KeyPrincipalID: row.KeyPrincipalID, IdempotencyKey: row.IdempotencyKey, Options: row.Options,
		State: row.State, Retryable: row.Retryable, Reason: row.Reason,
		Total: row.Total, Succeeded: row.Succeeded, Rejected: row.Rejected, Checkpoint: row.Checkpoint,
		AttemptToken: row.AttemptToken, Takeovers: row.Takeovers, Stalls: row.Stalls, FencedWrites: row.FencedWrites,
		Owner: row.Owner, DueAt: row.DueAt, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	})
}
