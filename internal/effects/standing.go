package effects

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"orderonce/internal/effects/internal/effectsdb"
	"orderonce/internal/postgres"
)

// Standing is how far the effects are that an order waits for.
type Standing struct{ Required, Succeeded, Failed int64 }

// StandingOf reads it. Whoever decides by it holds the order, so that of two effects that end at the same time the
// second one sees the first.
func StandingOf(ctx context.Context, db postgres.DBTX, tenant, order uuid.UUID) (Standing, error) {
	row, err := queries.ReadStanding(ctx, db, effectsdb.ReadStandingParams{TenantID: tenant, OrderID: order})
	if err != nil {
		return Standing{}, fmt.Errorf("read the standing of an order's effects: %w", err)
	}
	return Standing(row), nil
}
