package telemetry

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orderonce/cmd/orderonce/orderoncetest"
)

// What the metrics count is what the clients saw, request by request.
func TestCountsAreWhatClientsSaw(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const clients, each = 10, 100
	saw := map[string]int{}
	var mu sync.Mutex
	var working sync.WaitGroup
	for range clients {
		working.Go(func() {
			var keys []string
			for range each {
				key, body := orderoncetest.NewKey(), orderoncetest.Order(nil)
				wanted := rand.N(10)
				switch {
				case wanted < 4 && len(keys) > 0: // again, and sometimes with something else
					key = keys[rand.N(len(keys))]
					if wanted == 0 {
						body = orderoncetest.Order(map[string]any{"currency": "USD"})
					}
				case wanted == 4:
					body = orderoncetest.Order(map[string]any{"coupon_code": "EXPIRED10"})
				case wanted == 5:
					body = orderoncetest.Order(map[string]any{"currency": "none"})
				case wanted == 6:
					key = " "
				default:
					keys = append(keys, key)
				}
				a, err := w.server.TryPlace(t.Context(), key, body)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				saw[outcomeOf(a)]++
				mu.Unlock()
			}
		})
	}
	working.Wait()
	counted := map[string]int{}
	total := 0
	for outcome := range saw {
		n := int(w.scrape()[fmt.Sprintf(`orderonce_idempotency_requests_total{operation="createOrder",outcome=%q}`, outcome)])
		counted[outcome] = n
		total += n
	}
	if diff := cmp.Diff(saw, counted); diff != "" || total != clients*each || len(saw) != 5 {
		t.Errorf("%d requests; clients saw what was not counted, or the other way (-saw +counted):\n%s", total, diff)
	}
}

// outcomeOf is what a client can tell of its request.
func outcomeOf(a orderoncetest.Answer) string {
	switch {
	case a.Replayed():
		return "replayed"
	case a.Status == http.StatusCreated:
		return "created"
	case a.Code() == "coupon_expired":
		return "rejected"
	case a.Code() == "idempotency_key_reused":
		return "key_reused"
	case a.Code() == "idempotency_in_progress":
		return "in_progress"
	case a.Status < http.StatusInternalServerError:
		return "invalid"
	}
	return "failed"
}

// An answer of 20 ms and one of 2 s are in different buckets, with others between them.
func TestDurationsTell20msFrom2s(t *testing.T) {
	t.Parallel()
	w := setup(t)
	bounds := map[string]bool{}
	for series := range w.scrape() {
		if name, labels, _ := strings.Cut(series, "{"); name == "http_server_request_duration_seconds_bucket" {
			_, bound, _ := strings.Cut(labels, `le="`)
			bounds[strings.TrimRight(bound, `"}`)] = true
		}
	}
	for _, bound := range []string{"0.025", "0.1", "0.5", "1", "2.5"} {
		if !bounds[bound] {
			t.Errorf("no bucket ends at %s s, only at %v", bound, bounds)
		}
	}
}

// No label of a metric holds what only one tenant, principal, order or key has.
func TestLabelsHaveFewValues(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := orderoncetest.NewKey()
	order := w.post(key, orderoncetest.Order(nil), "")
	w.server.Status(t.Context(), "/orders/"+order.OrderID())
	w.server.Status(t.Context(), "/nowhere/"+key)
	text := w.scraped("")
	for what, value := range map[string]string{"key": key, "order": order.OrderID(), "client's path": "nowhere"} {
		if strings.Contains(text, value) {
			t.Errorf("the %s is in a label", what)
		}
	}
	for _, label := range []string{"tenant", "principal", "key_hash"} {
		if strings.Contains(text, label) {
			t.Errorf("there is a label of a %s", label)
		}
	}
}

// The same metrics go to a collector.
func TestMetricsGoToTheCollector(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.post(orderoncetest.NewKey(), orderoncetest.Order(nil), "")
	for _, name := range []string{
		"http.server.request.duration", "orderonce.idempotency.requests", "orderonce.idempotency.purge.overdue",
		"orderonce.outbox.oldest.age", "db.client.connection.count", "go.goroutine.count",
	} {
		orderoncetest.Poll(t, name, func() bool { return w.collector.Metrics()[name] })
	}
}
