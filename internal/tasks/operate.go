package tasks

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks/internal/tasksdb"
)

// ReasonCancelled is why a task failed that an operator ended.
const ReasonCancelled = "cancelled"

// Retry sends a task that failed, and may be retried, on its way again: from its last checkpoint, under the same
// id, with what its rows have come to already. Any other is fault.TaskNotRetryable, and one that runs already too: what
// retries share is the key of the retry.
func Retry(ctx context.Context, tx *postgres.Tx, tenant, id uuid.UUID) (Task, error) {
	task, db, err := lock(ctx, tx, tenant, id)
	if err != nil {
		return Task{}, err
	}
	if task.Expired() {
		return Task{}, fault.New(fault.TaskExpired, "The results have expired.")
	}
	if task.State != Failed || !task.Retryable {
		return Task{}, fault.New(fault.TaskNotRetryable, "The task is "+string(task.State)+".")
	}
	tx.Stage(progressKind, revived{TenantID: tenant, ID: id})
	if err := idempotency.OpenRetention(ctx, db, task.scope()); err != nil {
		return Task{}, err
	}
	task.State, task.Retryable, task.Reason, task.Stalls = Processing, false, nil, 0
	task.EndedAt, task.ResultExpiresAt, task.UpdatedAt = nil, nil, task.ReadAt
	return task, nil
}

type revived tasksdb.ReviveTaskParams

func (r revived) Write(ctx context.Context, db postgres.DBTX) error {
	return queries.ReviveTask(ctx, db, tasksdb.ReviveTaskParams(r))
}

// RetryBy is Retry by an operator. One that is being worked on already is left as it is.
func RetryBy(ctx context.Context, tx *postgres.Tx, by identity.Change, tenant, id uuid.UUID) (Task, error) {
	task, _, err := lock(ctx, tx, tenant, id)
	if err != nil || !task.State.Ended() {
		return task, err
	}
	if task, err = Retry(ctx, tx, tenant, id); err != nil {
		return Task{}, err
	}
	return task, by.Audit(ctx, tx, tenant, "task.retried", id, map[string]any{})
}

// Cancel ends a task that has not ended, for good and whoever works on it: that one's next write is fenced. What its rows
// have come to stays. One that an operator has cancelled already is left as it is; another that has ended is
// fault.NotActive.
func Cancel(ctx context.Context, tx *postgres.Tx, by identity.Change, policy idempotency.Policy, tenant, id uuid.UUID) (Task, error) {
	task, _, err := lock(ctx, tx, tenant, id)
	if err != nil {
		return Task{}, err
	}
	if task.State == Failed && *task.Reason == ReasonCancelled {
		return task, nil
	}
	if task.State.Ended() {
		return Task{}, fault.New(fault.NotActive, "The task is "+string(task.State)+".")
	}
	end := Fail(ReasonCancelled, false)
	if err := endTask(ctx, tx, task, policy, end); err != nil {
		return Task{}, err
	}
	task.State, task.Reason, task.Owner, task.DueAt = Failed, &end.reason, nil, nil
	return task, by.Audit(ctx, tx, tenant, "task.cancelled", id, map[string]any{"token": task.Token})
}

func lock(ctx context.Context, tx *postgres.Tx, tenant, id uuid.UUID) (Task, postgres.DBTX, error) {
	db, err := tx.DB(ctx)
	if err != nil {
		return Task{}, nil, err
	}
	row, err := queries.LockTask(ctx, db, tasksdb.LockTaskParams{TenantID: tenant, ID: id})
	task, err := found(read(row), err)
	if err != nil {
		return Task{}, nil, fmt.Errorf("lock a task: %w", err)
	}
	return task, db, nil
}
