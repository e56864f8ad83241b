package httpapi

import (
	"context"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/idempotency"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
)

// CreateOrder places an order, once per idempotency key.
func (s *Server) CreateOrder(ctx context.Context, request api.CreateOrderRequestObject) (api.CreateOrderResponseObject, error) {
	placement := placementOf(callOf(ctx), request.Body)
	return s.once(ctx, rebuilt(s, ownOrder, created), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		order, err := orders.Place(ctx, tx, placement)
		return created(order), err
	})
}

func created(order orders.Order) reply {
	response := api.CreateOrder201JSONResponse{
		Body:    orderOf(order),
		Headers: api.CreateOrder201ResponseHeaders{Location: orderPath(order.ID.String()), ETag: etagOf(order)},
	}
	return reply{
		visit:    response.VisitCreateOrderResponse,
		resource: idempotency.Resource{Type: orderResource, ID: order.ID},
	}
}

func placementOf(c *call, body *api.PlaceOrder) orders.Placement {
	p := orders.Placement{
		TenantID: c.principal.Tenant, PrincipalID: c.principal.ID,
		CheckoutID: body.CheckoutId, CustomerID: body.CustomerId, Currency: body.Currency,
		Items: make([]orders.Item, len(body.Items)), ShippingAddressID: body.ShippingAddressId,
		CouponCode: body.CouponCode, Metadata: *body.Metadata, // the contract's default is put in at the door
	}
	for i, item := range body.Items {
		p.Items[i] = orders.Item{SKU: item.Sku, Quantity: item.Quantity, UnitPriceMinor: item.UnitPriceMinor}
	}
	return p
}
