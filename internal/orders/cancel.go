package orders

import (
	"context"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/orders/internal/ordersdb"
	"orderonce/internal/outbox"
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
	order.Status = Cancelled
	order.Version++
	tx.Stage(orderKind, statusChange{TenantID: tenant, ID: id, Status: string(order.Status), Version: order.Version})
	return order, outbox.Add(ctx, tx, outbox.Event{
		Tenant: tenant, AggregateType: "order", AggregateID: id, Version: order.Version,
		Type: "orderonce.order.cancelled.v1", Payload: order, OccurredAt: time.Now().UTC().Truncate(time.Microsecond),
	})
}

// statusChange is the row of an order that this unit holds.
type statusChange ordersdb.ChangeOrderStatusParams

func (c statusChange) Write(ctx context.Context, db postgres.DBTX) error {
	return queries.ChangeOrderStatus(ctx, db, ordersdb.ChangeOrderStatusParams(c))
}
