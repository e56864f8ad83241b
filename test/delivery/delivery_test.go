// Package delivery follows events from the commit of a change to those who get them: webhooks, NATS JetStream and Kafka,
// each for real. The acknowledgement of every first sending is lost, so that each event is sent at least twice.
package delivery

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"orderonce/internal/effects"
	"orderonce/internal/effects/cloudevents"
	"orderonce/internal/effects/kafka"
	"orderonce/internal/effects/natsjs"
	"orderonce/internal/effects/webhooks"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

const (
	patience       = 30 * time.Second
	ordersOfTenant = 5
	versions       = 4
)

// world is a database, and what its events came to.
type world struct {
	t      *testing.T
	db     *postgres.DB
	watch  *pgx.Conn
	log    *slog.Logger
	tenant uuid.UUID
	got    sink
}

// sink keeps what arrives, in its order.
type sink struct {
	mu  sync.Mutex
	all []arrival
}

type arrival struct {
	event, order uuid.UUID
	version      int64
}

func (s *sink) add(event, order, sequence string) error {
	version, err := strconv.ParseInt(sequence, 10, 64)
	if err != nil {
		return err
	}
	a := arrival{version: version}
	if a.event, err = uuid.Parse(event); err != nil {
		return err
	}
	if a.order, err = uuid.Parse(order); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, a)
	return nil
}

func (s *sink) arrived() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

func setup(t *testing.T) *world {
	t.Helper()
	url := postgrestest.URL(t)
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: url, Role: postgres.Worker, MaxConns: 12, Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	w := &world{t: t, db: db, log: slog.New(slog.NewTextHandler(t.Output(), nil)), tenant: newID(t)}
	if w.watch, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.watch.Close(context.WithoutCancel(t.Context())) })
	return w
}

func newID(t *testing.T) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (w *world) unit(work func(context.Context, *postgres.Tx) error) {
	w.t.Helper()
	if err := w.db.Run(w.t.Context(), postgres.Unit{LockTimeout: patience}, work); err != nil {
		w.t.Fatal(err)
	}
}

// forgetful loses the acknowledgement of each effect's first sending.
func forgetful(d effects.Destination) effects.Destination {
	var sent sync.Map
	send := d.Send
	d.Send = func(ctx context.Context, e effects.Effect) effects.Result {
		result := send(ctx, e)
		if _, again := sent.LoadOrStore(e.ID, true); !again && result.Verdict == effects.Done {
			return effects.Result{Verdict: effects.Ambiguous, Detail: "its acknowledgement was lost"}
		}
		return result
	}
	return d
}

// work lets two dispatchers and three workers work until the test ends.
func (w *world) work(d effects.Destination) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	w.t.Cleanup(func() { cancel(); all.Wait() })
	for range 2 {
		dispatcher := outbox.NewDispatcher(w.db, effects.NewPlanner(nil, d).FanOut, w.log)
		all.Go(func() { dispatcher.Run(ctx) })
	}
	for i := range 3 {
		worker, err := effects.NewWorker(w.db, []effects.Destination{d}, effects.Options{
			Owner: fmt.Sprint("worker-", i), Poll: 50 * time.Millisecond, BackoffBase: time.Millisecond, Failures: 1000, Log: w.log,
		})
		if err != nil {
			w.t.Fatal(err)
		}
		worker.Watch(w.db)
		all.Go(func() { worker.Run(ctx) })
	}
}

// change commits the versions of some orders, side by side.
func (w *world) change() (events int) {
	w.t.Helper()
	types := webhooks.EventTypes()
	var all sync.WaitGroup
	for range ordersOfTenant {
		order := newID(w.t)
		all.Go(func() {
			for version := range versions {
				w.unit(func(ctx context.Context, tx *postgres.Tx) error {
					return outbox.Add(ctx, tx, outbox.Event{
						Tenant: w.tenant, AggregateType: "order", AggregateID: order, Version: int64(version + 1),
						Type: types[version%len(types)], Payload: map[string]int{"version": version + 1}, OccurredAt: time.Now(),
					})
				})
			}
		})
	}
	all.Wait()
	return ordersOfTenant * versions
}

// settled waits until every event was dispatched and each of its effects has succeeded.
func (w *world) settled(events int) {
	w.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for until := time.Now().Add(patience); ; <-ticker.C {
		var succeeded, others int
		err := w.watch.QueryRow(w.t.Context(), `SELECT count(*) FILTER (WHERE state = 'succeeded'),
			count(*) FILTER (WHERE state <> 'succeeded') FROM effects`).Scan(&succeeded, &others)
		if err != nil {
			w.t.Fatal(err)
		}
		if succeeded == events && others == 0 {
			return
		}
		if time.Now().After(until) {
			w.t.Fatalf("%d effects of %d events succeeded, and %d did not", succeeded, events, others)
		}
	}
}

// judge expects each event, and those of one order, by their first arrivals, in their order. again says whether any
// arrives a second time.
func (w *world) judge(events int, again bool) {
	w.t.Helper()
	seen, last := map[uuid.UUID]bool{}, map[uuid.UUID]int64{}
	arrivals := w.got.arrived()
	for _, a := range arrivals {
		if seen[a.event] {
			continue // what a consumer's inbox is for
		}
		seen[a.event] = true
		if a.version != last[a.order]+1 {
			w.t.Errorf("version %d of %s came after %d", a.version, a.order, last[a.order])
		}
		last[a.order] = a.version
	}
	if len(seen) != events {
		w.t.Errorf("%d of %d events arrived", len(seen), events)
	}
	if len(arrivals) > events != again {
		w.t.Errorf("%d arrivals of %d events", len(arrivals), events)
	}
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	w := setup(t)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		e, err := cloudevents.Unwrap(body)
		if err != nil || r.Header.Get("Webhook-Id") != e.ID.String() {
			t.Errorf("%s, %v", r.Header, err)
			return
		}
		if err := w.got.add(e.ID.String(), e.Subject.String(), e.Sequence); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(receiver.Close)
	guard := webhooks.Guard{AllowPrivate: true}
	w.unit(func(ctx context.Context, tx *postgres.Tx) error {
		_, _, err := webhooks.Create(ctx, tx, guard, w.tenant, webhooks.Draft{Name: "erp", URL: receiver.URL})
		return err
	})
	d := webhooks.New(w.db, webhooks.Config{Guard: guard, Source: cloudevents.DefaultSource, Timeout: patience / 2, Concurrency: 4}, w.log)
	t.Cleanup(d.Close)
	w.work(forgetful(d.Destination()))
	events := w.change()
	w.settled(events)
	w.judge(events, true)
}

func TestNATS(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("NATS does not start")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orderonce.>"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := natsjs.New(natsjs.Config{
		URL: s.ClientURL(), Stream: "ORDERS", Prefix: "orderonce", Source: cloudevents.DefaultSource, Timeout: patience / 2, Concurrency: 4,
	}, w.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	w.work(forgetful(p.Destination()))
	events := w.change()
	w.settled(events)
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for sequence := info.State.FirstSeq; sequence <= info.State.LastSeq; sequence++ {
		message, err := stream.GetMsg(t.Context(), sequence)
		if err != nil {
			t.Fatal(err)
		}
		e, err := cloudevents.Unwrap(message.Data)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.got.add(e.ID.String(), e.Subject.String(), e.Sequence); err != nil {
			t.Fatal(err)
		}
	}
	w.judge(events, false) // the server knew what was sent again
}

func TestKafka(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cluster, err := kfake.NewCluster(kfake.SeedTopics(4, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	p, err := kafka.New(kafka.Config{
		Brokers: cluster.ListenAddrs(), Topic: "orders", Source: cloudevents.DefaultSource, Timeout: patience / 2, Concurrency: 4,
	}, w.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	w.work(forgetful(p.Destination()))
	events := w.change()
	w.settled(events)
	consumer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(consumer.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n := 0; n < 2*events; { // each was sent twice
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d records: %v", n, err)
		}
		for _, record := range fetches.Records() {
			n++
			header := map[string]string{}
			for _, h := range record.Headers {
				header[h.Key] = string(h.Value)
			}
			if err := w.got.add(header["ce_id"], header["ce_subject"], header["ce_sequence"]); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.judge(events, true)
}
