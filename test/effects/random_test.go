package effects_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/effects"
	"orderonce/internal/faultpoint"
	"orderonce/internal/sandbox"
	"orderonce/test/shop"
)

var (
	orderCount = flag.Int("orders", 200, "how many orders TestRandomFaults places")
	killCount  = flag.Int("kills", 6, "how often TestRandomFaults kills a worker, at the least")
)

// randomFaults are what one request in five meets, by kind.
var randomFaults = map[sandbox.FaultKind]float64{
	sandbox.TimeoutBeforeWork: 0.01, sandbox.TimeoutAfterWork: 0.02, sandbox.CutBeforeWork: 0.02, sandbox.CutAfterWork: 0.02,
	sandbox.CutMidResponse: 0.02, sandbox.TooManyRequests: 0.02, sandbox.Unavailable: 0.02, sandbox.Overloaded: 0.01,
	sandbox.ErrorBeforeWork: 0.02, sandbox.ErrorAfterWork: 0.02, sandbox.Slow: 0.01,
}

// TestRandomFaults is the whole of it: orders that come in and are cancelled while one request in five to the services
// goes wrong and workers are killed at random, each service with another ability. Then everything has its end: each
// operation was executed at most once, and a rejected or cancelled order has undone exactly what was done for it.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	s := setupStage(t, [3]effects.Capability{effects.Idempotent, effects.Queryable, effects.None})
	c := &chaos{stage: s, shop: shop.OpenOnURL(t, s.url)}
	for kind, rate := range randomFaults {
		s.services.fault(sandbox.Fault{Kind: kind, Rate: rate, Delay: sandbox.Duration(300 * time.Millisecond)})
	}
	// A refusal to undo something is a person's, who has no better means than to ask again; the service would not listen.
	for _, operation := range []string{"authorize", "reserve", "confirmed"} {
		s.services.fault(sandbox.Fault{Kind: sandbox.Decline, Operation: operation, Rate: 0.02})
	}
	server := c.shop.Serve(t, shop.Options{})
	ctx, stop := context.WithCancel(t.Context())
	var workers, clients sync.WaitGroup
	for range 2 {
		workers.Go(func() { c.keepWorking(ctx) })
	}
	for i := range 8 {
		clients.Go(func() {
			for n := i; n < *orderCount; n += 8 {
				c.want(server)
			}
		})
	}
	clients.Wait()
	for c.killed.Load() < int64(*killCount) && s.underWay() > 0 {
		orderoncetest.Pause(t.Context(), 20*time.Millisecond)
	}
	stop()
	workers.Wait()
	faults := s.services.faults()
	s.services.clear() // what is left is done in peace

	calm := s.work()
	s.settle()
	for asked := -1; asked != 0; s.settle() { // what a person has decided may lead to something else to decide
		asked = s.decide()
		c.asked += max(asked, 0)
	}
	s.wantAllEnded(t)
	c.report(faults)
	if int(c.killed.Load()) < *killCount || c.asked == 0 || len(faults) < len(randomFaults) {
		t.Error("it went on without trouble")
	}
	calm.Kill()
}

type chaos struct {
	*stage
	shop   *shop.Shop
	killed atomic.Int64
	asked  int // how often a person was
}

// want places an order, one in ten of which is sold out, and cancels one in five sooner or later.
func (c *chaos) want(server *shop.Server) {
	changes := map[string]any{}
	if rand.N(10) == 0 {
		changes["items"] = []any{map[string]any{"sku": "SOLD-OUT-1", "quantity": 1, "unit_price_minor": 100}}
	}
	answer := server.Place(c.t, orderoncetest.NewKey(), orderoncetest.Order(changes))
	if answer.Status != http.StatusCreated {
		c.t.Errorf("%d %s", answer.Status, answer.Body)
		return
	}
	if rand.N(5) > 0 {
		return
	}
	orderoncetest.Pause(c.t.Context(), rand.N(3*time.Second))
	cancelled, err := server.Do(c.t.Context(), http.MethodPost, "/orders/"+answer.OrderID()+"/cancel", "",
		http.Header{"Idempotency-Key": {orderoncetest.NewKey()}})
	// Too late is an answer too: it was rejected meanwhile.
	if err != nil || cancelled.Status >= 300 && cancelled.Code() != "order_not_cancellable" {
		c.t.Errorf("cancel: %v %d %s", err, cancelled.Status, cancelled.Body)
	}
}

// keepWorking starts one worker after the other, and kills each: by its own hand between two steps, or from outside at
// any time.
func (c *chaos) keepWorking(ctx context.Context) {
	points := []faultpoint.Point{
		faultpoint.BeforeDispatched, faultpoint.AfterDispatched, faultpoint.BeforeSend, faultpoint.AfterAnswer,
		faultpoint.BeforeFinish, faultpoint.AfterFinish,
	}
	for ctx.Err() == nil {
		var faults []string
		life := 500*time.Millisecond + rand.N(4*time.Second)
		if rand.N(2) == 0 {
			faults = []string{fmt.Sprintf("%s=kill@%d", points[rand.N(len(points))], 1+rand.N(40))}
			life = 5 * time.Second
		}
		worker := c.work(faults...)
		timer := time.NewTimer(life)
		select {
		case <-timer.C:
		case <-worker.Ended():
		case <-ctx.Done():
		}
		timer.Stop()
		worker.Kill()
		c.killed.Add(1)
	}
}

// faults are the rules that have happened.
func (w *witness) faults() (happened []sandbox.Fault) {
	w.t.Helper()
	var all struct{ Faults []sandbox.Fault }
	a := w.ask(http.MethodGet, "/faults", "", nil)
	if err := json.Unmarshal([]byte(a.Body), &all); err != nil {
		w.t.Fatal(err)
	}
	for _, f := range all.Faults {
		if f.Happened > 0 {
			happened = append(happened, f)
		}
	}
	return happened
}

// report prints, with -v, what was done and to what end.
func (c *chaos) report(faults []sandbox.Fault) {
	var text strings.Builder
	fmt.Fprintf(&text, "%d workers killed, %d times a person was asked\n", c.killed.Load(), c.asked)
	requests, broken := 0, 0
	operations := map[string]counted{} // keys: how many orders
	most := 0
	for name, one := range c.services.counts() {
		_, operation, _ := strings.Cut(name, " ")
		sum := operations[operation]
		operations[operation] = counted{sum.executions + one.executions, sum.requests + one.requests, sum.keys + one.keys}
		requests += one.requests
		most = max(most, one.executions)
	}
	for _, f := range faults {
		broken += f.Happened
		fmt.Fprintf(&text, "  %-22s %6d times\n", strings.TrimSpace(string(f.Kind)+" "+f.Operation), f.Happened)
	}
	fmt.Fprintf(&text, "%d requests, %d of them broken; no operation of an order was executed more than %d time\n", requests, broken, most)
	fmt.Fprintf(&text, "  %-24s %6s %9s %9s\n", "operation", "orders", "requests", "executed")
	for _, operation := range slices.Sorted(maps.Keys(operations)) {
		n := operations[operation]
		fmt.Fprintf(&text, "  %-24s %6d %9d %9d\n", operation, n.keys, n.requests, n.executions)
	}
	rows, err := c.owner.Query(c.t.Context(), "SELECT status::text || ' ' || count(*) FROM orders GROUP BY status ORDER BY 1")
	c.must(err)
	defer rows.Close()
	for rows.Next() {
		var line string
		c.must(rows.Scan(&line))
		fmt.Fprintln(&text, "  orders", line)
	}
	c.must(rows.Err())
	c.t.Log("\n" + text.String())
}
