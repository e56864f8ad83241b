package effects_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

// Eight dispatchers and a hundred changes of one order, which come while they work: its effects are made in the order of
// the versions, so that one is due and each of the others waits for its predecessor.
func TestDispatchersMakeEffectsInVersionOrder(t *testing.T) {
	t.Parallel()
	p := setupPlans(t)
	order := uuid.New()
	mail := everything("mail", true)
	plan := mail.Plan
	mail.Plan = func(ctx context.Context, db postgres.DBTX, events []outbox.Recorded) ([]effects.Call, error) {
		for i, e := range events {
			if e.AggregateID != order || e.Version == 1 || i > 0 && events[i-1].Version == e.Version-1 {
				continue
			}
			var made int
			err := db.QueryRow(ctx, "SELECT count(*) FROM effects WHERE order_id = $1 AND version = $2", order, e.Version-1).Scan(&made)
			if err != nil || made != 1 {
				t.Errorf("version %d comes before its predecessor, %v", e.Version, err)
			}
		}
		return plan(ctx, db, events)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	for range 8 {
		d := outbox.NewDispatcher(p.db, effects.NewPlanner(nil, mail).FanOut, log)
		all.Go(func() { d.Run(ctx) })
	}
	const versions = 100
	for v := range versions {
		err := p.inTx(func(ctx context.Context, tx *postgres.Tx) error {
			for _, aggregate := range []uuid.UUID{order, uuid.New()} { // and another order, for batches of several
				err := outbox.Add(ctx, tx, outbox.Event{
					Tenant: p.tenant, AggregateType: "order", AggregateID: aggregate, Version: int64(v + 1),
					Type: fmt.Sprintf("test.order.changed.v%d", v+1), Payload: struct{}{}, OccurredAt: time.Now(),
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	p.until("all to be dispatched", "SELECT NOT EXISTS (SELECT FROM outbox_events WHERE dispatched_at IS NULL)")
	var made, due, unordered int
	err := p.watch.QueryRow(t.Context(), `SELECT count(*), count(due_at), count(*) FILTER (WHERE before > version)
		FROM (SELECT *, lag(version) OVER (ORDER BY id) AS before FROM effects WHERE order_id = $1) AS e`, order).Scan(&made, &due, &unordered)
	if err != nil || made != versions || due != 1 || unordered != 0 {
		t.Errorf("%d effects, %d of them due, %d made before their predecessor, %v", made, due, unordered, err)
	}
}

// until waits until the query says so.
func (p *plans) until(what, query string) {
	p.t.Helper()
	postgrestest.Poll(p.t, what, func() (reached bool) {
		if err := p.watch.QueryRow(p.t.Context(), query).Scan(&reached); err != nil {
			p.t.Fatal(err)
		}
		return reached
	})
}
