package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks/internal/tasksdb"
	"orderonce/internal/telemetry"
)

// Acceptance is a promise to do the work of an operation.
type Acceptance struct {
	Scope     idempotency.Scope // of the key whose record answers with the promise
	Principal uuid.UUID         // who asked
	Options   any               // the operation's own, kept as JSON
	Total     int32             // rows to be done
}

// Accept writes the task into the unit that stores the promise, so that a key has one task for ever. It may be taken from
// the commit on. The operation stages its input in the same unit, behind it.
func Accept(ctx context.Context, tx *postgres.Tx, a Acceptance) (Task, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Task{}, fmt.Errorf("task id: %w", err)
	}
	options, err := json.Marshal(a.Options)
	if err != nil {
		return Task{}, fmt.Errorf("encode the options of a task: %w", err)
	}
	now := time.Now().UTC().Truncate(time.Microsecond) // for people: who may take it, and when, the database says
	task := Task{
		Tenant: a.Scope.Tenant, ID: id, Operation: a.Scope.Operation, Principal: a.Principal, Options: options,
		State: Processing, Progress: Progress{Total: a.Total}, CreatedAt: now, UpdatedAt: now,
		record: record{a.Scope.Principal, a.Scope.Key},
	}
	tx.Stage(taskKind, accepted{task, telemetry.Traceparent(ctx)})
	return task, nil
}

type accepted struct {
	Task
	traceparent string
}

func (a accepted) Write(ctx context.Context, db postgres.DBTX) error {
	params := tasksdb.InsertTaskParams{
		TenantID: a.Tenant, ID: a.ID, Operation: a.Operation, PrincipalID: a.Principal,
		KeyPrincipalID: a.record.principal, IdempotencyKey: string(a.record.key), Options: a.Options,
		Total: a.Progress.Total, CreatedAt: a.CreatedAt,
	}
	if a.traceparent != "" {
		params.Traceparent = &a.traceparent
	}
	return queries.InsertTask(ctx, db, params)
}
