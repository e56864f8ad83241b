package httpapi

import (
	"context"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks"
)

// RetryTask sends a failed task on its way again, once per idempotency key.
func (s *Server) RetryTask(ctx context.Context, request api.RetryTaskRequestObject) (api.RetryTaskResponseObject, error) {
	tenant := callOf(ctx).principal.Tenant
	return s.once(ctx, rebuilt(s, ownTask, s.retried), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		task, err := tasks.Retry(ctx, tx, tenant, request.TaskId)
		return s.retried(task), err
	})
}

func (s *Server) retried(task tasks.Task) reply {
	response := api.RetryTask202JSONResponse{
		Body:    taskOf(task),
		Headers: api.RetryTask202ResponseHeaders{Location: taskPath(task.ID.String()), RetryAfter: s.pollOf(task)},
	}
	return reply{
		visit:    response.VisitRetryTaskResponse,
		resource: idempotency.Resource{Type: taskResource, ID: task.ID},
	}
}
