package faults

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/test/shop"
)

// Server, workers and services as processes of their own: an order is confirmed when all that it waits for is done, and
// rejected where something is refused, which undoes the rest; whatever each service was asked for, it did once.
func TestOrdersAreDecidedByWorkers(t *testing.T) {
	t.Parallel()
	s := shop.Open(t)
	_, services := orderoncetest.StartServer(t, orderoncetest.Command{
		Binary: shop.Binary(t), Args: []string{"sandbox", "--data=" + t.TempDir(), "--fsync=false"},
	})
	server := s.Serve(t, shop.Options{})
	var workers []*orderoncetest.Process
	for range 2 {
		workers = append(workers, s.Work(t, shop.Options{Args: []string{
			"--payment-url=" + services.SandboxURL, "--inventory-url=" + services.SandboxURL, "--notification-url=" + services.SandboxURL,
			"--payment-capability=idempotent:24h,queryable", "--inventory-capability=queryable",
		}}))
	}
	for sku, want := range map[string]string{"MUG": "confirmed", "SOLD-OUT-MUG": "rejected"} {
		item := map[string]any{"sku": sku, "quantity": 1, "unit_price_minor": 100}
		placed := server.Place(t, orderoncetest.NewKey(), order("", "items", []any{item}))
		if !strings.Contains(placed.Body, `"status":"pending"`) {
			t.Fatalf("%d %s", placed.Status, placed.Body)
		}
		orderoncetest.Poll(t, sku+" to be "+want, func() bool {
			a, err := server.Do(t.Context(), http.MethodGet, "/orders/"+placed.OrderID(), "", nil)
			return err == nil && strings.Contains(a.Body, `"status":"`+want+`"`)
		})
	}
	db := s.Connect(t)
	ended := func(sql string) (n int) {
		if err := db.QueryRow(t.Context(), "SELECT count(*) FROM effects WHERE "+sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	// Two orders, each with an authorization, a reservation and a message; a void and a release for the rejected one.
	orderoncetest.Poll(t, "all effects to end", func() bool { return ended("ended_at IS NOT NULL") == 8 })
	if n := ended("state = 'failed' AND operation = 'reserve'"); n != 1 || ended("state = 'failed'") != 1 {
		t.Errorf("%d reservations have failed, of %d failures", n, ended("state = 'failed'"))
	}
	if n := ended("operation = 'release' AND state = 'succeeded' AND attempts = 0"); n != 1 {
		t.Errorf("%d releases had nothing to undo", n)
	}
	for _, w := range workers {
		w.Signal(t, syscall.SIGTERM)
		if status := w.Wait(t); status != 0 {
			t.Errorf("a worker that was asked to stop ended with status %d:\n%s", status, w.Stderr.String())
		}
	}
}
