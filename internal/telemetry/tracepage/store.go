// Package tracepage keeps the latest traces in memory and shows them on a page, so that nothing else is needed to look at
// one while developing. It knows spans and nothing of what they stand for. It asks nobody who they are: serve it where
// only developers come by.
package tracepage

import (
	"cmp"
	"slices"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	mostTraces = 500
	mostSpans  = 300 // of one trace
)

// Store keeps the latest traces. Safe for concurrent use.
type Store struct {
	mu     sync.Mutex
	traces map[trace.TraceID]*record
	order  []trace.TraceID // oldest first
}

// record is one trace so far.
type record struct {
	id      trace.TraceID
	spans   []sdktrace.ReadOnlySpan
	dropped int
}

// NewStore keeps nothing yet.
func NewStore() *Store { return &Store{traces: map[trace.TraceID]*record{}} }

// Add takes a span that has ended. The oldest trace makes room for a new one.
func (s *Store) Add(span sdktrace.ReadOnlySpan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := span.SpanContext().TraceID()
	r, ok := s.traces[id]
	if !ok {
		if len(s.order) == mostTraces {
			delete(s.traces, s.order[0])
			s.order = slices.Delete(s.order, 0, 1)
		}
		r = &record{id: id}
		s.traces[id] = r
		s.order = append(s.order, id)
	}
	if len(r.spans) == mostSpans {
		r.dropped++
		return
	}
	r.spans = append(r.spans, span)
}

// latest lists the traces, the newest first. What it returns is its caller's.
func (s *Store) latest() (all []record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Backward(s.order) {
		all = append(all, s.traces[id].copied())
	}
	return all
}

func (s *Store) find(id trace.TraceID) (record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.traces[id]
	if !ok {
		return record{}, false
	}
	return r.copied(), true
}

// linking lists the spans of other traces that link to one.
func (s *Store) linking(to trace.TraceID) (spans []sdktrace.ReadOnlySpan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.order {
		for _, span := range s.traces[id].spans {
			if id != to && slices.ContainsFunc(span.Links(), func(l sdktrace.Link) bool { return l.SpanContext.TraceID() == to }) {
				spans = append(spans, span)
			}
		}
	}
	return spans
}

func (r *record) copied() record {
	spans := slices.Clone(r.spans)
	slices.SortStableFunc(spans, func(a, b sdktrace.ReadOnlySpan) int {
		return cmp.Or(a.StartTime().Compare(b.StartTime()), b.EndTime().Compare(a.EndTime()))
	})
	return record{id: r.id, spans: spans, dropped: r.dropped}
}

// outermost is the span that has no parent here; of several the first.
func (r *record) outermost() sdktrace.ReadOnlySpan {
	for _, span := range r.spans {
		if !r.has(span.Parent().SpanID()) {
			return span
		}
	}
	return r.spans[0]
}

func (r *record) has(id trace.SpanID) bool {
	return slices.ContainsFunc(r.spans, func(span sdktrace.ReadOnlySpan) bool { return span.SpanContext().SpanID() == id })
}

// row is a span in its place of the tree.
type row struct {
	sdktrace.ReadOnlySpan
	depth int
}

// tree lists the spans with each one's children behind it.
func (r *record) tree() (rows []row) {
	children := map[trace.SpanID][]sdktrace.ReadOnlySpan{}
	var roots []sdktrace.ReadOnlySpan
	for _, span := range r.spans {
		if parent := span.Parent().SpanID(); r.has(parent) {
			children[parent] = append(children[parent], span)
		} else {
			roots = append(roots, span)
		}
	}
	var walk func(spans []sdktrace.ReadOnlySpan, depth int)
	walk = func(spans []sdktrace.ReadOnlySpan, depth int) {
		for _, span := range spans {
			rows = append(rows, row{span, depth})
			walk(children[span.SpanContext().SpanID()], depth+1)
		}
	}
	walk(roots, 0)
	return rows
}

// extent is the time from the first begin to the last end.
func (r *record) extent() (began time.Time, took time.Duration) {
	var ended time.Time
	for i, span := range r.spans {
		if i == 0 || span.StartTime().Before(began) {
			began = span.StartTime()
		}
		if span.EndTime().After(ended) {
			ended = span.EndTime()
		}
	}
	return began, ended.Sub(began)
}
