package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// sink takes the spans that were kept.
type sink struct {
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
}

func (s *sink) add(span sdktrace.ReadOnlySpan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spans = append(s.spans, span)
}

func (s *sink) names() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.spans {
		names = append(names, span.Name())
	}
	return names
}

// setup is a telemetry that samples this share of its traces into the sink.
func setup(t *testing.T, share float64) (*Telemetry, *sink) {
	t.Helper()
	s := &sink{}
	tells, err := New(t.Context(), Config{Spans: s.add, Share: share}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tells.Close(context.WithoutCancel(t.Context())) })
	return tells, s
}

func wantSpans(t *testing.T, s *sink, want ...string) {
	t.Helper()
	if got := s.names(); !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
}

// A trace that was not sampled is kept, whole and marked as sampled, for what one of its spans says.
func TestATraceIsKeptForOneOfItsSpans(t *testing.T) {
	t.Parallel()
	for name, rare := range map[string]func(trace.Span){
		"a reason": func(span trace.Span) { Keep(span, KeyReused) },
		"an error": func(span trace.Span) { Fail(span, "internal") },
	} {
		tells, s := setup(t, 0)
		ctx, root := tells.Tracer().Start(t.Context(), "root")
		below, child := Start(ctx, "child")
		_, detail := Detail(below, "detail")
		rare(child)
		detail.End()
		child.End()
		wantSpans(t, s) // until the outermost span says that this is all
		root.End()
		wantSpans(t, s, "child", "root")
		for _, span := range s.spans {
			if !span.SpanContext().IsSampled() {
				t.Errorf("%s: %s is exported as not sampled", name, span.Name())
			}
		}
	}
}

func TestACommonTraceIsForgotten(t *testing.T) {
	t.Parallel()
	tells, s := setup(t, 0)
	ctx, root := tells.Tracer().Start(t.Context(), "root")
	_, child := Start(ctx, "child")
	child.End()
	root.End()
	_, late := Start(ctx, "late")
	late.End()
	wantSpans(t, s)
}

// Two requests of one trace, such as a client's first and its retry, are judged each by itself.
func TestTwoRequestsOfOneTraceAreJudgedApart(t *testing.T) {
	t.Parallel()
	tells, s := setup(t, 0)
	caller := trace.ContextWithRemoteSpanContext(t.Context(), ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"))
	_, first := tells.Tracer().Start(caller, "first")
	_, second := tells.Tracer().Start(caller, "second")
	Keep(second, InProgress)
	first.End()
	second.End()
	wantSpans(t, s, "second")
	if got := s.spans[0].SpanContext().TraceID().String(); got != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Errorf("the caller's trace became %s", got)
	}
}

// A sampled trace goes out span by span, with its details, and a caller's wish counts up to a bound.
func TestSampledTracesHaveDetails(t *testing.T) {
	t.Parallel()
	tells, s := setup(t, 1)
	ctx, root := tells.Tracer().Start(t.Context(), "root")
	_, detail := Detail(ctx, "detail")
	detail.End()
	wantSpans(t, s, "detail")
	root.End()
	wantSpans(t, s, "detail", "root")

	tells, s = setup(t, 0)
	for range 3 * askedPerSecond {
		caller := trace.ContextWithRemoteSpanContext(t.Context(), ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
		_, span := tells.Tracer().Start(caller, "asked for")
		span.End()
	}
	// However slow the machine is: no second lets more through.
	if n := len(s.names()); n < askedPerSecond {
		t.Errorf("%d traces were kept for their callers", n)
	}
}

// What holds the spans of requests under way is empty when there are none.
func TestNothingIsHeldForLong(t *testing.T) {
	t.Parallel()
	s := &sink{}
	k := newKeeper(s.add)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(newSampler(0)), sdktrace.WithSpanProcessor(k))
	var working sync.WaitGroup
	for range 8 {
		working.Go(func() {
			for range 200 {
				ctx, root := provider.Tracer("").Start(t.Context(), "root")
				_, child := Start(ctx, "child")
				child.End()
				root.End()
			}
		})
	}
	working.Wait()
	for i := range k.shards {
		if n := len(k.shards[i].open); n > 0 {
			t.Errorf("%d spans are held", n)
		}
	}
}

// stuck is an exporter that does not return before it is let go.
type stuck struct{ free chan struct{} }

func (s stuck) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	select {
	case <-s.free:
		return errors.New("let go")
	case <-ctx.Done():
		return ctx.Err()
	}
}
func (stuck) Shutdown(context.Context) error { return nil }

// What does not fit is dropped at once, and every span is accounted for.
func TestTheQueueDropsAndCounts(t *testing.T) {
	t.Parallel()
	exporter := stuck{make(chan struct{})}
	q := newQueue(exporter, slog.New(slog.DiscardHandler))
	const sent = 3 * queued
	for range sent {
		q.add(nil)
	}
	dropped := q.dropped.Load()
	if dropped < sent-queued-batchSize {
		t.Errorf("%d were dropped", dropped)
	}
	close(exporter.free)
	if err := q.close(t.Context()); err != nil {
		t.Error(err)
	}
	if failed := q.failed.Load(); dropped+failed != sent || q.exported.Load() != 0 {
		t.Errorf("%d dropped and %d failed are not the %d that were sent", dropped, failed, sent)
	}
}
