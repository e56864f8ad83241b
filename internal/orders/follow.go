package orders

import (
	"context"
	"time"

	"orderonce/internal/effects"
	"orderonce/internal/fault"
	"orderonce/internal/orders/internal/ordersdb"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
)

// Follow lets the order follow an effect that has just ended, in the transaction that ends it: a pending order is
// confirmed when all that it waits for has succeeded, and rejected when one of that has failed. Of two effects that end
// at the same time the second one decides: it reads after it holds the order. Any other order stays as it is, and an
// effect may end before its order is there.
func Follow(ctx context.Context, tx *postgres.Tx, e effects.Effect) error {
	if !e.Required {
		return nil
	}
	db, err := tx.DB(ctx)
	if err != nil {
		return err
	}
	order, err := found(queries.LockOrder(ctx, db, ordersdb.LockOrderParams{TenantID: e.Tenant, ID: e.Order}))
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil || order.Status != Pending {
		return err
	}
	// What else the order waits for is not known before its event is dispatched; whoever dispatches it comes here then.
	if waiting, err := outbox.Waiting(ctx, db, e.Tenant, e.Order); err != nil || waiting {
		return err
	}
	standing, err := effects.StandingOf(ctx, db, e.Tenant, e.Order)
	switch {
	case err != nil:
		return err
	case standing.Failed > 0:
		_, err = order.become(ctx, tx, Rejected)
	case standing.Required > 0 && standing.Succeeded == standing.Required:
		_, err = order.become(ctx, tx, Confirmed)
	}
	return err
}

// become gives an order that this unit holds another status, and tells so by its event.
func (o Order) become(ctx context.Context, tx *postgres.Tx, status Status) (Order, error) {
	o.Status = status
	o.Version++
	tx.Stage(orderKind, statusChange{TenantID: o.TenantID, ID: o.ID, Status: string(o.Status), Version: o.Version})
	return o, outbox.Add(ctx, tx, outbox.Event{
		Tenant: o.TenantID, AggregateType: "order", AggregateID: o.ID, Version: o.Version,
		Type: "orderonce.order." + string(status) + ".v1", Payload: o, OccurredAt: time.Now().UTC().Truncate(time.Microsecond),
	})
}

// statusChange is the row of an order that this unit holds.
type statusChange ordersdb.ChangeOrderStatusParams

func (c statusChange) Write(ctx context.Context, db postgres.DBTX) error {
	return queries.ChangeOrderStatus(ctx, db, ordersdb.ChangeOrderStatusParams(c))
}
