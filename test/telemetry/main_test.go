// Package telemetry looks at whole servers as those who watch them do: through a collector that gets their traces, and
// through the metrics that Prometheus would scrape. What became of a request must be told by one trace.
package telemetry

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/postgres/postgrestest"
	"orderonce/test/collector"
	"orderonce/test/shop"
)

var update = flag.Bool("update", false, "write the pictures of docs/observability.md anew")

func TestMain(m *testing.M) { postgrestest.Main(m, orderoncetest.RemoveBinaries) }

// world is a shop whose server tells a collector.
type world struct {
	t         *testing.T
	shop      *shop.Shop
	collector *collector.Collector
	server    *shop.Server
	metrics   string // where to scrape
}

// setup starts a server that has seen its client before: the first request of a credential has a look at the database of
// its own.
func setup(t *testing.T, args ...string) *world {
	t.Helper()
	w := &world{t: t, shop: shop.Open(t), collector: collector.Start(t)}
	w.server = w.serve(args...)
	return w
}

func (w *world) serve(args ...string) *shop.Server {
	w.t.Helper()
	server := w.shop.Serve(w.t, shop.Options{
		Args: append([]string{"--otlp-endpoint=" + w.collector.Endpoint, "--metrics-listen=127.0.0.1:0"}, args...),
		Env:  []string{"OTEL_METRIC_EXPORT_INTERVAL=200"},
	})
	w.metrics = server.Ready.MetricsURL
	if status := server.Status(w.t.Context(), "/orders"); status != http.StatusOK {
		w.t.Fatalf("the first request was answered %d", status)
	}
	return server
}

// post sends an order, within a trace of the client's own where traceparent is not empty.
func (w *world) post(key, body, traceparent string, more ...string) orderoncetest.Answer {
	w.t.Helper()
	header := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {key}}
	if traceparent != "" {
		header.Set("Traceparent", traceparent)
	}
	for pair := range slices.Chunk(more, 2) {
		header.Set(pair[0], pair[1])
	}
	a, err := w.server.Do(w.t.Context(), http.MethodPost, "/orders", body, header)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// trace waits for the trace of the request that was given this id.
func (w *world) trace(a orderoncetest.Answer) []collector.Span {
	w.t.Helper()
	id := a.Header.Get("X-Request-Id")
	return w.collector.Trace(w.t, "request "+id, func(s collector.Span) bool { return s.Attributes["orderonce.request.id"] == id })
}

// named finds the one span of a name.
func (w *world) named(trace []collector.Span, name string) collector.Span {
	w.t.Helper()
	var found []collector.Span
	for _, span := range trace {
		if span.Name == name {
			found = append(found, span)
		}
	}
	if len(found) != 1 {
		w.t.Fatalf("%d spans %q in\n%s", len(found), name, picture(trace))
	}
	return found[0]
}

// hold claims a key for the shop's principal in a transaction of the test's own, as another process that is still at work
// would. release gives the key back.
func (w *world) hold(key string) (release func()) {
	w.t.Helper()
	conn := w.shop.Connect(w.t)
	tx, err := conn.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err = tx.Exec(w.t.Context(), `INSERT INTO idempotency_requests (tenant_id, principal_id, operation, idempotency_key,
			fingerprint, fingerprint_version, field_digests, api_version, created_at)
		SELECT tenant_id, id, 'createOrder', $1, '\x00', 1, '\x00', '2026-11-01', now() FROM principals WHERE name = 'shop'`, key); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(w.t.Context()); err != nil {
			w.t.Error(err)
		}
	}
}

// scrape reads the metrics as Prometheus would: each series with its value.
func (w *world) scrape() map[string]float64 {
	w.t.Helper()
	series := map[string]float64{}
	for line := range strings.Lines(w.scraped("")) {
		var value float64
		at := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		if _, err := fmt.Sscan(line[at:], &value); err != nil {
			w.t.Fatalf("%q: %v", line, err)
		}
		series[line[:at]] = value
	}
	return series
}

func (w *world) scraped(accept string) string {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.metrics, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		w.t.Fatalf("the scrape is answered %d: %v", response.StatusCode, err)
	}
	return string(text)
}
