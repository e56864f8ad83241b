package effects_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/identity"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
)

// decide plays the person whom effects need: who looks into the services' own books, and says what is there. It returns
// how many there were.
func (w *world) decide() (decided int) {
	w.t.Helper()
	var page []effects.Effect
	w.must(w.db.Read(w.t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
		page, _, err = effects.List(ctx, db, effects.Filter{State: effects.NeedsHuman}, uuid.Max, 1000)
		return err
	}))
	if len(page) == 0 {
		return 0
	}
	counts := w.services.counts()
	for _, e := range page {
		move, found := effects.Resend, effects.Finding{Evidence: "not in the service's books", Absent: true}
		if counts[e.Order.String()+" "+e.Destination+" "+e.Operation].executions > 0 {
			move, found = effects.Succeed, effects.Finding{Evidence: "in the service's books"}
		}
		w.inTx(func(ctx context.Context, tx *postgres.Tx) error {
			_, err := effects.Resolve(ctx, tx, identity.Change{Actor: "cli:tester", Reason: "looked it up"}, e.Tenant, e.ID, move, found, orders.Follow)
			return err
		})
	}
	return len(page)
}

// wantAllEnded checks the whole account: every order has its end, every effect too, with evidence, the services have
// done what that means and nothing else, each of it under one key, and both sides agree.
func (w *world) wantAllEnded(t testing.TB) {
	t.Helper()
	counts := w.services.counts()
	rows, err := w.owner.Query(w.t.Context(), "SELECT id::text, status::text FROM orders")
	w.must(err)
	var order, status string
	for rows.Next() {
		w.must(rows.Scan(&order, &status))
		if status == string(orders.Pending) {
			t.Errorf("order %s is pending", order)
		}
		wantExact(t, order, status, counts)
	}
	w.must(rows.Err())
	rows, err = w.owner.Query(w.t.Context(), `SELECT concat_ws(' ', order_id, destination, operation, state, attempts, evidence) FROM effects
		WHERE state NOT IN ('succeeded', 'failed') OR attempts > 0 AND evidence = '[]'`)
	w.must(err)
	for rows.Next() {
		w.must(rows.Scan(&order))
		t.Errorf("an effect has no end, or no evidence: %s", order)
	}
	w.must(rows.Err())
	for what, c := range counts {
		if c.keys != 1 {
			t.Errorf("%s came under %d keys", what, c.keys)
		}
	}
	if looked := w.look(); looked.Found != 0 {
		t.Errorf("the two sides disagree: %v", w.open())
	}
}
