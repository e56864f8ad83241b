package effects_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects"
)

// Pruning takes what ended before the retention, and neither what is open, however old, nor what an order waited for: a
// cancellation that comes later has to find what it reverts.
func TestPruningKeepsWhatACancellationReverts(t *testing.T) {
	t.Parallel()
	p := setupPlans(t, payment(), everything("log", false))
	kept, open := uuid.New(), uuid.New()
	p.fanOut(p.event(kept, 1, "created"), p.event(kept, 2, "changed"), p.event(open, 1, "created"))
	_, err := p.watch.Exec(t.Context(), `UPDATE effects SET created_at = now() - interval '1 year', state = CASE order_id WHEN $1 THEN 'succeeded'
		ELSE 'unknown' END::effect_state, ended_at = CASE WHEN order_id = $1 THEN now() - version * interval '50 days' END`, kept)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := effects.Pruning(p.db, 90*24*time.Hour, slog.New(slog.DiscardHandler)).All(t.Context())
	if err != nil || rows != 1 {
		t.Errorf("removed %d, %v; want the log's effect of version 2 alone", rows, err)
	}
	rows, _, err = effects.Pruning(p.db, 0, slog.New(slog.DiscardHandler)).All(t.Context())
	if err != nil || rows != 1 {
		t.Errorf("removed %d more, %v", rows, err)
	}
	p.wantEffects(kept, "payment authorize succeeded due")
	p.fanOut(p.event(kept, 3, "cancelled"))
	var due bool
	err = p.watch.QueryRow(t.Context(), "SELECT due_at IS NOT NULL FROM effects WHERE operation = 'void' AND order_id = $1", kept).Scan(&due)
	if err != nil || !due {
		t.Errorf("the void of a year-old payment is due: %v, %v", due, err)
	}
}
