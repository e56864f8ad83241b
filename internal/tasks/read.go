package tasks

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks/internal/tasksdb"
)

// Find reads one task of a tenant. Another tenant's is fault.NotFound, like one that never was; one whose results have
// outlived their retention is fault.TaskExpired, whether they were removed already or not.
func Find(ctx context.Context, db postgres.DBTX, tenant, id uuid.UUID) (Task, error) {
	task, err := Look(ctx, db, tenant, id)
	if err == nil && task.Expired() {
		return Task{}, fault.New(fault.TaskExpired, "The results were kept until "+task.ResultExpiresAt.UTC().Format(timeForm)+".")
	}
	return task, err
}

const timeForm = "2006-01-02T15:04:05Z"

// Look is Find for operators, who see what is left of an expired task too.
func Look(ctx context.Context, db postgres.DBTX, tenant, id uuid.UUID) (Task, error) {
	return found(queries.ReadTask(ctx, db, tasksdb.ReadTaskParams{TenantID: tenant, ID: id}))
}

func found(row read, err error) (Task, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Task{}, fault.New(fault.NotFound, "There is no such task.")
	}
	if err != nil {
		return Task{}, fmt.Errorf("read a task: %w", err)
	}
	return fromRow(row), nil
}

// List reads up to size tasks that are older than before, newest first, of one tenant or, where none is given, of all. A
// state narrows it. more says whether there are others behind them. uuid.Max begins at the newest.
func List(
	ctx context.Context, db postgres.DBTX, tenant uuid.NullUUID, state *string, before uuid.UUID, size int32,
) (page []Task, more bool, err error) {
	if tenant.Valid {
		rows, err := queries.ListTasksOfTenant(ctx, db, tasksdb.ListTasksOfTenantParams{
			TenantID: tenant.UUID, Before: before, State: state, PageSize: size + 1,
		})
		page, more = pageOf(rows, size, func(row tasksdb.ListTasksOfTenantRow) Task { return fromRow(read(row)) })
		return page, more, listed(err)
	}
	rows, err := queries.ListTasks(ctx, db, tasksdb.ListTasksParams{Before: before, State: state, PageSize: size + 1})
	page, more = pageOf(rows, size, func(row tasksdb.ListTasksRow) Task { return fromRow(read(row)) })
	return page, more, listed(err)
}

func listed(err error) error {
	if err != nil {
		return fmt.Errorf("list tasks: %w", err)
	}
	return nil
}

// pageOf leaves out the row that was only read to know whether there are more.
func pageOf[Row any](rows []Row, size int32, task func(Row) Task) (page []Task, more bool) {
	if more = len(rows) > int(size); more {
		rows = rows[:size]
	}
	page = make([]Task, len(rows))
	for i, row := range rows {
		page[i] = task(row)
	}
	return page, more
}
