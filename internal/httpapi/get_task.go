package httpapi

import (
	"context"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks"
)

// GetTask reads one task of the caller's tenant.
func (s *Server) GetTask(ctx context.Context, request api.GetTaskRequestObject) (api.GetTaskResponseObject, error) {
	var task tasks.Task
	err := s.read(ctx, func(ctx context.Context, db postgres.DBTX) (err error) {
		task, err = ownTask(ctx, db, request.TaskId)
		return err
	})
	if err != nil {
		return nil, err
	}
	return api.GetTask200JSONResponse{
		Body: taskOf(task), Headers: api.GetTask200ResponseHeaders{RetryAfter: s.pollOf(task)},
	}, nil
}
