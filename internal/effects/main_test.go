package effects_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"orderonce/internal/effects"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

const patience = 30 * time.Second

// fixture is a database with effects, and workers of it.
type fixture struct {
	t      testing.TB
	url    string
	db     *postgres.DB
	watch  *pgxpool.Pool // the owner's sessions, for what the tests look at and move
	tenant uuid.UUID

	mu    sync.Mutex
	ended []effects.Effect // what the hook was told of, in committed and in undone units
}

func setup(tb testing.TB) *fixture {
	tb.Helper()
	f := &fixture{t: tb, url: postgrestest.URL(tb), tenant: newID(tb)}
	f.db = f.open()
	watch, err := pgxpool.New(tb.Context(), f.url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(watch.Close)
	f.watch = watch
	return f
}

// open is the pool of one more process.
func (f *fixture) open() *postgres.DB {
	f.t.Helper()
	db, err := postgres.Open(f.t.Context(), postgres.Config{
		URL: f.url, Role: postgres.Worker, MaxConns: 8, Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(db.Close)
	return db
}

// options are quick, so that a test waits for no pause.
func (f *fixture) options() effects.Options {
	return effects.Options{
		Owner: "tester", Lease: 10 * time.Second, Finish: 4 * time.Second, Stop: 3 * time.Second, Poll: 20 * time.Millisecond,
		BackoffBase: time.Millisecond, BackoffCap: 2 * time.Millisecond, Failures: 1000, Log: slog.New(slog.NewTextHandler(f.t.Output(), nil)),
		Ended: func(_ context.Context, _ *postgres.Tx, e effects.Effect) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.ended = append(f.ended, e)
			return nil
		},
	}
}

func (f *fixture) told() []effects.Effect {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

func (f *fixture) worker(o effects.Options, destinations ...effects.Destination) *effects.Worker {
	f.t.Helper()
	return f.workerOn(f.db, o, destinations...)
}

func (f *fixture) workerOn(db *postgres.DB, o effects.Options, destinations ...effects.Destination) *effects.Worker {
	f.t.Helper()
	w, err := effects.NewWorker(db, destinations, o)
	if err != nil {
		f.t.Fatal(err)
	}
	return w
}

// run lets workers work until stop is called, and at the latest until the test ends.
func (f *fixture) run(workers ...*effects.Worker) (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(func() { w.Run(ctx) })
	}
	stop = func() {
		cancel()
		all.Wait()
	}
	f.t.Cleanup(stop)
	return stop
}

// plan is an effect to be made, with the columns that a test changes.
type plan struct {
	tenant, order                uuid.UUID
	destination, lane, operation string
	version                      int64
	request                      string
	blocked                      bool
	reverts                      *string
}

// add makes an effect as the fan-out does.
func (f *fixture) add(p plan) uuid.UUID {
	f.t.Helper()
	if p.tenant == uuid.Nil {
		p.tenant = f.tenant
	}
	if p.order == uuid.Nil {
		p.order = newID(f.t)
	}
	if p.destination == "" {
		p.destination = "payment"
	}
	if p.operation == "" {
		p.operation = "authorize"
	}
	if p.request == "" {
		p.request = "{}"
	}
	id := newID(f.t)
	identity := effects.Identity{Order: p.order, Destination: p.destination, Lane: p.lane, Operation: p.operation}
	f.exec(`INSERT INTO effects (tenant_id, id, destination, lane, operation, reverts, event_id, order_id, version, idempotency_key, request,
			request_hash, required, state, due_at, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $2, $7, $8, $9, $10, '\x00', true, 'pending', CASE WHEN NOT $11::boolean THEN now() END, now())`,
		p.tenant, id, p.destination, p.lane, p.operation, p.reverts, p.order, p.version, effects.KeyOf(identity, p.tenant), []byte(p.request), p.blocked)
	return id
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.watch.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) count(sql string) (n int64) {
	f.t.Helper()
	if err := f.watch.QueryRow(f.t.Context(), sql).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *fixture) find(id uuid.UUID) (e effects.Effect) {
	f.t.Helper()
	err := f.db.Read(f.t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
		e, err = effects.Find(ctx, db, f.tenant, id)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return e
}

func (f *fixture) entries(id uuid.UUID) []effects.Entry {
	f.t.Helper()
	entries, err := f.find(id).Entries()
	if err != nil {
		f.t.Fatal(err)
	}
	return entries
}

// await polls until holds says so; it is what a test does that waits for a worker.
func (f *fixture) await(what string, holds func() bool) {
	f.t.Helper()
	postgrestest.Poll(f.t, what, holds)
}

func (f *fixture) awaitState(id uuid.UUID, state effects.State) effects.Effect {
	f.t.Helper()
	f.await(fmt.Sprintf("%s to be %s", id, state), func() bool { return f.find(id).State == state })
	return f.find(id)
}

// hurry ends every pause, and expire every lease.
func (f *fixture) hurry() {
	f.exec("UPDATE effects SET due_at = now() WHERE due_at IS NOT NULL AND owner IS NULL")
}

func (f *fixture) expire() {
	f.exec("UPDATE effects SET due_at = now() WHERE due_at IS NOT NULL AND owner IS NOT NULL")
}

// outside is somebody else's service: it executes a key once, or each time, and answers as it is told.
func newID(tb testing.TB) uuid.UUID {
	tb.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		tb.Fatal(err)
	}
	return id
}
