package telemetry

import (
	"context"
	"encoding/hex"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// scope names this product as the maker of its spans and metrics.
const scope = "orderonce"

// none is the span of what is not recorded.
var none = trace.SpanFromContext(context.Background())

// Start starts a span below the one that ctx carries, which knows where it goes: below a span that is not recorded there
// is none, and nothing to pay. The caller ends it.
func Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, none
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, name, options...) //nolint:spancheck // the caller ends it
}

// Detail is Start for what only a sampled trace shows: a trace that is kept for its outcome alone has the request and
// its key's acquisition.
func Detail(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !Sampled(ctx) {
		return ctx, none
	}
	return Start(ctx, name, options...)
}

// Sampled says whether details of what ctx carries will be seen.
func Sampled(ctx context.Context) bool {
	return trace.SpanContextFromContext(ctx).IsSampled()
}

// Keep has the trace of a span kept for a reason, whatever the sampler chose at its start.
func Keep(span trace.Span, reason string) { span.SetAttributes(Reason.String(reason)) }

// Fenced says in a span that a write was refused, for the attempt token had been overtaken, and has its trace kept.
func Fenced(ctx context.Context, token int64) {
	span := trace.SpanFromContext(ctx)
	span.AddEvent(EventFencedWrite, trace.WithAttributes(Fence.Int64(token)))
	Keep(span, ReasonFencedWrite)
}

// Fail marks a span as an error of the service. kind is one of few words: what an error says may hold values that do not
// belong in a trace.
func Fail(span trace.Span, kind string) {
	if span.IsRecording() {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(attribute.String("error.type", kind), Reason.String(ReasonError))
	}
}

// Traceparent is the W3C trace context of a span that others can link to, and empty where none will be there to be
// seen.
func Traceparent(ctx context.Context) string {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() || !sc.IsSampled() {
		return ""
	}
	traceID, spanID := sc.TraceID(), sc.SpanID()
	text := make([]byte, 0, traceparentLength)
	text = append(text, "00-"...)
	text = hex.AppendEncode(text, traceID[:])
	text = append(text, '-')
	text = hex.AppendEncode(text, spanID[:])
	return string(append(text, "-01"...))
}

const traceparentLength = 55

// ParseTraceparent is the span context that a traceparent names, and an invalid one where it is not well-formed.
func ParseTraceparent(text string) trace.SpanContext {
	if len(text) != traceparentLength || text[:3] != "00-" || text[35] != '-' || text[52] != '-' {
		return trace.SpanContext{}
	}
	traceID, errTrace := trace.TraceIDFromHex(text[3:35])
	spanID, errSpan := trace.SpanIDFromHex(text[36:52])
	var flags [1]byte
	_, errFlags := hex.Decode(flags[:], []byte(text[53:]))
	if errTrace != nil || errSpan != nil || errFlags != nil {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags[0]) & trace.FlagsSampled, Remote: true,
	})
}

// LinkTo is a link to the span of a traceparent: an option of a span's start, for what a sampler may see of it. It
// reports false where there is none.
func LinkTo(traceparent string) (trace.Link, bool) {
	sc := ParseTraceparent(traceparent)
	return trace.Link{SpanContext: sc}, sc.IsValid()
}
