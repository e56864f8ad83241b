package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"orderonce/internal/telemetry"
)

// What watching a request costs, with nothing behind the door: go test ./internal/httpapi -run '^$' -bench Observe
func BenchmarkObserve(b *testing.B) {
	drop := func(sdktrace.ReadOnlySpan) {}
	for name, config := range map[string]telemetry.Config{
		"off": {}, "metrics": {Metrics: true}, "forgotten": {Metrics: true, Spans: drop}, "sampled": {Metrics: true, Spans: drop, Share: 1},
	} {
		b.Run(name, func(b *testing.B) {
			tells, err := telemetry.New(b.Context(), config, slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = tells.Close(context.WithoutCancel(b.Context())) })
			s := &Server{modules: Modules{Telemetry: tells}}
			o := operationOf(b, "createOrder")
			handler := s.call(o, func(w http.ResponseWriter, _ *http.Request, c *call) error {
				c.outcome = telemetry.Created
				w.WriteHeader(http.StatusCreated)
				return nil
			})
			r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/orders", nil)
			w := httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(w, r)
			}
		})
	}
}
