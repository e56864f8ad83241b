package idempotency_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

const patience = 30 * time.Second

// fixture is a service's view of the keys: the modules' rows are things.
type fixture struct {
	t     *testing.T
	url   string
	db    *postgres.DB
	keys  *idempotency.Keys
	watch *pgx.Conn // another session, for the test's own goroutine
	runs  atomic.Int32
}

func setup(t *testing.T) *fixture {
	t.Helper()
	url := postgrestest.URL(t)
	return setupThrough(t, url, url)
}

// setupThrough lets the keys reach the database by another URL than the test does.
func setupThrough(t *testing.T, url, through string) *fixture {
	t.Helper()
	f := &fixture{t: t, url: url}
	f.watch = f.session()
	f.exec("CREATE TABLE things (id uuid PRIMARY KEY, name text UNIQUE)")
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: through, MaxConns: 16, SharedCommits: postgrestest.SharedCommits(), Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	f.db, f.keys = db, newProcess(db)
	return f
}

// newProcess is the keys of one more process: those that it leads, no other process follows in memory. It remembers no
// outcomes, so that it sees what a test does to the records.
func newProcess(db *postgres.DB) *idempotency.Keys {
	return idempotency.New(db, patience, 0)
}

func (f *fixture) session() *pgx.Conn {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(f.t.Context())) })
	return conn
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.watch.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) count(query string, args ...any) (n int) {
	f.t.Helper()
	if err := f.watch.QueryRow(f.t.Context(), query, args...).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// wantRows checks what other sessions see: things and complete records, and no incomplete one.
func (f *fixture) wantRows(things, records int) {
	f.t.Helper()
	got := [3]int{
		f.count("SELECT count(*) FROM things"),
		f.count("SELECT count(*) FROM idempotency_requests WHERE response_status IS NOT NULL"),
		f.count("SELECT count(*) FROM idempotency_requests WHERE response_status IS NULL"),
	}
	if want := [3]int{things, records, 0}; got != want {
		f.t.Errorf("things, records and incomplete records are %v, want %v", got, want)
	}
}

func (f *fixture) do(request idempotency.Request, work idempotency.Work) idempotency.Outcome {
	f.t.Helper()
	outcome, err := f.keys.Do(f.t.Context(), request, work)
	if err != nil {
		f.t.Fatal(err)
	}
	return outcome
}

func (f *fixture) wantFault(err error, kind fault.Kind) {
	f.t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		f.t.Errorf("error %v, want %v", err, kind)
	}
	// A sound connection is back at once; the pool closes a broken one in its own time.
	f.poll("all connections to be back", func() bool { return f.db.Stat().AcquiredConns() == 0 })
}

// waiters are the sessions that wait for a row or a table.
func (f *fixture) waiters() int {
	f.t.Helper()
	return f.count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
}

func (f *fixture) poll(what string, reached func() bool) {
	f.t.Helper()
	postgrestest.Poll(f.t, what, reached)
}

// newRequest is the first try of a new intent.
func newRequest(t *testing.T) idempotency.Request {
	t.Helper()
	policy := idempotency.Policy{Retention: time.Hour, Wait: patience, MaxResponse: 64 << 10}
	return idempotency.Request{
		Scope:      policy.Scope(uuid.New(), uuid.New(), "createThing", idempotency.Key(uuid.NewString())),
		Policy:     policy,
		APIVersion: "2026-11-01",
		Parameters: parameters(t, map[string]any{"name": "lamp"}),
		Authorise:  func(context.Context) error { return nil },
	}
}

func parameters(t *testing.T, body any) *idempotency.Parameters {
	t.Helper()
	p := &idempotency.Parameters{}
	if err := p.Body(body); err != nil {
		t.Fatal(err)
	}
	return p
}

var thingKind = &postgres.Kind{Name: "thing", Rank: postgres.RankOrder, Busy: fault.CheckoutInProgress}

// thing is a row of a module. A name that is taken is refused.
type thing struct {
	ID   uuid.UUID `json:"id"`
	Name *string   `json:"name"`
}

func (row thing) Write(ctx context.Context, db postgres.DBTX) error {
	_, err := db.Exec(ctx, "INSERT INTO things (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", row.ID, row.Name)
	return err
}

// create makes a thing that is never twice the same, so that a second run cannot look like a replay.
func (f *fixture) create(_ context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
	f.runs.Add(1)
	row := thing{ID: uuid.New()}
	tx.Stage(thingKind, row)
	body, err := json.Marshal(row)
	return idempotency.Answer{
		Status: 201, Header: map[string]string{"Location": "/things/" + row.ID.String()}, Body: body,
		Resource: &idempotency.Resource{Type: "thing", ID: row.ID},
	}, err
}

// createOpen does the same in a transaction that is open when the answer is made, like work that reads or locks.
func (f *fixture) createOpen(ctx context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
	if _, err := tx.DB(ctx); err != nil {
		return idempotency.Answer{}, err
	}
	return f.create(ctx, tx)
}

// eachPath runs a test over both ways that a unit takes: all staged, and open before its answer is known.
func eachPath(t *testing.T, test func(t *testing.T, f *fixture, create idempotency.Work)) {
	t.Helper()
	t.Run("staged", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		test(t, f, f.create)
	})
	t.Run("open", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		test(t, f, f.createOpen)
	})
}
