package httpapi

import (
	"context"

	"github.com/google/uuid"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks"
)

// ListTasks reads one page of the tasks of all tenants, newest first, with who works on them.
func (s *Server) ListTasks(ctx context.Context, request api.ListTasksRequestObject) (api.ListTasksResponseObject, error) {
	params := request.Params
	page, more, err := readPage(ctx, s, params.PageToken, func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]tasks.Task, bool, error) {
		return tasks.List(ctx, db, given(params.TenantId), (*string)(params.State), before, *params.PageSize)
	})
	if err != nil {
		return nil, err
	}
	items, next := pageOf(page, more, ownedTaskOf, func(t tasks.Task) uuid.UUID { return t.ID })
	return api.ListTasks200JSONResponse{Tasks: items, NextPageToken: next}, nil
}

func ownedTaskOf(t tasks.Task) api.OwnedTask {
	out := api.OwnedTask{
		Id: t.ID, TenantId: t.Tenant, Operation: t.Operation, State: api.TaskState(t.State), Retryable: t.Retryable,
		Reason: t.Reason, Progress: progressOf(t.Progress), Checkpoint: t.Checkpoint, Token: t.Token, Owner: t.Owner,
		Takeovers: t.Takeovers, Stalls: t.Stalls, FencedWrites: t.FencedWrites,
		CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, ResultExpiresAt: t.ResultExpiresAt,
	}
	if t.Owner != nil {
		out.LeaseLeftMs = leftOf(t.LeaseLeft())
	} else {
		out.DueAt = t.DueAt
	}
	return out
}
