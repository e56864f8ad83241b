package effects_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/effects"
	"orderonce/internal/effects/downstream"
	"orderonce/internal/orders"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
	"orderonce/internal/sandbox"
)

const patience = 60 * time.Second

// world is a shop's orders with all that follows from them, in this process, and the services that it calls.
type world struct {
	t            *testing.T
	db           *postgres.DB
	owner        *pgx.Conn
	services     *witness
	destinations []effects.Destination
	tenant       uuid.UUID
}

// abilities are what the services can do, and are taken for.
type abilities struct {
	effects.Capability
	timeout time.Duration
	hold    time.Duration
}

func (a abilities) settings() sandbox.Settings {
	return sandbox.Settings{
		Idempotent: a.Capability == effects.Idempotent, Queryable: a.Capability != effects.None, Retention: sandbox.Duration(time.Hour),
	}
}

func setup(t *testing.T, a abilities) *world {
	t.Helper()
	if a.timeout == 0 {
		a.timeout = 20 * time.Second
	}
	w := &world{t: t, tenant: newID()}
	url := postgrestest.URL(t)
	var err error
	w.db, err = postgres.Open(t.Context(), postgres.Config{
		URL: url, Role: postgres.Worker, MaxConns: 8, Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.db.Close)
	if w.owner, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.owner.Close(context.WithoutCancel(t.Context())) })
	w.services = play(t, a)
	c := downstream.Config{
		URL: w.services.url, Capability: a.Capability, Asked: a.Capability == effects.Idempotent, Retention: time.Hour, Timeout: a.timeout, Concurrency: 8,
	}
	w.destinations = []effects.Destination{downstream.Payment(c), downstream.Inventory(c), downstream.Notification(c)}
	return w
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// run lets everything follow from the orders, until stop or the end of the test.
func (w *world) run() (stop func()) {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	worker, err := effects.NewWorker(w.db, w.destinations, effects.Options{
		Owner: "test", Lease: 40 * time.Second, Finish: 10 * time.Second, Poll: 50 * time.Millisecond,
		BackoffBase: time.Millisecond, BackoffCap: 20 * time.Millisecond, Failures: 1 << 20, MaxAttempts: 50, Ended: orders.Follow, Log: log,
	})
	w.must(err)
	worker.Watch(w.db)
	planner := effects.NewPlanner(orders.Follow, w.destinations...)
	dispatcher := outbox.NewDispatcher(w.db, planner.FanOut, log)
	ctx, cancel := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	all.Go(func() { worker.Run(ctx) })
	all.Go(func() { dispatcher.Run(ctx) })
	stop = func() {
		cancel()
		all.Wait()
	}
	w.t.Cleanup(stop)
	return stop
}

func (w *world) inTx(do func(ctx context.Context, tx *postgres.Tx) error) {
	w.t.Helper()
	w.must(w.db.Run(w.t.Context(), postgres.Unit{LockTimeout: patience}, do))
}

// place places an order.
func (w *world) place(items ...orders.Item) (order uuid.UUID) {
	w.t.Helper()
	if items == nil {
		items = []orders.Item{{SKU: "MUG", Quantity: 2, UnitPriceMinor: 1250}}
	}
	w.inTx(func(ctx context.Context, tx *postgres.Tx) error {
		o, err := orders.Place(ctx, tx, orders.Placement{
			TenantID: w.tenant, PrincipalID: w.tenant, CustomerID: "customer-1", Currency: "EUR", Items: items, ShippingAddressID: "address-1",
		})
		order = o.ID
		return err
	})
	return order
}

// effectsOf are the effects of an order by destination and operation.
func (w *world) effectsOf(order uuid.UUID) map[string]effects.Effect {
	w.t.Helper()
	all := map[string]effects.Effect{}
	w.must(w.db.Read(w.t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		page, _, err := effects.List(ctx, db, effects.Filter{
			Tenant: uuid.NullUUID{UUID: w.tenant, Valid: true}, Order: uuid.NullUUID{UUID: order, Valid: true},
		}, uuid.Max, 100)
		for _, e := range page {
			all[e.Destination+" "+e.Operation] = e
		}
		return err
	}))
	return all
}

func (w *world) status(order uuid.UUID) orders.Status {
	w.t.Helper()
	var o orders.Order
	w.must(w.db.Read(w.t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
		o, err = orders.Find(ctx, db, w.tenant, order)
		return err
	}))
	return o.Status
}

// settle waits until nothing more happens by itself: every event is dispatched, and every effect has ended, needs a
// person, or waits for one that does.
func (w *world) settle() {
	w.t.Helper()
	for open := w.underWay(); open > 0; open = w.underWay() { // as long as it takes, or until -timeout
		orderoncetest.Pause(w.t.Context(), 20*time.Millisecond)
	}
}

// underWay is how many events and effects something will happen to by itself.
func (w *world) underWay() (open int) {
	w.t.Helper()
	w.must(w.owner.QueryRow(w.t.Context(), `SELECT (SELECT count(*) FROM outbox_events WHERE dispatched_at IS NULL)
		+ (SELECT count(*) FROM effects WHERE due_at IS NOT NULL)`).Scan(&open))
	return open
}

// witness is the sandbox, and what it has seen.
type witness struct {
	t   testing.TB
	url string
}

func play(t *testing.T, a abilities) *witness {
	t.Helper()
	c := sandbox.Config{
		Dir: t.TempDir(), NoSync: true, Hold: a.hold, Log: slog.New(slog.DiscardHandler), Services: map[string]sandbox.Settings{},
	}
	for _, name := range []string{"payment", "inventory", "notification"} {
		c.Services[name] = a.settings()
	}
	services, err := sandbox.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(services)
	t.Cleanup(func() {
		services.Release()
		server.Close()
		if err := services.Close(); err != nil {
			t.Error(err)
		}
	})
	return &witness{t, server.URL}
}

// ask sends something to the sandbox, each time on a connection of its own.
func (w *witness) ask(method, path, body string, header http.Header) orderoncetest.Answer {
	w.t.Helper()
	a, err := w.try(w.t.Context(), method, path, body, header)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *witness) try(ctx context.Context, method, path, body string, header http.Header) (orderoncetest.Answer, error) {
	path, query, _ := strings.Cut(path, "?")
	client := orderoncetest.NewClient(w.url, "")
	if query != "" {
		return client.Query(ctx, path, query)
	}
	return client.Do(ctx, method, path, body, header)
}

func (w *witness) fault(f sandbox.Fault) {
	w.t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		w.t.Fatal(err)
	}
	if a := w.ask(http.MethodPost, "/faults", strings.Replace(string(text), `,"happened":0`, "", 1), nil); a.Status != http.StatusCreated {
		w.t.Fatalf("%d %s", a.Status, a.Body)
	}
}

// clear takes all faults back.
func (w *witness) clear() { w.ask(http.MethodDelete, "/faults", "", nil) }

// counted is what the sandbox says about an operation of an order, whatever keys it came under.
type counted struct{ executions, requests, keys int }

// counts are all of them, by order, service and operation.
func (w *witness) counts() map[string]counted {
	w.t.Helper()
	all := map[string]counted{}
	for next := "limit=1000"; next != ""; {
		var page struct {
			Executions []sandbox.Operation
			Next       string
		}
		a := w.ask(http.MethodGet, "/executions?"+next, "", nil)
		if err := json.Unmarshal([]byte(a.Body), &page); err != nil || a.Status != http.StatusOK {
			w.t.Fatalf("%d %v", a.Status, err)
		}
		for _, o := range page.Executions {
			name := fmt.Sprint(o.OrderID, " ", o.Service, " ", o.Operation)
			c := all[name]
			all[name] = counted{c.executions + o.Executions, c.requests + o.Requests, c.keys + 1}
		}
		next = ""
		if page.Next != "" {
			next = "limit=1000&page=" + page.Next
		}
	}
	return all
}

func (w *witness) count(order uuid.UUID, what string) counted {
	return w.counts()[order.String()+" "+what]
}
