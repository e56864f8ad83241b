package httpapi

import (
	"context"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/idempotency"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
)

// CancelOrder ends an order, once per idempotency key.
func (s *Server) CancelOrder(ctx context.Context, request api.CancelOrderRequestObject) (api.CancelOrderResponseObject, error) {
	tenant := callOf(ctx).principal.Tenant
	return s.once(ctx, rebuilt(s, ownOrder, cancelled), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		order, err := orders.Cancel(ctx, tx, tenant, request.OrderId)
		return cancelled(order), err
	})
}

func cancelled(order orders.Order) reply {
	response := api.CancelOrder200JSONResponse{
		Body: orderOf(order), Headers: api.CancelOrder200ResponseHeaders{ETag: etagOf(order)},
	}
	return reply{
		visit:    response.VisitCancelOrderResponse,
		resource: idempotency.Resource{Type: orderResource, ID: order.ID},
	}
}
