// Package telemetry owns what the process tells about itself: the set-up of OpenTelemetry, the names of spans, attributes
// and metrics, and which traces are kept. It knows no module; those that have something to tell call it, in the few places
// where it matters. A value of a client in a metric's label would let the client fill the memory of whoever stores it, and
// one in a span would be read by people who may not see it: the names in this package are all that there is to fill in.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/runtime"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// Config says where telemetry goes. Nothing is made for what goes nowhere.
type Config struct {
	Version string
	// Endpoint takes traces and metrics by OTLP over gRPC, such as http://127.0.0.1:4317; empty for nowhere. What else the
	// exporters need to know (headers, certificates) they read from the standard OTEL_EXPORTER_OTLP_ variables.
	Endpoint string
	Metrics  bool                        // for Handler
	Share    float64                     // of the traces that are sampled, 0 to 1. Those with a rare outcome are kept whatever it is
	Spans    func(sdktrace.ReadOnlySpan) // takes every kept span too, at once; nil for none
	Secret   string                      // of the hashes of keys; a random one where it is empty
}

func (c Config) traces() bool  { return c.Endpoint != "" || c.Spans != nil }
func (c Config) metrics() bool { return c.Endpoint != "" || c.Metrics }

// Telemetry is one process's traces and metrics. Safe for concurrent use.
type Telemetry struct {
	Meters
	tracer   trace.Tracer
	hasher   *hasher
	registry *prometheus.Registry // nil where nobody scrapes
	on       bool
	traces   bool
	closers  []func(context.Context) error // in their order
}

// Off is the telemetry of a process that tells nothing.
func Off() *Telemetry { return off }

var off = mustOff()

func mustOff() *Telemetry {
	meters, err := newMeters(context.Background(), metricnoop.NewMeterProvider().Meter(scope))
	if err != nil {
		panic(err) //nolint:forbidigo // names that are no names, in this package
	}
	return &Telemetry{Meters: meters, tracer: tracenoop.NewTracerProvider().Tracer(scope), hasher: newHasher("")}
}

// New sets telemetry up. It connects to nothing before there is something to send.
func New(ctx context.Context, c Config, log *slog.Logger) (_ *Telemetry, err error) {
	if !c.traces() && !c.metrics() {
		return Off(), nil
	}
	t := &Telemetry{tracer: off.tracer, Meters: off.Meters, hasher: newHasher(c.Secret), on: true}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close(ctx))
		}
	}()
	about, err := resource.New(
		ctx, resource.WithSchemaURL(semconv.SchemaURL), resource.WithTelemetrySDK(), resource.WithHost(), resource.WithProcessPID(),
		resource.WithAttributes(semconv.ServiceName(scope), semconv.ServiceVersion(c.Version)), resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("describe the process: %w", err)
	}
	var spans *queue
	if c.traces() {
		if spans, err = t.traceTo(ctx, c, about, log); err != nil {
			return nil, err
		}
	}
	if c.metrics() {
		err = t.measureTo(ctx, c, about, spans)
	}
	return t, err
}

func (t *Telemetry) traceTo(ctx context.Context, c Config, about *resource.Resource, log *slog.Logger) (spans *queue, err error) {
	var next []func(sdktrace.ReadOnlySpan)
	if c.Endpoint != "" {
		exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(c.Endpoint), otlptracegrpc.WithTimeout(exportBound))
		if err != nil {
			return nil, fmt.Errorf("export traces: %w", err)
		}
		spans = newQueue(exporter, log) //nolint:contextcheck // exports go on after whoever began this
		next = append(next, spans.add)
		t.closers = append(t.closers, spans.close)
	}
	if c.Spans != nil {
		next = append(next, c.Spans)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(about), sdktrace.WithSampler(newSampler(c.Share)), sdktrace.WithSpanProcessor(newKeeper(next...)),
	)
	t.tracer, t.traces = provider.Tracer(scope), true
	return spans, nil
}

func (t *Telemetry) measureTo(ctx context.Context, c Config, about *resource.Resource, spans *queue) error {
	options := []sdkmetric.Option{sdkmetric.WithResource(about)}
	if c.Metrics {
		t.registry = prometheus.NewRegistry()
		reader, err := otelprometheus.New(otelprometheus.WithRegisterer(t.registry), otelprometheus.WithoutScopeInfo())
		if err != nil {
			return fmt.Errorf("export metrics to Prometheus: %w", err)
		}
		options = append(options, sdkmetric.WithReader(reader))
	}
	if c.Endpoint != "" {
		exporter, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(c.Endpoint), otlpmetricgrpc.WithTimeout(exportBound))
		if err != nil {
			return fmt.Errorf("export metrics: %w", err)
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
	}
	provider := sdkmetric.NewMeterProvider(options...)
	t.closers = append(t.closers, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, stopBound)
		defer cancel()
		return provider.Shutdown(ctx)
	})
	meter := provider.Meter(scope)
	meters, err := newMeters(ctx, meter)
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	t.Meters = meters
	if spans != nil {
		err = t.count(spans)
	}
	return errors.Join(err, runtime.Start(runtime.WithMeterProvider(provider)))
}

// count tells what became of the spans: a gap in the traces must be known for one.
func (t *Telemetry) count(spans *queue) error {
	counter, err := t.meter.Int64ObservableCounter("orderonce.telemetry.spans",
		metric.WithDescription("Spans by what became of them: exported, failed (the collector did not take them) or dropped (too many waited)."))
	if err != nil {
		return err
	}
	_, err = t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(counter, spans.exported.Load(), label("result", "exported"))
		o.ObserveInt64(counter, spans.failed.Load(), label("result", "failed"))
		o.ObserveInt64(counter, spans.dropped.Load(), label("result", "dropped"))
		return nil
	}, counter)
	return err
}

// Close sends what is left, and gives up after a short time.
func (t *Telemetry) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var all []error
	for _, closer := range t.closers {
		all = append(all, closer(ctx))
	}
	t.closers = nil
	return errors.Join(all...)
}

// On says whether anything is told to anyone.
func (t *Telemetry) On() bool { return t.on }

// Traces says whether spans are recorded.
func (t *Telemetry) Traces() bool { return t.traces }

// Tracer starts the outermost span of what this process does for a request, an event or a task. Spans below it are
// Start's.
func (t *Telemetry) Tracer() trace.Tracer { return t.tracer }

// HashKey is an idempotency key as telemetry may say it.
func (t *Telemetry) HashKey(tenant [16]byte, key string) string { return t.hasher.sum(tenant, key) }

// Handler answers Prometheus, with exemplars where it can take them; nil where Config.Metrics was not set.
func (t *Telemetry) Handler() http.Handler {
	if t.registry == nil {
		return nil
	}
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: 4})
}
