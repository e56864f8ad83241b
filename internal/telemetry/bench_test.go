package telemetry

import (
	"context"
	"log/slog"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// What a request pays for what it tells: go test ./internal/telemetry -run '^$' -bench . -benchmem

func benchmark(b *testing.B, c Config) {
	b.Helper()
	tells, err := New(b.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = tells.Close(context.WithoutCancel(b.Context())) })
	b.ReportAllocs()
	for b.Loop() {
		ctx, root := tells.Tracer().Start(b.Context(), "POST /orders")
		below, acquire := Start(ctx, SpanAcquire)
		acquire.SetAttributes(Outcome.String(Created), Role.String(RoleLeader))
		if below, detail := Detail(below, SpanTransaction); detail.IsRecording() {
			for _, name := range []string{"ConfirmCredential", "ClaimKey", "InsertOrder", "InsertEvent", "COMMIT"} {
				_, statement := Detail(below, name)
				statement.End()
			}
			detail.End()
		}
		acquire.End()
		tells.Request(ctx, "createOrder", Created)
		tells.Answered(ctx, "POST", "/orders", 201, "", time.Millisecond)
		root.End()
	}
}

func BenchmarkRequest(b *testing.B) {
	drop := func(sdktrace.ReadOnlySpan) {}
	b.Run("off", func(b *testing.B) { benchmark(b, Config{}) })
	b.Run("metrics", func(b *testing.B) { benchmark(b, Config{Metrics: true}) })
	b.Run("forgotten", func(b *testing.B) { benchmark(b, Config{Metrics: true, Spans: drop}) })
	b.Run("sampled", func(b *testing.B) { benchmark(b, Config{Metrics: true, Spans: drop, Share: 1}) })
}
