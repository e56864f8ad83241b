package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"orderonce/internal/fault"
	"orderonce/internal/telemetry"
)

// The one server span of a request and its metrics, by OpenTelemetry's semantic conventions for HTTP. What a client has
// written stays out of them: the path is the route's, and there is no query, no address and no user agent.

// ofServer is made once: each request would pay for it.
var ofServer = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}

// watched remembers the status that was sent.
type watched struct {
	http.ResponseWriter
	call *call
}

func (w watched) WriteHeader(status int) {
	w.call.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets the body's read deadline be set.
func (w watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// observe begins to watch a request; told is to be called when it has been answered. A trace that the caller is in goes
// on here, be it recorded or not: log lines and problems then name it.
func (s *Server) observe(ctx context.Context, w http.ResponseWriter, r *http.Request, c *call) (
	watching http.ResponseWriter, within context.Context, told func(),
) {
	if values := r.Header["Traceparent"]; len(values) == 1 {
		if caller := telemetry.ParseTraceparent(values[0]); caller.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, caller)
		}
	}
	if !s.modules.Telemetry.On() {
		c.span = trace.SpanFromContext(ctx)
		return w, ctx, func() {}
	}
	began := time.Now()
	method := methodOf(r)
	name, route := method, ""
	if c.operation != nil {
		name, route = c.operation.pattern, c.operation.route.Path
	}
	if s.modules.Telemetry.Traces() {
		ctx, c.span = s.modules.Telemetry.Tracer().Start(ctx, name, ofServer...) //nolint:spancheck // tell ends it
	} else {
		c.span = trace.SpanFromContext(ctx)
	}
	return watched{w, c}, ctx, func() { s.tell(ctx, c, method, route, time.Since(began)) }
}

// methodOf is the method, or the conventions' word for one that is none of HTTP's: those are a client's own words.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return r.Method
	}
	return "_OTHER"
}

// tell ends the span of a request and counts it.
func (s *Server) tell(ctx context.Context, c *call, method, route string, took time.Duration) {
	defer c.span.End()
	failed := ""
	if c.status >= http.StatusInternalServerError {
		failed = c.problem
		telemetry.Fail(c.span, failed)
	}
	t := s.modules.Telemetry
	if c.seen(c.status) {
		s.describe(c, method, route)
		ctx = trace.ContextWithSpanContext(ctx, c.span.SpanContext().WithTraceFlags(trace.FlagsSampled)) // an exemplar
	}
	if c.keyed() && c.status != 0 {
		t.Request(ctx, c.operation.id, c.outcome)
	}
	t.Answered(ctx, method, route, c.status, failed, took)
}

func (c *call) keyed() bool { return c.operation != nil && c.operation.policy != nil }

// refused takes down the problem that a request is answered with.
func (c *call) refused(kind fault.Kind) {
	c.problem = kind.String()
	if !c.keyed() {
		return
	}
	c.outcome = refusedAs(kind, problemTypes[kind].status)
	if c.outcome == telemetry.KeyReused || c.outcome == telemetry.InProgress {
		telemetry.Keep(c.span, c.outcome)
		c.kept = true
	}
}

// seen says whether the trace of a request that is answered with this status will be there to look at.
func (c *call) seen(status int) bool {
	return c.span != nil && (c.span.SpanContext().IsSampled() ||
		c.span.IsRecording() && (c.kept || status >= http.StatusInternalServerError))
}

// traceID names the request's trace where that can be looked at, and is empty otherwise.
func (c *call) traceID(status int) string {
	if c.seen(status) {
		return c.span.SpanContext().TraceID().String()
	}
	return ""
}

// describe says in the span what only a trace that is kept needs to say.
func (s *Server) describe(c *call, method, route string) {
	c.span.SetAttributes(
		semconv.HTTPRequestMethodKey.String(method), semconv.URLScheme("http"), semconv.HTTPResponseStatusCode(c.status),
		telemetry.RequestID.String(c.requestID),
	)
	if route != "" {
		c.span.SetAttributes(semconv.HTTPRoute(route), telemetry.Operation.String(c.operation.id))
	}
	for key, value := range map[attribute.Key]string{telemetry.Outcome: c.outcome, telemetry.ProblemCode: c.problem} {
		if value != "" {
			c.span.SetAttributes(key.String(value))
		}
	}
	if c.resource.Type == orderResource {
		c.span.SetAttributes(telemetry.OrderID.String(c.resource.ID.String()))
	}
	c.span.SetAttributes(s.parties(c)...)
}

// parties are who asks and under which key, as far as that is known.
func (s *Server) parties(c *call) (all []attribute.KeyValue) {
	p := c.principal
	if p.Tenant == uuid.Nil {
		return nil
	}
	all = append(all, telemetry.TenantID.String(p.Tenant.String()), telemetry.PrincipalID.String(p.ID.String()))
	if c.key != "" {
		all = append(all, telemetry.KeyHash.String(s.modules.Telemetry.HashKey(p.Tenant, string(c.key))))
	}
	return all
}

// refusedAs is the outcome of a keyed request that was answered with a problem which is not stored.
func refusedAs(kind fault.Kind, status int) string {
	switch {
	case kind == fault.KeyReused:
		return telemetry.KeyReused
	case kind == fault.InProgress, kind == fault.CheckoutInProgress:
		return telemetry.InProgress
	case status >= http.StatusInternalServerError:
		return telemetry.Failed
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		return telemetry.Denied
	}
	return telemetry.Invalid
}
