package httpapi

import (
	"context"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
)

// GetClientOrder reads the order of a name that the caller owns.
func (s *Server) GetClientOrder(ctx context.Context, request api.GetClientOrderRequestObject) (api.GetClientOrderResponseObject, error) {
	var order orders.Order
	err := s.read(ctx, func(ctx context.Context, db postgres.DBTX) (err error) {
		order, err = orders.FindByClientOrder(ctx, db, callOf(ctx).principal.Tenant, request.ClientOrderId)
		return err
	})
	if err != nil {
		return nil, err
	}
	return api.GetClientOrder200JSONResponse{
		Body: orderOf(order), Headers: api.GetClientOrder200ResponseHeaders{ETag: etagOf(order)},
	}, nil
}
