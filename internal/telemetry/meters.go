package telemetry

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Meters are the metrics of the product. Their labels have few values, all of them ours: a label that a client could fill
// would fill the memory of whoever stores it.
type Meters struct {
	meter metric.Meter
	sets  *labelled

	httpDuration metric.Float64Histogram

	requests   metric.Int64Counter
	wait       metric.Float64Histogram
	rollbacks  metric.Int64Counter
	incomplete metric.Int64Counter
	purged     metric.Int64Counter
	overdue    metric.Float64Gauge

	outboxPending metric.Int64Gauge
	outboxOldest  metric.Float64Gauge
	outboxLag     metric.Float64Histogram

	effectAttempts metric.Int64Counter
	effects        metric.Int64Gauge
	unknownOldest  metric.Float64Gauge

	tasks            metric.Int64Gauge
	takeovers        metric.Int64Counter
	fencedWrites     metric.Int64Counter
	unfinishedOldest metric.Float64Gauge

	looked metric.Float64Gauge
}

// seconds are the bounds of a histogram of what a request waits for: 20 ms and 2 s are far apart.
var seconds = metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10)

// longer are those of what happens behind a request's back.
var longer = metric.WithExplicitBucketBoundaries(.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)

// maker keeps the first error of many instruments.
type maker struct {
	meter metric.Meter
	err   error
}

func made[I any](m *maker, instrument I, err error) I {
	if m.err == nil {
		m.err = err
	}
	return instrument
}

func (m *maker) counter(name, about string) metric.Int64Counter {
	i, err := m.meter.Int64Counter(name, metric.WithDescription(about))
	return made(m, i, err)
}

func (m *maker) gauge(name, about string) metric.Int64Gauge {
	i, err := m.meter.Int64Gauge(name, metric.WithDescription(about))
	return made(m, i, err)
}

func (m *maker) age(name, about string) metric.Float64Gauge {
	i, err := m.meter.Float64Gauge(name, metric.WithDescription(about), metric.WithUnit("s"))
	return made(m, i, err)
}

func (m *maker) duration(name, about string, bounds metric.HistogramOption) metric.Float64Histogram {
	i, err := m.meter.Float64Histogram(name, metric.WithDescription(about), metric.WithUnit("s"), bounds)
	return made(m, i, err)
}

func newMeters(ctx context.Context, meter metric.Meter) (Meters, error) {
	m := &maker{meter: meter}
	meters := Meters{
		meter: meter, sets: &labelled{},

		httpDuration: m.duration("http.server.request.duration", "Duration of HTTP server requests.", seconds),

		requests:   m.counter("orderonce.idempotency.requests", "Requests with an idempotency key, by what became of them."),
		wait:       m.duration("orderonce.idempotency.wait.duration", "How long duplicates waited for the first request with their key.", seconds),
		rollbacks:  m.counter("orderonce.idempotency.rollbacks", "Units of work that were rolled back, or whose commit got no answer, by the kind of error."),
		incomplete: m.counter("orderonce.idempotency.incomplete", "Requests that met a record without a result: it never happens."),
		purged:     m.counter("orderonce.idempotency.purged", "Idempotency records removed after their retention."),
		overdue:    m.age("orderonce.idempotency.purge.overdue", "How long the oldest record that is to be removed has outlived its retention."),

		outboxPending: m.gauge("orderonce.outbox.pending", "Events that wait for their dispatch, counted up to a bound."),
		outboxOldest:  m.age("orderonce.outbox.oldest.age", "Age of the oldest event that waits for its dispatch."),
		outboxLag:     m.duration("orderonce.outbox.lag.duration", "From an event's commit to its dispatch.", longer),

		effectAttempts: m.counter("orderonce.effects.attempts", "Calls to something outside, by destination and result."),
		effects:        m.gauge("orderonce.effects.count", "Effects that are not final, by destination and state, counted up to a bound."),
		unknownOldest:  m.age("orderonce.effects.unknown.oldest.age", "For how long the oldest unknown effect has been unknown."),

		tasks:            m.gauge("orderonce.tasks.count", "Tasks that are not final, by state, counted up to a bound."),
		takeovers:        m.counter("orderonce.tasks.lease.takeovers", "Tasks taken from a worker whose lease had ended."),
		fencedWrites:     m.counter("orderonce.tasks.fenced_writes", "Writes that were refused because their worker's lease had ended."),
		unfinishedOldest: m.age("orderonce.tasks.oldest.unfinished.age", "Age of the oldest task that is not finished."),

		looked: m.age("orderonce.gauges.looked", "When the ages and counts of the database were last read, in seconds of Unix time."),
	}
	meters.begin(ctx)
	return meters, m.err
}

// begin counts nothing once: an alert on what rises needs a series before it does.
func (m *Meters) begin(ctx context.Context) {
	for _, counter := range []metric.Int64Counter{m.incomplete, m.purged, m.takeovers, m.fencedWrites} {
		counter.Add(ctx, 0)
	}
	m.rollbacks.Add(ctx, 0, m.sets.add(labels{"error.type", CommitUnknown})...)
}

// Request counts a keyed request.
func (m *Meters) Request(ctx context.Context, operation, outcome string) {
	m.requests.Add(ctx, 1, m.sets.add(labels{"operation", operation, "outcome", outcome})...)
}

// Waited takes down how long a duplicate waited for the first request with its key.
func (m *Meters) Waited(ctx context.Context, d time.Duration) { m.wait.Record(ctx, d.Seconds()) }

// RolledBack counts a unit of work that ended with an error of this kind.
func (m *Meters) RolledBack(ctx context.Context, kind string) {
	m.rollbacks.Add(ctx, 1, m.sets.add(labels{"error.type", kind})...)
}

// Incomplete counts a record without a result.
func (m *Meters) Incomplete(ctx context.Context) { m.incomplete.Add(ctx, 1) }

// Purged counts records that were removed.
func (m *Meters) Purged(ctx context.Context, records int64) { m.purged.Add(ctx, records) }

// Overdue takes down the age of the oldest record that is to be removed.
func (m *Meters) Overdue(ctx context.Context, oldest time.Duration) {
	m.overdue.Record(ctx, oldest.Seconds())
}

// Outbox takes down how many events wait for their dispatch, and since when.
func (m *Meters) Outbox(ctx context.Context, pending int64, oldest time.Duration) {
	m.outboxPending.Record(ctx, pending)
	m.outboxOldest.Record(ctx, oldest.Seconds())
}

// Dispatched takes down how long after its commit an event was dispatched.
func (m *Meters) Dispatched(ctx context.Context, lag time.Duration) {
	m.outboxLag.Record(ctx, lag.Seconds())
}

// EffectAttempt counts a call to a destination.
func (m *Meters) EffectAttempt(ctx context.Context, destination, result string) {
	m.effectAttempts.Add(ctx, 1, m.sets.add(labels{"destination", destination, "result", result})...)
}

// Effects takes down how many effects of a destination are in a state. A state that has none left is to be told too.
func (m *Meters) Effects(ctx context.Context, destination, state string, count int64) {
	m.effects.Record(ctx, count, m.sets.record(labels{"destination", destination, "state", state})...)
}

// UnknownEffects takes down for how long the oldest unknown effect has been unknown.
func (m *Meters) UnknownEffects(ctx context.Context, oldest time.Duration) {
	m.unknownOldest.Record(ctx, oldest.Seconds())
}

// Tasks takes down how many tasks are in a state. A state that has none left is to be told too.
func (m *Meters) Tasks(ctx context.Context, state string, count int64) {
	m.tasks.Record(ctx, count, m.sets.record(labels{"state", state})...)
}

// LeaseTaken counts a task that was taken from a worker whose lease had ended.
func (m *Meters) LeaseTaken(ctx context.Context) { m.takeovers.Add(ctx, 1) }

// FencedWrite counts a task's write that was refused because its worker's lease had ended, and keeps the trace of it.
func (m *Meters) FencedWrite(ctx context.Context, token int64) {
	m.fencedWrites.Add(ctx, 1)
	Fenced(ctx, token)
}

// UnfinishedTasks takes down the age of the oldest task that is not finished.
func (m *Meters) UnfinishedTasks(ctx context.Context, oldest time.Duration) {
	m.unfinishedOldest.Record(ctx, oldest.Seconds())
}

// Looked takes down that what the database counts was just read: an old number is not a small one.
func (m *Meters) Looked(ctx context.Context) {
	m.looked.Record(ctx, float64(time.Now().UnixMilli())/1000)
}

// Answered takes down an HTTP request that was answered. errorType is empty but for a fault of the service.
func (m *Meters) Answered(ctx context.Context, method, route string, status int, errorType string, d time.Duration) {
	m.httpDuration.Record(ctx, d.Seconds(), m.sets.answer(answered{method, route, errorType, status})...)
}

// Observe registers a number that is read whenever somebody asks, from memory. stop ends that.
func (m *Meters) Observe(name, about string, read func() int64) (stop func() error, err error) {
	gauge, err := m.meter.Int64ObservableUpDownCounter(name, metric.WithDescription(about))
	if err != nil {
		return nil, err
	}
	registration, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(gauge, read())
		return nil
	}, gauge)
	if err != nil {
		return nil, err
	}
	return registration.Unregister, nil
}

// label is one label with a value of few.
func label(name, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(name, value)))
}

// labels are up to two names, each followed by its value.
type labels [4]string

func (l labels) set() attribute.Set {
	var all []attribute.KeyValue
	for pair := range slices.Chunk(l[:], 2) {
		if pair[0] != "" {
			all = append(all, attribute.String(pair[0], pair[1]))
		}
	}
	return attribute.NewSet(all...)
}

// answered are the labels of an HTTP request, by the semantic conventions.
type answered struct {
	method, route, errorType string
	status                   int
}

func (a answered) set() attribute.Set {
	all := []attribute.KeyValue{
		semconv.URLScheme("http"), semconv.HTTPRequestMethodKey.String(a.method), semconv.HTTPResponseStatusCode(a.status),
	}
	if a.route != "" {
		all = append(all, semconv.HTTPRoute(a.route))
	}
	if a.errorType != "" {
		all = append(all, semconv.ErrorTypeKey.String(a.errorType))
	}
	return attribute.NewSet(all...)
}

// sets remembers labels in the form that instruments take: making it anew would cost each request more than the
// counting itself.
type sets[Labels interface {
	comparable
	set() attribute.Set
}, Option any] struct {
	mu    sync.RWMutex
	known map[Labels][]Option
}

func (s *sets[Labels, Option]) of(l Labels, option func(attribute.Set) Option) []Option {
	s.mu.RLock()
	options, ok := s.known[l]
	s.mu.RUnlock()
	if ok {
		return options
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[Labels][]Option{}
	}
	options = []Option{option(l.set())}
	s.known[l] = options
	return options
}

// labelled are the labels in use.
type labelled struct {
	added    sets[labels, metric.AddOption]
	recorded sets[labels, metric.RecordOption]
	answered sets[answered, metric.RecordOption]
}

func (l *labelled) add(of labels) []metric.AddOption {
	return l.added.of(of, func(s attribute.Set) metric.AddOption { return metric.WithAttributeSet(s) })
}

func (l *labelled) record(of labels) []metric.RecordOption {
	return l.recorded.of(of, func(s attribute.Set) metric.RecordOption { return metric.WithAttributeSet(s) })
}

func (l *labelled) answer(of answered) []metric.RecordOption {
	return l.answered.of(of, func(s attribute.Set) metric.RecordOption { return metric.WithAttributeSet(s) })
}

// Pool is a connection pool's account of itself.
type Pool struct {
	Idle, Used, Most int64
	TimedOut         int64 // acquisitions that were given up
}

// Pool registers a connection pool by its name, until stop is called.
func (m *Meters) Pool(name string, read func() Pool) (stop func() error, err error) {
	k := &maker{meter: m.meter}
	updown := func(name, about string) metric.Int64ObservableUpDownCounter {
		i, err := k.meter.Int64ObservableUpDownCounter(name, metric.WithDescription(about), metric.WithUnit("{connection}"))
		return made(k, i, err)
	}
	count := updown("db.client.connection.count", "Connections that are in the state described by the state attribute.")
	most := updown("db.client.connection.max", "The most connections that the pool opens.")
	timeouts, err := m.meter.Int64ObservableCounter("db.client.connection.timeouts", metric.WithUnit("{timeout}"),
		metric.WithDescription("Waits for a connection that were given up."))
	if err = errors.Join(k.err, err); err != nil {
		return nil, err
	}
	pool := semconv.DBClientConnectionPoolName(name)
	idle := metric.WithAttributeSet(attribute.NewSet(pool, semconv.DBClientConnectionStateIdle))
	used := metric.WithAttributeSet(attribute.NewSet(pool, semconv.DBClientConnectionStateUsed))
	of := metric.WithAttributeSet(attribute.NewSet(pool))
	registration, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now := read()
		o.ObserveInt64(count, now.Idle, idle)
		o.ObserveInt64(count, now.Used, used)
		o.ObserveInt64(most, now.Most, of)
		o.ObserveInt64(timeouts, now.TimedOut, of)
		return nil
	}, count, most, timeouts)
	if err != nil {
		return nil, err
	}
	return registration.Unregister, nil
}
