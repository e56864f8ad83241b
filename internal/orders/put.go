package orders

import (
	"context"
	"errors"
	"maps"
	"slices"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
)

// Put makes the order that the caller calls p.ClientOrderID, or finds it: the same request again changes nothing,
// whenever it comes. created says whether this unit made it. Another order of that name is fault.ClientOrderExists; the
// faults of Place are those of the first request. It is safe to run again after an unknown COMMIT.
func Put(ctx context.Context, tx *postgres.Tx, p Placement) (order Order, created bool, err error) {
	// Work that reads anyway looks before it judges: a coupon that expired since must not hide the order it made.
	if p.CouponCode != nil || tx.Opened() {
		existing, err := existing(ctx, tx, p)
		if fault.KindOf(err) != fault.NotFound {
			return existing, false, err
		}
	}
	order, err = Place(ctx, tx, p)
	if errors.Is(err, errClientOrderTaken) {
		order, err = existing(ctx, tx, p)
		return order, false, err
	}
	return order, true, err
}

// existing is the order of the caller's name, where it is the one that p asks for.
func existing(ctx context.Context, tx *postgres.Tx, p Placement) (Order, error) {
	db, err := tx.DB(ctx)
	if err != nil {
		return Order{}, err
	}
	order, err := FindByClientOrder(ctx, db, p.TenantID, *p.ClientOrderID)
	if err != nil {
		return Order{}, err
	}
	if !order.asks(p) {
		exists := fault.New(fault.ClientOrderExists, "This client order id names another order.")
		exists.Holder = order.ID.String()
		return Order{}, exists
	}
	return order, nil
}

// asks says whether the order is what p asks for. What the service adds or changes about an order is not asked for.
func (o Order) asks(p Placement) bool {
	return equal(o.CheckoutID, p.CheckoutID) && equal(o.CouponCode, p.CouponCode) &&
		o.CustomerID == p.CustomerID && o.Currency == p.Currency && o.ShippingAddressID == p.ShippingAddressID &&
		slices.Equal(o.Items, p.Items) && maps.Equal(o.Metadata, p.Metadata)
}

func equal(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
