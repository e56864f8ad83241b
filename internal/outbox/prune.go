package outbox

import (
	"context"
	"log/slog"
	"time"

	"orderonce/internal/outbox/internal/outboxdb"
	"orderonce/internal/postgres"
)

// Pruning removes the events that were dispatched longer ago than retention. What has not been dispatched stays,
// however old it is.
func Pruning(db *postgres.DB, retention time.Duration, log *slog.Logger) *postgres.Sweep {
	return postgres.NewSweep(db, "dispatched events", log, func(ctx context.Context, db postgres.DBTX, batch int32) (int64, error) {
		return queries.PruneEvents(ctx, db, outboxdb.PruneEventsParams{Retention: retention.Microseconds(), Batch: batch})
	})
}
