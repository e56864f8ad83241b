package httpapi

import (
	"context"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
)

// GetOutbox reads how far the events are behind.
func (s *Server) GetOutbox(ctx context.Context, _ api.GetOutboxRequestObject) (api.GetOutboxResponseObject, error) {
	out := api.GetOutbox200JSONResponse{Oldest: []api.OutboxEvent{}}
	err := s.read(ctx, func(ctx context.Context, db postgres.DBTX) error {
		backlog, err := outbox.ReadBacklog(ctx, db)
		if err != nil {
			return err
		}
		out.Undispatched = backlog.Events
		for _, e := range backlog.Oldest {
			out.Oldest = append(out.Oldest, api.OutboxEvent{
				Id: e.ID, TenantId: e.Tenant, AggregateType: e.AggregateType, AggregateId: e.AggregateID, Version: e.Version,
				Type: e.Type, OccurredAt: e.OccurredAt,
			})
		}
		return nil
	})
	return out, err
}
