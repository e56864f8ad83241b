package faults

import (
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/faultpoint"
	"orderonce/test/shop"
)

// unanswered are a payment and an inventory that nobody answers for: what a worker makes of events stays as it was made.
var unanswered = []string{"--payment-url=http://127.0.0.1:1", "--inventory-url=http://127.0.0.1:1", "--destination-timeout=1s"}

// A worker that dies around the COMMIT of a batch: the next one dispatches what is left, and no event twice.
func TestWorkerKilledAroundTheCommitOfABatch(t *testing.T) {
	t.Parallel()
	for point, row := range map[faultpoint.Point]string{
		faultpoint.BeforeDispatched: "dispatch, before COMMIT, kill -9 worker",
		faultpoint.AfterDispatched:  "dispatch, after COMMIT, kill -9 worker",
	} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			const orders = 20
			s := shop.Open(t)
			server := s.Serve(t, shop.Options{})
			for range orders {
				wantFirst(t, server.Place(t, orderoncetest.NewKey(), order("")))
			}
			doomed := s.Work(t, shop.Options{Faults: []string{string(point) + "=kill"}, Args: unanswered})
			if status := doomed.Wait(t); status != -1 {
				t.Fatalf("the worker ended with status %d", status)
			}
			provoked(t, row, 1)
			left := orders
			if point == faultpoint.AfterDispatched {
				left = 0
			}
			wantDispatched(t, s, orders-left)

			other := s.Work(t, shop.Options{Args: unanswered})
			db := s.Connect(t)
			orderoncetest.Poll(t, "all events to be dispatched", func() bool {
				var n int
				err := db.QueryRow(t.Context(), "SELECT count(*) FROM outbox_events WHERE dispatched_at IS NULL").Scan(&n)
				return err == nil && n == 0
			})
			wantDispatched(t, s, orders)
			other.Kill()
		})
	}
}

// wantDispatched wants so many orders to be dispatched, each with its two effects, and the others to have none.
func wantDispatched(t *testing.T, s *shop.Shop, want int) {
	t.Helper()
	var events, effects, orders, halves int
	err := s.Connect(t).QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM outbox_events WHERE dispatched_at IS NOT NULL),
		(SELECT count(*) FROM effects), (SELECT count(DISTINCT order_id) FROM effects),
		(SELECT count(*) FROM effects f JOIN outbox_events e ON e.id = f.event_id WHERE e.dispatched_at IS NULL)`).
		Scan(&events, &effects, &orders, &halves)
	if err != nil || events != want || effects != 2*want || orders != want || halves != 0 {
		t.Errorf("%d events are dispatched, with %d effects of %d orders, %d of them of events that are not; want %d, %v",
			events, effects, orders, halves, want, err)
	}
}
