package httpapi

import (
	"context"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
)

// PutOrder makes the order of a name that the caller owns, or finds it.
func (s *Server) PutOrder(ctx context.Context, request api.PutOrderRequestObject) (api.PutOrderResponseObject, error) {
	c := callOf(ctx)
	placement := placementOf(c, request.Body)
	placement.ClientOrderID = &request.ClientOrderId
	var order orders.Order
	var made bool
	unit := postgres.Unit{Tenant: c.principal.Tenant, First: c.checks(), LockTimeout: s.LongestWait()}
	err := s.modules.Tenants.DB.Run(ctx, unit, func(ctx context.Context, tx *postgres.Tx) (err error) {
		order, made, err = orders.Put(ctx, tx, placement)
		return err
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	location := orderPath(order.ID.String())
	if made {
		return api.PutOrder201JSONResponse{
			Body: orderOf(order), Headers: api.PutOrder201ResponseHeaders{Location: location, ETag: etagOf(order)},
		}, nil
	}
	return api.PutOrder200JSONResponse{
		Body: orderOf(order), Headers: api.PutOrder200ResponseHeaders{Location: location, ETag: etagOf(order)},
	}, nil
}
