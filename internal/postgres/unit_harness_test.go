package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

const patience = 30 * time.Second

// patient bounds nothing that a test waits for. A test that is about a bound shortens it.
func patient(url string) postgres.Config {
	return postgres.Config{
		URL: url, MaxConns: 4, Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	}
}

// fixture is a database with a table that takes each name once and keeps the order in which rows came.
type fixture struct {
	t     *testing.T
	url   string
	db    *postgres.DB
	watch *pgx.Conn // another session, for the test's own goroutine
}

func setup(t *testing.T) *fixture {
	t.Helper()
	return setupWith(t, func(*postgres.Config) {})
}

func setupWith(t *testing.T, change func(*postgres.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, url: postgrestest.EmptyURL(t)}
	f.watch = f.session()
	f.exec("CREATE TABLE things (came bigserial, name text PRIMARY KEY)")
	config := patient(f.url)
	change(&config)
	f.db = open(t, config)
	return f
}

func open(t *testing.T, config postgres.Config) *postgres.DB {
	t.Helper()
	var db *postgres.DB
	// A bound that a test is about may be too short for a busy machine to connect in.
	migrationPoll(t, "the database to be open", func() bool {
		var err error
		if db, err = postgres.Open(t.Context(), config); err != nil && fault.KindOf(err) != fault.Busy {
			t.Fatal(err)
		}
		return err == nil
	})
	t.Cleanup(db.Close)
	return db
}

func (f *fixture) session() *pgx.Conn {
	f.t.Helper()
	return migrationConn(f.t, f.url)
}

func (f *fixture) exec(sql string) {
	f.t.Helper()
	if _, err := f.watch.Exec(f.t.Context(), sql); err != nil {
		f.t.Fatal(err)
	}
}

// wantThings checks which names another session sees, in the order in which they were sent, and that no unit has kept
// its connection.
func (f *fixture) wantThings(want ...string) {
	f.t.Helper()
	rows, err := f.watch.Query(f.t.Context(), "SELECT name FROM things ORDER BY came")
	if err != nil {
		f.t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.t.Fatal(err)
	}
	if diff := cmp.Diff(append([]string{}, want...), append([]string{}, got...)); diff != "" {
		f.t.Errorf("the names there (-want +got)\n%s", diff)
	}
	// A sound connection is back at once; the pool closes a broken one in its own time.
	migrationPoll(f.t, "all connections to be back", func() bool { return f.db.Stat().AcquiredConns() == 0 })
}

// hold lets another session write the name and keep its transaction open until release.
func (f *fixture) hold(name string) (release func()) {
	f.t.Helper()
	tx, err := f.session().Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := tx.Exec(f.t.Context(), "INSERT INTO things (name) VALUES ($1)", name); err != nil {
		f.t.Fatal(err)
	}
	return func() {
		f.t.Helper()
		// An error would say that the holder was cut: then nobody has waited for it.
		if err := tx.Rollback(f.t.Context()); err != nil {
			f.t.Error(err)
		}
	}
}

// under keeps a unit open, with its connection, until the end of the test or release.
func (f *fixture) under(unit postgres.Unit) (release func()) {
	f.t.Helper()
	unit.Open, unit.LockTimeout = true, patience
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- f.db.InTx(context.WithoutCancel(f.t.Context()), unit, func(context.Context, *postgres.Tx) error {
			close(begun)
			<-end
			return nil
		})
	}()
	select {
	case <-begun:
	case err := <-done:
		f.t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		close(end)
		if err := <-done; err != nil {
			f.t.Error(err)
		}
	})
	f.t.Cleanup(release)
	return release
}

// waiting polls for n sessions that wait for a lock, and returns their server processes.
func (f *fixture) waiting(n int) (pids []int32) {
	f.t.Helper()
	// A wait that has only begun may show in pg_stat_activity, then not, then again; in pg_locks it stays.
	migrationPoll(f.t, "sessions to wait for a lock", func() bool {
		rows, err := f.watch.Query(f.t.Context(), `SELECT DISTINCT pid FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE NOT granted AND datname = current_database()`)
		if err == nil {
			pids, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		}
		if err != nil {
			f.t.Fatal(err)
		}
		return len(pids) == n
	})
	return pids
}

// terminate ends a server process and returns when it is gone.
func (f *fixture) terminate(ctx context.Context, pid int32) {
	f.t.Helper()
	if _, err := f.watch.Exec(ctx, "SELECT pg_terminate_backend($1)", pid); err != nil {
		f.t.Fatal(err)
	}
	migrationPoll(f.t, "the server process to end", func() bool {
		var gone bool
		err := f.watch.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", pid).Scan(&gone)
		return gone && err == nil
	})
}

// The kinds of the tests' rows, with a fault of their own each.
var (
	early  = &postgres.Kind{Name: "early", Rank: 1, Busy: fault.InProgress}
	middle = &postgres.Kind{Name: "middle", Rank: 2, Busy: fault.CheckoutInProgress}
	late   = &postgres.Kind{Name: "late", Rank: 3, Busy: fault.Busy}
)

// thing is a row that is refused where its name is there already.
type thing string

func (name thing) Write(ctx context.Context, db postgres.DBTX) error {
	_, err := db.Exec(ctx, "INSERT INTO things (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", string(name))
	return err
}

// rowFunc is a row that does what the test wants.
type rowFunc func(ctx context.Context, db postgres.DBTX) error

func (write rowFunc) Write(ctx context.Context, db postgres.DBTX) error { return write(ctx, db) }

// statement is a row of one statement.
func statement(sql string, args ...any) postgres.Row {
	return rowFunc(func(ctx context.Context, db postgres.DBTX) error {
		_, err := db.Exec(ctx, sql, args...)
		return err
	})
}

type work = func(context.Context, *postgres.Tx) error

// stage is work that stages things of one kind.
func stage(kind *postgres.Kind, names ...thing) work {
	return func(_ context.Context, tx *postgres.Tx) error {
		for _, name := range names {
			tx.Stage(kind, name)
		}
		return nil
	}
}

func (f *fixture) inTx(unit postgres.Unit, work work) error {
	f.t.Helper()
	if unit.LockTimeout == 0 {
		unit.LockTimeout = patience
	}
	return f.db.InTx(f.t.Context(), unit, work)
}

func (f *fixture) mustTx(unit postgres.Unit, work work) {
	f.t.Helper()
	if err := f.inTx(unit, work); err != nil {
		f.t.Fatal(err)
	}
}

func wantRefused(t *testing.T, err error, by *postgres.Kind) {
	t.Helper()
	var refused *postgres.Refused
	if !errors.As(err, &refused) || refused.By != by {
		t.Errorf("error %v, want the refusal of kind %s", err, by.Name)
	}
}

func wantFault(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != kind {
		t.Errorf("error %v, want %v", err, kind)
	}
}

// eachPath runs a test over units that stage all they write, and units that are open before their work.
func eachPath(t *testing.T, test func(t *testing.T, f *fixture, unit postgres.Unit)) {
	t.Helper()
	for name, unit := range map[string]postgres.Unit{"staged": {}, "open": {Open: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, setup(t), unit)
		})
	}
}
