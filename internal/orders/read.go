package orders

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/orders/internal/ordersdb"
	"orderonce/internal/postgres"
)

// Find reads one order of a tenant. An order of another tenant is fault.NotFound, like one that never was.
func Find(ctx context.Context, db postgres.DBTX, tenant, id uuid.UUID) (Order, error) {
	row, err := queries.ReadOrder(ctx, db, ordersdb.ReadOrderParams{TenantID: tenant, ID: id})
	return found(row, err)
}

// FindByClientOrder is Find by the caller's own name for the order.
func FindByClientOrder(ctx context.Context, db postgres.DBTX, tenant uuid.UUID, clientOrderID string) (Order, error) {
	row, err := queries.ReadClientOrder(ctx, db, ordersdb.ReadClientOrderParams{
		TenantID: tenant, ClientOrderID: clientOrderID,
	})
	return found(row, err)
}

func found(row ordersdb.Order, err error) (Order, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Order{}, fault.New(fault.NotFound, "There is no such order.")
	}
	if err != nil {
		return Order{}, fmt.Errorf("read an order: %w", err)
	}
	return fromRow(row)
}

// Filter narrows a list; nil takes all.
type Filter struct {
	Status     *string
	CheckoutID *string
}

// List reads up to size orders of a tenant that are older than before, newest first. more says whether there are
// others behind them. uuid.Max begins at the newest.
func List(ctx context.Context, db postgres.DBTX, tenant uuid.UUID, filter Filter, before uuid.UUID, size int32) (page []Order, more bool, err error) {
	rows, err := queries.ListOrders(ctx, db, ordersdb.ListOrdersParams{
		TenantID: tenant, Before: before, Status: filter.Status, CheckoutID: filter.CheckoutID,
		PageSize: size + 1,
	})
	if err != nil {
		return nil, false, fmt.Errorf("list orders: %w", err)
	}
	if more = len(rows) > int(size); more {
		rows = rows[:size]
	}
	page = make([]Order, 0, len(rows))
	for _, row := range rows {
		order, err := fromRow(row)
		if err != nil {
			return nil, false, err
		}
		page = append(page, order)
	}
	return page, more, nil
}
