package effects

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"orderonce/internal/effects/internal/effectsdb"
	"orderonce/internal/postgres"
)

// StatesOf says how one operation of a destination stands, by order. An order that it was never asked for is missing.
func StatesOf(ctx context.Context, db postgres.DBTX, tenant uuid.UUID, destination, operation string, orders []uuid.UUID) (map[uuid.UUID]State, error) {
	rows, err := queries.ListStatesOfOrders(ctx, db, effectsdb.ListStatesOfOrdersParams{
		TenantID: tenant, Destination: destination, Operation: operation, OrderIds: orders,
	})
	if err != nil {
		return nil, fmt.Errorf("list the states of %s %s: %w", destination, operation, err)
	}
	states := make(map[uuid.UUID]State, len(rows))
	for _, row := range rows {
		states[row.OrderID] = State(row.State)
	}
	return states, nil
}
