package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"pgregory.net/rapid"
)

func TestTraceparentIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	tells, _ := setup(t, 1)
	ctx, span := tells.Tracer().Start(t.Context(), "root")
	defer span.End()
	text := Traceparent(ctx)
	sc := ParseTraceparent(text)
	if sc.TraceID() != span.SpanContext().TraceID() || sc.SpanID() != span.SpanContext().SpanID() || !sc.IsSampled() || !sc.IsRemote() {
		t.Errorf("%q is read as %v", text, sc)
	}
	if got := Traceparent(context.Background()); got != "" {
		t.Errorf("nothing can link to no span, not even by %q", got)
	}
}

// Whatever a client sends as one, it is a well-formed context or none.
func TestTraceparentIsWellFormedOrNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "00", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
		"00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
	} {
		if ParseTraceparent(text).IsValid() {
			t.Errorf("%q was taken", text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[0-9a-f-]{50,60}`).Draw(t, "text")
		if sc := ParseTraceparent(text); sc.IsValid() && sc.TraceID().String() != text[3:35] {
			t.Fatalf("%q is read as %s", text, sc.TraceID())
		}
	})
}

// A hash tells two keys apart, and tells neither a tenant's key nor a process's from another's.
func TestHashesTellKeysApartAndNothingElse(t *testing.T) {
	t.Parallel()
	one, same, other := newHasher("a secret of some length"), newHasher("a secret of some length"), newHasher("")
	acme, globex := [16]byte{1}, [16]byte{2}
	hash := one.sum(acme, "key-1")
	if hash != same.sum(acme, "key-1") || hash != one.sum(acme, "key-1") {
		t.Error("one key has two hashes")
	}
	for what, got := range map[string]string{
		"key": one.sum(acme, "key-2"), "tenant": one.sum(globex, "key-1"), "secret": other.sum(acme, "key-1"),
	} {
		if got == hash || len(got) != 2*hashLength {
			t.Errorf("the hash of another %s is %s", what, got)
		}
	}
}

func TestLogLinesNameTheirTrace(t *testing.T) {
	t.Parallel()
	tells, _ := setup(t, 1)
	var out bytes.Buffer
	log := slog.New(TracedLog(slog.NewJSONHandler(&out, nil))).With("a", 1).WithGroup("g")
	ctx, span := tells.Tracer().Start(t.Context(), "root")
	log.InfoContext(ctx, "within")
	span.End()
	var line struct {
		G struct {
			TraceID string `json:"trace_id"`
			SpanID  string `json:"span_id"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if sc := span.SpanContext(); line.G.TraceID != sc.TraceID().String() || line.G.SpanID != sc.SpanID().String() {
		t.Errorf("the line is %s", out.String())
	}
	out.Reset()
	log.InfoContext(t.Context(), "without")
	if bytes.Contains(out.Bytes(), []byte("trace_id")) {
		t.Errorf("a line without a trace is %s", out.String())
	}
}

// Off is off: nothing is recorded, and asking is safe.
func TestOffTellsNothing(t *testing.T) {
	t.Parallel()
	tells, err := New(t.Context(), Config{}, slog.New(slog.DiscardHandler))
	if err != nil || tells.On() || tells.Handler() != nil {
		t.Fatalf("%v %v", err, tells.On())
	}
	ctx, span := tells.Tracer().Start(t.Context(), "root")
	if span.IsRecording() || trace.SpanContextFromContext(ctx).IsValid() {
		t.Error("a span was recorded")
	}
	tells.Request(ctx, "createOrder", Created)
	tells.FencedWrite(ctx, 7)
	if err := tells.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// It cannot be parallel: the allocations of others would count.
func TestASpanThatIsNotRecordedCostsNothing(t *testing.T) {
	ctx := t.Context()
	if allocated := testing.AllocsPerRun(100, func() {
		_, span := Start(ctx, "below")
		span.End()
		_ = Traceparent(ctx)
	}); allocated > 0 {
		t.Errorf("a span that is not recorded costs %v allocations", allocated)
	}
}
