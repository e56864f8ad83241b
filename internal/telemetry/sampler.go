package telemetry

import (
	"slices"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// sampler chooses a share of the traces at their start, and has the others recorded: what becomes of a request is known
// at its end, and the keeper then keeps those that were rare.
type sampler struct {
	share sdktrace.Sampler // of trace ids
	asked limit            // traces that their callers want sampled
}

// askedPerSecond bounds the traces that are sampled because their caller says so: anyone can say so.
const askedPerSecond = 100

func newSampler(share float64) *sampler {
	return &sampler{share: sdktrace.TraceIDRatioBased(share), asked: limit{most: askedPerSecond}}
}

// ShouldSample follows the parent where that is of this process, and otherwise a sampled trace that the new one links to:
// who follows a request to what came of it must not end halfway. What is neither is recorded at least.
func (s *sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	parent := trace.SpanFromContext(p.ParentContext)
	sc := parent.SpanContext()
	decision := sdktrace.RecordOnly
	switch {
	case sc.IsValid() && !sc.IsRemote() && !sc.IsSampled() && !parent.IsRecording():
		decision = sdktrace.Drop
	case sc.IsValid() && !sc.IsRemote():
		if sc.IsSampled() {
			decision = sdktrace.RecordAndSample
		}
	case slices.ContainsFunc(p.Links, func(l trace.Link) bool { return l.SpanContext.IsSampled() }):
		decision = sdktrace.RecordAndSample
	case sc.IsValid() && sc.IsSampled() && s.asked.allow(time.Now()):
		decision = sdktrace.RecordAndSample
	default:
		if s.share.ShouldSample(p).Decision == sdktrace.RecordAndSample {
			decision = sdktrace.RecordAndSample
		}
	}
	return sdktrace.SamplingResult{Decision: decision, Tracestate: sc.TraceState()}
}

func (s *sampler) Description() string { return "OrderOnce{" + s.share.Description() + "}" }

// limit lets a number through in each second of the clock.
type limit struct {
	most   int64
	second atomic.Int64
	count  atomic.Int64
}

func (l *limit) allow(now time.Time) bool {
	if second := now.Unix(); l.second.Swap(second) != second {
		l.count.Store(0)
	}
	return l.count.Add(1) <= l.most
}
