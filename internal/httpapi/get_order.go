package httpapi

import (
	"context"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
)

// GetOrder reads one order of the caller's tenant.
func (s *Server) GetOrder(ctx context.Context, request api.GetOrderRequestObject) (api.GetOrderResponseObject, error) {
	var order orders.Order
	err := s.db.Read(ctx, func(ctx context.Context, db postgres.DBTX) (err error) {
		order, err = orders.Find(ctx, db, callOf(ctx).principal.Tenant, request.OrderId)
		return err
	})
	if err != nil {
		return nil, err
	}
	return api.GetOrder200JSONResponse{
		Body:    orderOf(order),
		Headers: api.GetOrder200ResponseHeaders{ETag: etagOf(order)},
	}, nil
}
