package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
)

// A connection that the server has closed says nothing about the database: the read is given another one, once.
func TestReadReplacesADeadConnectionOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	reads := 0
	read := func(deadly int) error {
		reads = 0
		return f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
			reads++
			if reads <= deadly {
				return db.QueryRow(ctx, "SELECT pg_terminate_backend(pg_backend_pid())").Scan(new(bool))
			}
			return db.QueryRow(ctx, "SELECT 1").Scan(new(int))
		})
	}
	if err := read(1); err != nil || reads != 2 {
		t.Errorf("after %d reads: %v", reads, err)
	}
	err := read(10)
	wantFault(t, err, fault.Unavailable)
	wantPause(t, err)
	if reads != 2 {
		t.Errorf("%d reads", reads)
	}
	if err := read(0); err != nil || reads != 1 {
		t.Errorf("after %d reads: %v", reads, err)
	}
}

// A storm of clients that go away must not tear down the pool: a read goes on without its caller.
func TestCancelledCallerDoesNotCostAConnection(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.exec("SELECT pg_advisory_lock(1)")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- f.db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
			return db.QueryRow(ctx, "SELECT pg_advisory_lock_shared(1)::text").Scan(new(string))
		})
	}()
	f.waiting(1)
	cancel() // in the middle of the statement
	opened := f.db.Stat().NewConnsCount()
	for range 20 { // and before it
		err := f.db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
			if ctx.Err() != nil {
				t.Error("the read is cancelled with its caller")
			}
			return db.QueryRow(ctx, "SELECT 1").Scan(new(int))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	f.exec("SELECT pg_advisory_unlock(1)")
	if err := <-done; err != nil {
		t.Errorf("error %v of the read whose caller went away", err)
	}
	// One connection waited, one served all the others.
	if now := f.db.Stat().NewConnsCount(); now > opened+1 {
		t.Errorf("%d connections were opened, %d before", now, opened)
	}
	f.wantThings()
}

// What the caller's cancellation does not bound, Deadline does.
func TestReadEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	f := setupWith(t, func(c *postgres.Config) { c.Deadline = 5 * brief })
	f.exec("SELECT pg_advisory_lock(1)")
	err := f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		return db.QueryRow(ctx, "SELECT pg_advisory_lock(1)::text").Scan(new(string))
	})
	wantFault(t, err, fault.Busy)
	f.wantThings()
}

func TestDetachKeepsTheDeadlineAndDropsTheCancellation(t *testing.T) {
	t.Parallel()
	type key struct{}
	parent, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "kept"), time.Hour)
	until, _ := parent.Deadline()
	shorter, done := postgres.Detach(parent, time.Minute)
	defer done()
	longer, done := postgres.Detach(parent, 2*time.Hour)
	defer done()
	cancel()
	if shorter.Err() != nil || longer.Err() != nil || longer.Value(key{}) != "kept" {
		t.Errorf("detached: %v, %v, value %v", shorter.Err(), longer.Err(), longer.Value(key{}))
	}
	if d, ok := longer.Deadline(); !ok || !d.Equal(until) {
		t.Errorf("the deadline is %v, want the parent's %v", d, until)
	}
	if d, ok := shorter.Deadline(); !ok || !d.Before(until) {
		t.Errorf("the deadline is %v, want one of a minute", d)
	}
}

// No row is an answer and not a fault; the module knows what it means.
func TestNoRowPassesAsItIs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	none := func(ctx context.Context, db postgres.DBTX) error {
		return db.QueryRow(ctx, "SELECT 1 WHERE false").Scan(new(int))
	}
	err := f.db.Read(t.Context(), uuid.Nil, none)
	inUnit := f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		return errors.Join(err, none(ctx, db))
	})
	for _, err := range []error{err, inUnit} {
		var f *fault.Error
		if !errors.Is(err, pgx.ErrNoRows) || errors.As(err, &f) {
			t.Errorf("error %v, want no rows", err)
		}
	}
}

// SQLSTATE by SQLSTATE: what may be run again, what the client may try later, and what nobody has thought of.
func TestMeaningOfPostgreSQLsErrors(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.exec("CREATE FUNCTION fail(code text) RETURNS void LANGUAGE plpgsql AS " +
		"$$ BEGIN RAISE EXCEPTION 'told to' USING ERRCODE = code; END $$")
	for code, want := range map[string]struct {
		kind      fault.Kind
		transient bool
	}{
		"40001": {fault.Busy, true}, "40P01": {fault.Busy, true},
		"57P01": {fault.Unavailable, true}, "57P02": {fault.Unavailable, true}, "57P03": {fault.Unavailable, true},
		"53300": {fault.Unavailable, true}, "25P03": {fault.Unavailable, true},
		"08000": {fault.Unavailable, true}, "08006": {fault.Unavailable, true},
		"28P01": {fault.Unavailable, false}, "28000": {fault.Unavailable, false},
		"55P03": {fault.Busy, false}, "57014": {fault.Busy, false},
		"23505": {fault.Internal, false}, "23514": {fault.Internal, false}, "22P02": {fault.Internal, false},
		"42P01": {fault.Internal, false}, "53100": {fault.Internal, false}, "XX000": {fault.Internal, false},
	} {
		call := func(ctx context.Context, db postgres.DBTX) error {
			_, err := db.Exec(ctx, "SELECT fail($1)", code)
			return err
		}
		ask := func(ctx context.Context, db postgres.DBTX) error {
			return db.QueryRow(ctx, "SELECT fail($1)::text", code).Scan(new(string))
		}
		for where, err := range map[string]error{
			"read":       f.db.Read(t.Context(), uuid.Nil, ask),
			"staged row": f.inTx(postgres.Unit{}, func(_ context.Context, tx *postgres.Tx) error { tx.Stage(late, rowFunc(call)); return nil }),
			"work": f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
				db, err := tx.DB(ctx)
				return errors.Join(err, call(ctx, db))
			}),
		} {
			if err == nil || fault.KindOf(err) != want.kind || errors.Is(err, postgres.ErrTransient) != want.transient {
				t.Errorf("%s in a %s: %v; want %v, transient %v", code, where, err, want.kind, want.transient)
			}
			if want.kind != fault.Internal {
				wantPause(t, err)
			}
		}
	}
}

// The session's time zone is none of a module's business: times are read in UTC, ids as they were written.
func TestTimesAreUTCWhateverTheSessionsZone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	written, id := time.Date(2026, 3, 29, 1, 30, 0, 123456000, time.UTC), uuid.New()
	err := f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		var zone string
		var at time.Time
		var same uuid.UUID
		err := db.QueryRow(ctx, "SELECT current_setting('TimeZone'), $1::timestamptz, $2::uuid", written, id).Scan(&zone, &at, &same)
		if at != written || same != id || zone == "UTC" {
			t.Errorf("in zone %s, %v became %v and %v became %v", zone, written, at, id, same)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDatabaseThatIsNotThereIsUnavailable(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = postgres.Open(t.Context(), patient("postgres://u:sesame@"+address+"/d"))
	wantFault(t, err, fault.Unavailable)
	wantPause(t, err)
	withoutSesame(t, err)

	// One that goes away later, too.
	f, p := setupProxied(t)
	p.Vanish()
	wantFault(t, f.db.Ping(t.Context()), fault.Unavailable)
	wantFault(t, f.inTx(postgres.Unit{}, stage(middle, "new")), fault.Unavailable)
}

// The URL of a database holds its password. An error about it ends up in logs.
func TestErrorsAboutTheURLKeepThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://u:sesame@127.0.0.1:port/d", "postgres://u:sesame%zz@h/d", "postgres://u:sesame /x@h/d",
		"postgres://u:sesame/x@h:5432/d", "postgres://u:sesame@h/d?sslmode=wrong", "postgres://h/d?password=sesame%zz",
		"postgres://u:sesame@h/d?pool_max_conns=many", "host=h port=many password=sesame", "host=h password='sesame",
		"host=h password=sesame port", "host=h password sesame", "u:sesame@h:5432/d", "http://u:sesame@h/d",
		"postgres:/u:sesame@h/d", "postgres://u:sesame@h/d?sslrootcert=/nowhere&sslmode=verify-full",
	} {
		_, err := postgres.Open(t.Context(), patient(url))
		withoutSesame(t, err)
	}
}

// PostgreSQL quotes the value that it cannot take, and an error ends up in logs.
func TestErrorsAboutAValueDoNotQuoteIt(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const cast = "SELECT $1::int"
	exec := func(ctx context.Context, db postgres.DBTX) error {
		_, err := db.Exec(ctx, cast, "sesame")
		return err
	}
	for where, err := range map[string]error{
		"read": f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
			return fmt.Errorf("look: %w", db.QueryRow(ctx, cast, "sesame").Scan(new(int)))
		}),
		"staged row": f.inTx(postgres.Unit{}, func(_ context.Context, tx *postgres.Tx) error { tx.Stage(late, rowFunc(exec)); return nil }),
		"work": f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
			db, err := tx.DB(ctx)
			return fmt.Errorf("work: %w", errors.Join(err, exec(ctx, db)))
		}),
	} {
		withoutSesame(t, err)
		if pe, ok := errors.AsType[*pgconn.PgError](err); !ok || pe.Code != "22P02" || !strings.Contains(err.Error(), "22P02") {
			t.Errorf("%s: the code is lost: %v", where, err)
		}
	}
}

func withoutSesame(t *testing.T, err error) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "sesame") {
		t.Errorf("error %v", err)
	}
}
