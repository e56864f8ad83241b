package telemetry

import (
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/test/shop"
)

const (
	failedSpans  = `orderonce_telemetry_spans_total{result="failed"}`
	droppedSpans = `orderonce_telemetry_spans_total{result="dropped"}`
)

// Nobody notices that the collector is away but whoever looks at the spans that were lost.
func TestACollectorThatIsAwayHoldsNothingUp(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	w := lonely(t, nobody)
	w.post(orderoncetest.NewKey(), orderoncetest.Order(nil), "")
	orderoncetest.Poll(t, "lost spans", func() bool { return w.scrape()[failedSpans] > 0 })
	w.server.Signal(t, syscall.SIGTERM)
	if status := w.server.Wait(t); status != 0 {
		t.Errorf("status %d after a stop", status)
	}
}

// One that takes the connection and never answers fills the queue. Requests go on, and what has no place is counted.
func TestACollectorThatHangsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	w := lonely(t, listener.Addr().String())
	var working sync.WaitGroup
	for range 8 {
		working.Go(func() {
			for range 250 { // of six spans and more each: the queue holds 4096
				a, err := w.server.TryPlace(t.Context(), orderoncetest.NewKey(), orderoncetest.Order(nil))
				if err != nil || a.Status != http.StatusCreated {
					t.Errorf("%v %d %s", err, a.Status, a.Body)
					return
				}
			}
		})
	}
	working.Wait()
	if dropped := w.scrape()[droppedSpans]; dropped == 0 {
		t.Error("no span is told to be dropped")
	}
}

// lonely is a world whose server tells its traces to an address where nobody listens to them.
func lonely(t *testing.T, address string) *world {
	t.Helper()
	w := &world{t: t, shop: shop.Open(t)}
	w.server = w.shop.Serve(t, shop.Options{Args: []string{
		"--otlp-endpoint=http://" + address, "--metrics-listen=127.0.0.1:0", "--trace-sampling=1",
	}})
	w.metrics = w.server.Ready.MetricsURL
	return w
}
