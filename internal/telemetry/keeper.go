package telemetry

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// keeper passes sampled spans on as they end, and holds the others until the outermost span of this process ends: then
// it passes on all of them or none. One request's spans are what it holds for the time of that request.
type keeper struct {
	shards [32]shard // by span id
	next   []func(sdktrace.ReadOnlySpan)
}

type shard struct {
	mu   sync.Mutex
	open map[trace.SpanID]*held
}

// held are the ended spans below one outermost span that was not sampled.
type held struct {
	mu    sync.Mutex
	root  trace.SpanID
	spans []sdktrace.ReadOnlySpan
	keep  bool
}

// mostHeld bounds the spans of one trace that wait for its end.
const mostHeld = 64

func newKeeper(next ...func(sdktrace.ReadOnlySpan)) *keeper {
	k := &keeper{next: next}
	for i := range k.shards {
		k.shards[i].open = map[trace.SpanID]*held{}
	}
	return k
}

func (k *keeper) shard(id trace.SpanID) *shard { return &k.shards[id[7]%byte(len(k.shards))] }

func (k *keeper) of(id trace.SpanID) *held {
	s := k.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id]
}

// OnStart makes a span's place, below its parent's where that is held.
func (k *keeper) OnStart(_ context.Context, span sdktrace.ReadWriteSpan) {
	sc := span.SpanContext()
	if sc.IsSampled() {
		return
	}
	id := sc.SpanID()
	var h *held
	if parent := span.Parent(); parent.IsValid() && !parent.IsRemote() {
		if h = k.of(parent.SpanID()); h == nil {
			return // its outermost span has ended, and the trace is decided
		}
	} else {
		h = &held{root: id}
	}
	s := k.shard(id)
	s.mu.Lock()
	s.open[id] = h
	s.mu.Unlock()
}

// OnEnd passes a span on, holds it, or decides.
func (k *keeper) OnEnd(span sdktrace.ReadOnlySpan) {
	sc := span.SpanContext()
	if sc.IsSampled() {
		k.pass(span)
		return
	}
	id := sc.SpanID()
	s := k.shard(id)
	s.mu.Lock()
	h := s.open[id]
	delete(s.open, id)
	s.mu.Unlock()
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keep = h.keep || rare(span)
	if len(h.spans) < mostHeld {
		h.spans = append(h.spans, span)
	}
	if id != h.root {
		return
	}
	if h.keep {
		for _, span := range h.spans {
			k.pass(kept{span})
		}
	}
	h.spans = nil
}

func (k *keeper) pass(span sdktrace.ReadOnlySpan) {
	for _, next := range k.next {
		next(span)
	}
}

// rare says whether a span is one to keep a trace for.
func rare(span sdktrace.ReadOnlySpan) bool {
	if span.Status().Code == codes.Error {
		return true
	}
	for _, a := range span.Attributes() {
		if a.Key == Reason {
			return true
		}
	}
	return false
}

// kept is a span that was not sampled and is exported all the same.
type kept struct{ sdktrace.ReadOnlySpan }

func (k kept) SpanContext() trace.SpanContext {
	sc := k.ReadOnlySpan.SpanContext()
	return sc.WithTraceFlags(sc.TraceFlags() | trace.FlagsSampled)
}

// ForceFlush and Shutdown are the queue's, which the keeper's owner flushes and ends.
func (*keeper) ForceFlush(context.Context) error { return nil }
func (*keeper) Shutdown(context.Context) error   { return nil }
