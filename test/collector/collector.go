// Package collector is a tiny OpenTelemetry collector for tests: it takes traces and metrics by OTLP over gRPC, as a real
// one would, and keeps them to be looked at. It knows the protocol and nothing of the product.
package collector

import (
	"context"
	"encoding/hex"
	"net"
	"slices"
	"sync"
	"testing"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	pb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"orderonce/cmd/orderonce/orderoncetest"
)

// Collector listens on loopback until the test ends.
type Collector struct {
	Endpoint string // such as http://127.0.0.1:4317

	mu      sync.Mutex
	spans   []Span
	metrics []*metrics.ExportMetricsServiceRequest
}

// Span is a span that arrived.
type Span struct {
	*pb.Span
	Attributes map[string]any
}

// TraceID is in lower-case hexadecimal, as everyone writes it.
func (s Span) TraceID() string { return hex.EncodeToString(s.TraceId) }

// ID is the span's own.
func (s Span) ID() string { return hex.EncodeToString(s.SpanId) }

// Parent is the id of the parent, and empty where there is none.
func (s Span) Parent() string { return hex.EncodeToString(s.ParentSpanId) }

// LinkedTraces are the traces of the spans that it links to.
func (s Span) LinkedTraces() (ids []string) {
	for _, link := range s.Links {
		ids = append(ids, hex.EncodeToString(link.TraceId))
	}
	return ids
}

// Event finds an event by its name.
func (s Span) Event(name string) (attributes map[string]any, ok bool) {
	for _, event := range s.Events {
		if event.Name == name {
			return Values(event.Attributes), true
		}
	}
	return nil, false
}

// Start starts a collector.
func Start(tb testing.TB) *Collector {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	c := &Collector{Endpoint: "http://" + listener.Addr().String()}
	server := grpc.NewServer()
	traces.RegisterTraceServiceServer(server, traceServer{c: c})
	metrics.RegisterMetricsServiceServer(server, metricsServer{c: c})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	tb.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	return c
}

type traceServer struct {
	traces.UnimplementedTraceServiceServer
	c *Collector
}

func (s traceServer) Export(_ context.Context, r *traces.ExportTraceServiceRequest) (*traces.ExportTraceServiceResponse, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for _, resource := range r.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				s.c.spans = append(s.c.spans, Span{span, Values(span.Attributes)})
			}
		}
	}
	return &traces.ExportTraceServiceResponse{}, nil
}

type metricsServer struct {
	metrics.UnimplementedMetricsServiceServer
	c *Collector
}

func (s metricsServer) Export(_ context.Context, r *metrics.ExportMetricsServiceRequest) (*metrics.ExportMetricsServiceResponse, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.metrics = append(s.c.metrics, r)
	return &metrics.ExportMetricsServiceResponse{}, nil
}

// Spans are those that have arrived.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Trace waits for a whole trace: its outermost span ends last and is sent behind all others. found says which span that
// is.
func (c *Collector) Trace(tb testing.TB, what string, found func(Span) bool) (trace []Span) {
	tb.Helper()
	var id string
	orderoncetest.Poll(tb, "the trace of "+what, func() bool {
		spans := c.Spans()
		i := slices.IndexFunc(spans, func(s Span) bool { return s.Parent() == "" && found(s) })
		if i < 0 {
			return false
		}
		id = spans[i].TraceID()
		return true
	})
	for _, span := range c.Spans() {
		if span.TraceID() == id {
			trace = append(trace, span)
		}
	}
	return trace
}

// Text is all that has arrived, for a search.
func (c *Collector) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var text string
	for _, span := range c.spans {
		text += protojson.Format(span.Span) + "\n"
	}
	for _, request := range c.metrics {
		text += protojson.Format(request) + "\n"
	}
	return text
}

// Metrics are the names of those that have arrived.
func (c *Collector) Metrics() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := map[string]bool{}
	for _, request := range c.metrics {
		for _, resource := range request.ResourceMetrics {
			for _, scope := range resource.ScopeMetrics {
				for _, metric := range scope.Metrics {
					names[metric.Name] = true
				}
			}
		}
	}
	return names
}

// Values are attributes as Go's own values.
func Values(attributes []*common.KeyValue) map[string]any {
	values := map[string]any{}
	for _, a := range attributes {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			values[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			values[a.Key] = v.IntValue
		case *common.AnyValue_DoubleValue:
			values[a.Key] = v.DoubleValue
		case *common.AnyValue_BoolValue:
			values[a.Key] = v.BoolValue
		default:
			values[a.Key] = a.Value.String()
		}
	}
	return values
}
