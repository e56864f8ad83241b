// Package orders owns orders and coupons: what may be placed, what it costs, and what it is called for ever (its
// checkout). It does not know that a request may be retried, nor who answers it. Its rules run inside a unit of work
// that may be rolled back and run again, so they touch nothing else.
package orders

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/orders/internal/ordersdb"
	"orderonce/internal/postgres"
)

// Status is where an order stands.
type Status string

// An order begins as Pending, its effects outside this database not decided yet. Rejected and Cancelled are final.
const (
	Pending   Status = "pending"
	Confirmed Status = "confirmed"
	Rejected  Status = "rejected"
	Cancelled Status = "cancelled"
)

// Item is one line of an order.
type Item struct {
	SKU            string `json:"sku"`
	Quantity       int32  `json:"quantity"`
	UnitPriceMinor int64  `json:"unit_price_minor"`
}

// Order is an order as it stands at Version. Money is in minor units of Currency; Total = Subtotal - Discount.
type Order struct {
	TenantID          uuid.UUID         `json:"-"`
	PrincipalID       uuid.UUID         `json:"-"`
	Version           int64             `json:"-"`
	ID                uuid.UUID         `json:"id"`
	Status            Status            `json:"status"`
	CheckoutID        *string           `json:"checkout_id,omitempty"`
	ClientOrderID     *string           `json:"client_order_id,omitempty"`
	CustomerID        string            `json:"customer_id"`
	Currency          string            `json:"currency"`
	Items             []Item            `json:"items"`
	ShippingAddressID string            `json:"shipping_address_id"`
	CouponCode        *string           `json:"coupon_code,omitempty"`
	Metadata          map[string]string `json:"metadata"`
	SubtotalMinor     int64             `json:"subtotal_minor"`
	DiscountMinor     int64             `json:"discount_minor"`
	TotalMinor        int64             `json:"total_minor"`
	CreatedAt         time.Time         `json:"created_at"` // UTC, microseconds
}

var queries = ordersdb.New()

// orderKind's row waits for another unit that is placing an order for the same checkout.
var orderKind = &postgres.Kind{Name: "order", Rank: postgres.RankOrder, Busy: fault.CheckoutInProgress}

func fromRow(row ordersdb.Order) (Order, error) {
	o := Order{
		TenantID: row.TenantID, PrincipalID: row.PrincipalID, Version: row.Version,
		ID: row.ID, Status: Status(row.Status), CheckoutID: row.CheckoutID, ClientOrderID: row.ClientOrderID, CustomerID: row.CustomerID,
		Currency: row.Currency, ShippingAddressID: row.ShippingAddressID, CouponCode: row.CouponCode,
		SubtotalMinor: row.SubtotalMinor, DiscountMinor: row.DiscountMinor, TotalMinor: row.TotalMinor,
		CreatedAt: row.CreatedAt,
	}
	if err := json.Unmarshal(row.Items, &o.Items); err != nil {
		return Order{}, fmt.Errorf("decode the items of order %s: %w", row.ID, err)
	}
	if err := json.Unmarshal(row.Metadata, &o.Metadata); err != nil {
		return Order{}, fmt.Errorf("decode the metadata of order %s: %w", row.ID, err)
	}
	return o, nil
}
