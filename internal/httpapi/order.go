package httpapi

import (
	"context"
	"strconv"

	"github.com/google/uuid"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
)

// findOrder reads an order of the caller's tenant.
func (s *Server) findOrder(ctx context.Context, id uuid.UUID) (order orders.Order, err error) {
	err = s.read(ctx, func(ctx context.Context, db postgres.DBTX) error {
		order, err = ownOrder(ctx, db, id)
		return err
	})
	return order, err
}

// ownOrder finds an order of the caller's tenant.
func ownOrder(ctx context.Context, db postgres.DBTX, id uuid.UUID) (orders.Order, error) {
	return orders.Find(ctx, db, callOf(ctx).principal.Tenant, id)
}

// orderResource is the type of an outcome's resource that is an order.
const orderResource = "order"

func orderPath(id string) string { return "/orders/" + id }

// etagOf is the order's version: every change of an order makes the next.
func etagOf(o orders.Order) string { return `"` + strconv.FormatInt(o.Version, 10) + `"` }

func orderOf(o orders.Order) api.Order {
	out := api.Order{
		Id: o.ID, Status: api.OrderStatus(o.Status), CheckoutId: o.CheckoutID, ClientOrderId: o.ClientOrderID, CustomerId: o.CustomerID,
		Currency: o.Currency, Items: make([]api.OrderItem, len(o.Items)), ShippingAddressId: o.ShippingAddressID,
		CouponCode: o.CouponCode, Metadata: o.Metadata,
		SubtotalMinor: o.SubtotalMinor, DiscountMinor: o.DiscountMinor, TotalMinor: o.TotalMinor,
		CreatedAt: o.CreatedAt,
	}
	for i, item := range o.Items {
		out.Items[i] = api.OrderItem{Sku: item.SKU, Quantity: item.Quantity, UnitPriceMinor: item.UnitPriceMinor}
	}
	return out
}
