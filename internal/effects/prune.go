package effects

import (
	"context"
	"log/slog"
	"time"

	"orderonce/internal/effects/internal/effectsdb"
	"orderonce/internal/postgres"
)

// Pruning removes the effects that ended longer ago than retention. Those that the order waited for stay with it: what
// is cancelled later has to be reverted, and a reversal without what it reverts would be made by nobody.
func Pruning(db *postgres.DB, retention time.Duration, log *slog.Logger) *postgres.Sweep {
	return postgres.NewSweep(db, "ended effects", log, func(ctx context.Context, db postgres.DBTX, batch int32) (int64, error) {
		return queries.PruneEffects(ctx, db, effectsdb.PruneEffectsParams{Retention: retention.Microseconds(), Batch: batch})
	})
}
