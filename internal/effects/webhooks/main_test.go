package webhooks_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/effects"
	"orderonce/internal/effects/cloudevents"
	"orderonce/internal/effects/webhooks"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

const patience = 30 * time.Second

// inside lets deliveries reach receivers on this machine.
var inside = webhooks.Guard{AllowPrivate: true}

// fixture is a tenant without webhooks.
type fixture struct {
	t      *testing.T
	db     *postgres.DB
	watch  *pgx.Conn
	tenant uuid.UUID
}

func setup(t *testing.T) *fixture {
	t.Helper()
	url := postgrestest.URL(t)
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: url, Role: postgres.Worker, MaxConns: 4, Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	f := &fixture{t: t, db: db, tenant: newID(t)}
	if f.watch, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.watch.Close(context.WithoutCancel(t.Context())) })
	return f
}

func newID(t *testing.T) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// deliveries are those of the config, which may say less than an operator has to.
func (f *fixture) deliveries(config webhooks.Config) effects.Destination {
	f.t.Helper()
	config.Source, config.Concurrency = cloudevents.DefaultSource, 4
	if config.Timeout == 0 {
		config.Timeout = patience
	}
	d := webhooks.New(f.db, config, slog.New(slog.NewTextHandler(f.t.Output(), nil)))
	f.t.Cleanup(d.Close)
	return d.Destination()
}

func (f *fixture) unit(work func(context.Context, *postgres.Tx) error) error {
	f.t.Helper()
	return f.db.InTx(f.t.Context(), postgres.Unit{LockTimeout: patience}, work)
}

// change is a unit that has to succeed.
func (f *fixture) change(work func(context.Context, *postgres.Tx) error) {
	f.t.Helper()
	if err := f.unit(work); err != nil {
		f.t.Fatal(err)
	}
}

// create makes a webhook, or finds it.
func (f *fixture) create(draft webhooks.Draft) (s webhooks.Subscription, secret string, err error) {
	f.t.Helper()
	err = f.unit(func(ctx context.Context, tx *postgres.Tx) (err error) {
		s, secret, err = webhooks.Create(ctx, tx, inside, f.tenant, draft)
		return err
	})
	return s, secret, err
}

func (f *fixture) subscribe(name, url string, types ...string) (s webhooks.Subscription, secret string) {
	f.t.Helper()
	s, secret, err := f.create(webhooks.Draft{Name: name, URL: url, EventTypes: types})
	if err != nil {
		f.t.Fatal(err)
	}
	return s, secret
}

func (f *fixture) read(id uuid.UUID) (s webhooks.Subscription) {
	f.t.Helper()
	err := f.db.Read(f.t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
		s, err = webhooks.Read(ctx, db, f.tenant, id)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.watch.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

// plan is what events ask of the destination.
func (f *fixture) plan(d effects.Destination, events ...outbox.Recorded) (calls []effects.Call) {
	f.t.Helper()
	f.change(func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		calls, err = d.Plan(ctx, db, events)
		return err
	})
	return calls
}

func (f *fixture) event(kind string) outbox.Recorded {
	f.t.Helper()
	return outbox.Recorded{
		Tenant: f.tenant, ID: newID(f.t), AggregateType: "order", AggregateID: newID(f.t), Version: 1, Type: kind,
		Payload: []byte(`{"total_minor": 100}`), OccurredAt: time.Now(),
	}
}

// effect is the call as a worker has it.
func effect(c effects.Call) effects.Effect {
	return effects.Effect{
		Tenant: c.Tenant, Identity: effects.Identity{Order: c.Order, Destination: webhooks.Name, Lane: c.Lane, Operation: c.Operation},
		Event: c.Event, Version: c.Version, Request: c.Request, State: effects.InFlight, Attempts: 1,
	}
}

// one is an effect of a new order's event for the only subscription.
func (f *fixture) one(d effects.Destination) effects.Effect {
	f.t.Helper()
	calls := f.plan(d, f.event("orderonce.order.created.v1"))
	if len(calls) != 1 {
		f.t.Fatalf("%d calls", len(calls))
	}
	return effect(calls[0])
}

// delivery is a request as a receiver got it.
type delivery struct {
	header http.Header
	body   []byte
}

// receiver keeps what it gets and answers with the handler that it was made with; 204 without one.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got []delivery
}

func receive(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(r.keep(answer))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) keep(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.got = append(r.got, delivery{request.Header.Clone(), body})
		r.mu.Unlock()
		if answer == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		answer(w, request)
	}
}

func (r *receiver) deliveries() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]delivery{}, r.got...)
}
