package postgres_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
	"orderonce/sql/schema"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// migrationFiles are three migrations, of which the second takes a lock that a test may hold.
var migrationFiles = fstest.MapFS{
	"000001_a.up.sql":   {Data: []byte("CREATE TABLE a (n int); SELECT pg_advisory_xact_lock(1);")},
	"000001_a.down.sql": {Data: []byte("DROP TABLE a")},
	"000002_b.up.sql":   {Data: []byte("CREATE TABLE b (n int); SELECT pg_advisory_xact_lock(2);")},
	"000002_b.down.sql": {Data: []byte("DROP TABLE b")},
	"000005_c.up.sql":   {Data: []byte("CREATE INDEX CONCURRENTLY c ON b (n)")},
	"000005_c.down.sql": {Data: []byte("DROP INDEX CONCURRENTLY c")},
}

func TestMigrateUp(t *testing.T) {
	t.Parallel()
	url := postgrestest.EmptyURL(t)
	wantMigration(t, url, 0)
	for range 2 { // the second has nothing to do
		if err := postgres.MigrateUpFiles(t.Context(), url, migrationFiles); err != nil {
			t.Fatal(err)
		}
		wantMigration(t, url, 5)
	}
	noMigrationSession(t, url)
}

func TestMigrateUpInParallel(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]fs.FS{"schema": schema.Files, "with an index": migrationFiles} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.EmptyURL(t)
			var group errgroup.Group
			start := make(chan struct{})
			for range 4 {
				group.Go(func() error {
					<-start
					return postgres.MigrateUpFiles(t.Context(), url, files)
				})
			}
			close(start)
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			if at, err := postgres.MigrationStatusFiles(t.Context(), url, files); err != nil || at.Err() != nil {
				t.Errorf("%v, %v", err, at.Err())
			}
			noMigrationSession(t, url)
		})
	}
}

func TestMigrateDownAndUpAgain(t *testing.T) {
	t.Parallel()
	ups, err := fs.Glob(schema.Files, "*.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	url := postgrestest.EmptyURL(t)
	if err := postgres.MigrateUp(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	before := migrationObjects(t, url)
	if err := postgres.MigrateDown(t.Context(), url, len(ups)); err != nil {
		t.Fatal(err)
	}
	if left := migrationObjects(t, url); left != "schema_migrations schema_migrations_pkey" {
		t.Errorf("left after all the way down: %s", left)
	}
	if err := postgres.MigrateUp(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if after := migrationObjects(t, url); after != before {
		t.Errorf("up, down, up ends with\n%s, up with\n%s", after, before)
	}
}

func TestMigrateDownUndoesWhatItIsAskedFor(t *testing.T) {
	t.Parallel()
	url := postgrestest.EmptyURL(t)
	if err := postgres.MigrateUpFiles(t.Context(), url, migrationFiles); err != nil {
		t.Fatal(err)
	}
	for _, steps := range []int{-1, 0, 4} {
		if err := postgres.MigrateDownFiles(t.Context(), url, migrationFiles, steps); err == nil {
			t.Errorf("%d steps down of 3 are no error", steps)
		}
		wantMigration(t, url, 5)
	}
	if err := postgres.MigrateDownFiles(t.Context(), url, migrationFiles, 2); err != nil {
		t.Fatal(err)
	}
	wantMigration(t, url, 1)
}

func TestMigrateDownNeedsADownFile(t *testing.T) {
	t.Parallel()
	url := postgrestest.EmptyURL(t)
	files := fstest.MapFS{"000001_a.up.sql": {Data: []byte("CREATE TABLE a (n int)")}}
	if err := postgres.MigrateUpFiles(t.Context(), url, files); err != nil {
		t.Fatal(err)
	}
	err := postgres.MigrateDownFiles(t.Context(), url, files, 1)
	wantMigrationError(t, err, "migration 1 cannot be undone")
	if at, err := postgres.MigrationStatusFiles(t.Context(), url, files); err != nil || at.Version != 1 || at.Dirty {
		t.Errorf("state %+v, %v", at, err)
	}
}

func TestFailedMigrationIsExplained(t *testing.T) {
	t.Parallel()
	url := postgrestest.EmptyURL(t)
	files := fstest.MapFS{
		"000001_a.up.sql": {Data: []byte("CREATE TABLE a (n int)")},
		"000002_b.up.sql": {Data: []byte("CREATE TABLE b (n int);\nCREATE TABLE a (n int);\n")},
		"000003_c.up.sql": {Data: []byte("CREATE TABLE c (n int)")},
	}
	err := postgres.MigrateUpFiles(t.Context(), url, files)
	wantMigrationError(t, err, "migration 2", `relation "a" already exists`)

	// Nothing is done to a dirty database, whatever is asked.
	wantMigrationError(t, postgres.MigrateUpFiles(t.Context(), url, files), "version 2 was begun and not completed")
	wantMigrationError(t, postgres.MigrateDownFiles(t.Context(), url, files, 1), "version 2 was begun and not completed")
	at, err := postgres.MigrationStatusFiles(t.Context(), url, files)
	if want := (postgres.MigrationState{Version: 2, Newest: 3, Dirty: true}); err != nil || at != want {
		t.Errorf("state %+v, %v; want %+v", at, err, want)
	}
	wantMigrationError(t, at.Err(), "version 2 was begun and not completed")
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	url := postgrestest.EmptyURL(t)
	if err := postgres.MigrateUpFiles(t.Context(), url, migrationFiles); err != nil {
		t.Fatal(err)
	}
	older := fstest.MapFS{"000001_a.up.sql": migrationFiles["000001_a.up.sql"]}
	const want = "the database is at migration 5, this program knows none after 1"
	wantMigrationError(t, postgres.MigrateUpFiles(t.Context(), url, older), want)
	wantMigrationError(t, postgres.MigrateDownFiles(t.Context(), url, older, 1), want)
	at, err := postgres.MigrationStatusFiles(t.Context(), url, older)
	if err != nil {
		t.Fatal(err)
	}
	wantMigrationError(t, at.Err(), want)
	wantMigration(t, url, 5)
}

func TestCancelledMigrationEndsBetweenTwo(t *testing.T) {
	t.Parallel()
	url := postgrestest.EmptyURL(t)
	holder := migrationConn(t, url)
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_lock(1)"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	migrated := make(chan error, 1)
	go func() { migrated <- postgres.MigrateUpFiles(ctx, url, migrationFiles) }()
	migrationPoll(t, "migration 1 to wait for the lock", func() bool {
		return migrationCount(t, holder, "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = "+
			"(SELECT oid FROM pg_database WHERE datname = current_database())") == 1
	})

	cancel()
	// Another waits for its turn, and its context ends too.
	if err := postgres.MigrateUpFiles(ctx, url, migrationFiles); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of the waiting one, want that of its context", err)
	}
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_unlock(1)"); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	wantMigration(t, url, 1)
}

func TestMigrationErrorsKeepThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:sesame@127.0.0.1:1/d", "postgres://u:sesame@127.0.0.1:port/d"} {
		_, statusErr := postgres.MigrationStatus(t.Context(), url)
		for _, err := range []error{statusErr, postgres.MigrateUp(t.Context(), url)} {
			if err == nil || strings.Contains(err.Error(), "sesame") {
				t.Errorf("error %v", err)
			}
		}
	}
}

func wantMigration(t *testing.T, url string, version uint) {
	t.Helper()
	at, err := postgres.MigrationStatusFiles(t.Context(), url, migrationFiles)
	if want := (postgres.MigrationState{Version: version, Newest: 5}); err != nil || at != want {
		t.Errorf("state %+v, %v; want %+v", at, err, want)
	}
	if complete := at.Err() == nil; complete != (version == 5) {
		t.Errorf("state %+v: %v", at, at.Err())
	}
}

func wantMigrationError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want it to say %q", err, part)
		}
	}
}

// noMigrationSession checks that migrating has closed its connections: at most, their ends are just being seen.
func noMigrationSession(t *testing.T, url string) {
	t.Helper()
	conn := migrationConn(t, url)
	migrationPoll(t, "all other sessions to end", func() bool {
		return migrationCount(t, conn, "SELECT count(*) FROM pg_stat_activity "+
			"WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'") == 0
	})
}

// migrationObjects are the names of all tables and indexes.
func migrationObjects(t *testing.T, url string) (names string) {
	t.Helper()
	err := migrationConn(t, url).QueryRow(t.Context(), "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class "+
		"WHERE relnamespace = 'public'::regnamespace").Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func migrationCount(t *testing.T, conn *pgx.Conn, query string) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func migrationConn(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func migrationPoll(t *testing.T, what string, reached func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !reached() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
