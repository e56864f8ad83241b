package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	queued      = 4096 // spans that wait for their export, at most
	batchSize   = 512
	batchDelay  = 500 * time.Millisecond
	exportBound = 10 * time.Second
	// stopBound is how long the end of a process waits for a collector to take what is left.
	stopBound = 2 * time.Second
)

// queue exports spans from a goroutine of its own. What a request pays for a span is a place in a channel: where
// there is none the span is dropped and counted, whatever has become of the collector. (The SDK's own batch processor
// drops as well, and does not say how many.)
type queue struct {
	spans    chan sdktrace.ReadOnlySpan
	exporter sdktrace.SpanExporter
	log      *slog.Logger
	ctx      context.Context // of exports
	cancel   context.CancelFunc
	stop     chan struct{} // closed to end it
	ended    chan struct{}

	exported, dropped, failed atomic.Int64
}

func newQueue(exporter sdktrace.SpanExporter, log *slog.Logger) *queue {
	q := &queue{
		spans: make(chan sdktrace.ReadOnlySpan, queued), exporter: exporter, log: log,
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	go q.run()
	return q
}

func (q *queue) add(span sdktrace.ReadOnlySpan) {
	select {
	case q.spans <- span:
	default:
		q.dropped.Add(1)
	}
}

func (q *queue) run() {
	defer close(q.ended)
	batch := make([]sdktrace.ReadOnlySpan, 0, batchSize)
	tick := time.NewTicker(batchDelay)
	defer tick.Stop()
	failing := false
	export := func() {
		failing = q.export(batch, failing)
		clear(batch)
		batch = batch[:0]
	}
	for stopping := false; !stopping || len(q.spans) > 0; {
		select {
		case span := <-q.spans:
			if batch = append(batch, span); len(batch) == batchSize {
				export()
			}
		case <-tick.C:
			export()
		case <-q.stop:
			stopping = true
		}
	}
	export()
}

// export says whether it failed. Of a collector that stays away the log tells once.
func (q *queue) export(batch []sdktrace.ReadOnlySpan, failing bool) bool {
	if len(batch) == 0 {
		return failing
	}
	ctx, cancel := context.WithTimeout(q.ctx, exportBound)
	defer cancel()
	if err := q.exporter.ExportSpans(ctx, batch); err != nil {
		q.failed.Add(int64(len(batch)))
		if !failing {
			q.log.WarnContext(ctx, "traces cannot be exported", "error", err)
		}
		return true
	}
	q.exported.Add(int64(len(batch)))
	return false
}

// close exports what is left, in bounded time, and ends the exporter.
func (q *queue) close(ctx context.Context) error {
	late := time.AfterFunc(stopBound, q.cancel)
	defer late.Stop()
	defer q.cancel()
	close(q.stop)
	<-q.ended
	return q.exporter.Shutdown(ctx)
}
