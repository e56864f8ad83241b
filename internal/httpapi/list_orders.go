package httpapi

import (
	"context"
	"encoding/base64"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/httpapi/api"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
)

// ListOrders reads one page of the tenant's orders, newest first.
func (s *Server) ListOrders(ctx context.Context, request api.ListOrdersRequestObject) (api.ListOrdersResponseObject, error) {
	params := request.Params
	before, err := parsePageToken(params.PageToken)
	if err != nil {
		return nil, err
	}
	filter := orders.Filter{CheckoutID: params.CheckoutId, Status: (*string)(params.Status)}
	var page []orders.Order
	var more bool
	err = s.read(ctx, func(ctx context.Context, db postgres.DBTX) (err error) {
		page, more, err = orders.List(ctx, db, callOf(ctx).principal.Tenant, filter, before, int(*params.PageSize))
		return err
	})
	if err != nil {
		return nil, err
	}
	out := api.ListOrders200JSONResponse{Orders: make([]api.Order, len(page))}
	for i, order := range page {
		out.Orders[i] = orderOf(order)
	}
	if more {
		token := pageToken(page[len(page)-1].ID)
		out.NextPageToken = &token
	}
	return out, nil
}

// A page token is the id of the last order before the page, so that a page stays what it was while orders are added.
func pageToken(last uuid.UUID) string { return base64.RawURLEncoding.EncodeToString(last[:]) }

func parsePageToken(token *string) (uuid.UUID, error) {
	if token == nil {
		return uuid.Max, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(*token)
	if err != nil || len(b) != len(uuid.UUID{}) {
		return uuid.UUID{}, &fault.Error{Kind: fault.InvalidRequest, Fields: []fault.Field{{
			Pointer: "?page_token", Reason: "is no token of this list",
		}}}
	}
	return uuid.UUID(b), nil
}
