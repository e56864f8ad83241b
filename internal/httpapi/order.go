package httpapi

import (
	"strconv"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/orders"
)

func orderPath(id string) string { return "/orders/" + id }

// etagOf is the order's version: every change of an order makes the next.
func etagOf(o orders.Order) string { return `"` + strconv.FormatInt(o.Version, 10) + `"` }

func orderOf(o orders.Order) api.Order {
	out := api.Order{
		Id: o.ID, Status: api.OrderStatus(o.Status), CheckoutId: o.CheckoutID, CustomerId: o.CustomerID,
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
