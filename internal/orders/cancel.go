package orders

import (
	"context"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/orders/internal/ordersdb"
	"orderonce/internal/postgres"
)

// Cancel ends an order that is pending or confirmed, and tells so by its event. Any other status is rejected for good
// with fault.OrderNotCancellable. An order of another tenant is fault.NotFound, like one that never was.
func Cancel(ctx context.Context, tx *postgres.Tx, tenant, id uuid.UUID) (Order, error) {
	db, err := tx.DB(ctx)
	if err != nil {
		return Order{}, err
	}
	order, err := found(queries.LockOrder(ctx, db, ordersdb.LockOrderParams{TenantID: tenant, ID: id}))
	if err != nil {
		return Order{}, err
	}
	if order.Status != Pending && order.Status != Confirmed {
		return Order{}, fault.New(fault.OrderNotCancellable, "The order is "+string(order.Status)+".")
	}
	return order.become(ctx, tx, Cancelled)
}
