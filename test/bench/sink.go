package main

import (
	"context"
	"net"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// sink is a collector that takes everything and keeps nothing: what telemetry costs shall be the server's cost.
type sink struct {
	endpoint string
	server   *grpc.Server
}

func startSink(ctx context.Context) (*sink, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{endpoint: "http://" + listener.Addr().String(), server: grpc.NewServer()}
	traces.RegisterTraceServiceServer(s.server, takesTraces{})
	metrics.RegisterMetricsServiceServer(s.server, takesMetrics{})
	go func() { _ = s.server.Serve(listener) }() // until it is stopped
	return s, nil
}

type takesTraces struct {
	traces.UnimplementedTraceServiceServer
}

func (takesTraces) Export(context.Context, *traces.ExportTraceServiceRequest) (*traces.ExportTraceServiceResponse, error) {
	return &traces.ExportTraceServiceResponse{}, nil
}

type takesMetrics struct {
	metrics.UnimplementedMetricsServiceServer
}

func (takesMetrics) Export(context.Context, *metrics.ExportMetricsServiceRequest) (*metrics.ExportMetricsServiceResponse, error) {
	return &metrics.ExportMetricsServiceResponse{}, nil
}
