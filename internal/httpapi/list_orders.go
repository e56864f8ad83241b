package httpapi

import (
	"context"

	"github.com/google/uuid"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
)

// ListOrders reads one page of the tenant's orders, newest first.
func (s *Server) ListOrders(ctx context.Context, request api.ListOrdersRequestObject) (api.ListOrdersResponseObject, error) {
	params := request.Params
	filter := orders.Filter{CheckoutID: params.CheckoutId, Status: (*string)(params.Status)}
	page, more, err := readPage(ctx, s, params.PageToken, func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]orders.Order, bool, error) {
		return orders.List(ctx, db, callOf(ctx).principal.Tenant, filter, before, *params.PageSize)
	})
	if err != nil {
		return nil, err
	}
	items, next := pageOf(page, more, orderOf, func(o orders.Order) uuid.UUID { return o.ID })
	return api.ListOrders200JSONResponse{Orders: items, NextPageToken: next}, nil
}
