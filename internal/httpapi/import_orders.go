package httpapi

import (
	"context"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/idempotency"
	"orderonce/internal/imports"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks"
)

// ImportOrders promises to place many orders, once per idempotency key. Its body was taken in at the door, row by row.
func (s *Server) ImportOrders(ctx context.Context, _ api.ImportOrdersRequestObject) (api.ImportOrdersResponseObject, error) {
	c := callOf(ctx)
	acceptance := tasks.Acceptance{
		Scope:     c.operation.policy.Scope(c.principal.Tenant, c.principal.ID, c.operation.id, c.key),
		Principal: c.principal.ID,
	}
	return s.once(ctx, rebuilt(s, ownTask, s.importing), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		task, err := imports.Accept(ctx, tx, acceptance, c.input)
		return s.importing(task), err
	})
}

func (s *Server) importing(task tasks.Task) reply {
	response := api.ImportOrders202JSONResponse{
		Body:    taskOf(task),
		Headers: api.ImportOrders202ResponseHeaders{Location: taskPath(task.ID.String()), RetryAfter: s.pollOf(task)},
	}
	return reply{
		visit:    response.VisitImportOrdersResponse,
		resource: idempotency.Resource{Type: taskResource, ID: task.ID},
		promise:  true,
	}
}
