// Package postgrestest gives each test a database of its own on a real PostgreSQL, in well under a second.
//
// It owns one server per test binary, started when the first test asks and ended with the binary, even when
// that is killed; and a template with all migrations, of which every database is a copy. It fills no table:
// a package's tests do that through the package itself. The server is fast and not durable: a test that
// kills PostgreSQL starts one for itself with [Start].
//
// With ORDERONCE_TEST_DATABASE_URL set to a superuser's connection string, that server is used instead.
//
// A package that uses it has
//
//	func TestMain(m *testing.M) { postgrestest.Main(m) }
package postgrestest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // pgtestdb opens "pgx"
	"github.com/peterldowns/pgtestdb"
	"go.uber.org/goleak"

	"orderonce/internal/postgres"
	"orderonce/internal/postgres/localpg"
	"orderonce/sql/schema"
)

// ServerEnv names the environment variable that brings another server, as a superuser's connection string.
const ServerEnv = "ORDERONCE_TEST_DATABASE_URL"

// TimeZone is the sessions' time zone in every test database. Its offset is +05:45, so that code which
// takes a session to be in UTC, or an offset to be whole hours, fails.
const TimeZone = "Asia/Kathmandu"

// AloneEnv names the environment variable that lets each unit of work commit alone, where it is set: the protocol's
// promises hold both ways, and `make test` tries both.
const AloneEnv = "ORDERONCE_TEST_ALONE"

// SharedCommits is the setting of that name for a test's pool.
func SharedCommits() int {
	if os.Getenv(AloneEnv) != "" { //nolint:forbidigo // tests have no configuration
		return 0
	}
	return 2
}

const patience = time.Minute

// theirs is a goroutine that toxiproxy, which some suites cut connections with, leaves behind now and then: a pipe whose
// other end was cut first.
var theirs = goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run")

// Main runs the tests, ends the binary's server, removes its files, does what else has to be done at the end,
// reports goroutines that are left when the tests passed, and exits.
func Main(m *testing.M, atEnd ...func() error) {
	shared.allowed = true
	code := m.Run()
	for _, end := range append(atEnd, shared.end) {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, "postgrestest:", err)
			code = max(code, 1)
		}
	}
	if code == 0 {
		if err := goleak.Find(theirs); err != nil {
			fmt.Fprintln(os.Stderr, "postgrestest: tests passed, but left", err)
			code = 1
		}
	}
	os.Exit(code) //nolint:forbidigo // what TestMain must do
}

// URL is the owner's connection string of a new database with all migrations. The database is dropped at
// the end of the test, connections to it cut, unless the test failed.
func URL(tb testing.TB) string {
	tb.Helper()
	return create(tb, migrated{})
}

// EmptyURL is URL without migrations.
func EmptyURL(tb testing.TB) string {
	tb.Helper()
	return create(tb, pgtestdb.NoopMigrator{})
}

// Start starts a server for this test alone, which the test may kill, stop and start again. Where opts.Dir
// is empty, it is in a temporary directory that is removed at the end of the test. It is as durable as
// opts.Settings let it be, and has an empty database [localpg.Database].
func Start(tb testing.TB, opts localpg.Options) *localpg.Server {
	tb.Helper()
	if opts.Dir == "" {
		opts.Dir = TempDir(tb)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	server, err := localpg.Start(ctx, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// A server that the test has killed has ended with an error, and that is the test's business.
		_ = server.Stop(context.WithoutCancel(tb.Context()))
	})
	return server
}

// TempDir is t.TempDir, but PostgreSQL's user can pass through it when the tests run as root.
func TempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := localpg.MkdirTemp()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

func create(tb testing.TB, migrator pgtestdb.Migrator) string {
	tb.Helper()
	server, err := shared.url()
	if err != nil {
		tb.Fatal(err)
	}
	config, err := configFor(server)
	if err != nil {
		tb.Fatal(err)
	}
	database := pgtestdb.Custom(tb, config, migrator)

	conn, err := pgx.Connect(tb.Context(), server)
	if err != nil {
		tb.Fatal(err)
	}
	name := pgx.Identifier{database.Database}.Sanitize()
	_, err = conn.Exec(tb.Context(), "ALTER DATABASE "+name+" SET timezone TO '"+TimeZone+"'")
	if err := errors.Join(err, conn.Close(tb.Context())); err != nil {
		tb.Fatal(err)
	}
	return database.URL()
}

// configFor makes the server's own superuser the owner of the databases: migrations may create roles.
func configFor(server string) (pgtestdb.Config, error) {
	u, err := url.Parse(server)
	if err != nil || u.User == nil {
		return pgtestdb.Config{}, errors.New(ServerEnv + " must be postgres://user:password@host:port/database")
	}
	password, _ := u.User.Password()
	port := u.Port()
	if port == "" {
		port = "5432"
	}
	// pgtestdb puts the words together again without escaping them.
	user, password := url.User(u.User.Username()).String(), url.User(password).String()
	return pgtestdb.Config{
		DriverName: "pgx", Host: u.Hostname(), Port: port, User: user, Password: password,
		Database: u.Path[min(1, len(u.Path)):], Options: u.RawQuery,
		TestRole: &pgtestdb.Role{Username: user, Password: password, Capabilities: "SUPERUSER"},
		// A test that cuts connections leaves the server's ends of them, which see it only later.
		ForceTerminateConnections: true,
	}, nil
}

// migrated makes the template with this binary's migrations.
type migrated struct{}

// Hash changes with any migration's name or text.
func (migrated) Hash() (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(schema.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(schema.Files, path)
		sum.Write(fmt.Appendf(nil, "%s %d\n%s", path, len(text), text))
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

func (migrated) Migrate(ctx context.Context, _ *sql.DB, database pgtestdb.Config) error {
	return postgres.MigrateUp(ctx, database.URL())
}

// binary is the one server of a test binary.
type binary struct {
	allowed bool // by Main, which will end it
	mu      sync.Mutex
	server  *localpg.Server
	dir     string
	err     error
}

var shared binary

// url starts the server at the first call. After a failed start it fails at once, for every test.
func (b *binary) url() (string, error) {
	if external := os.Getenv(ServerEnv); external != "" { //nolint:forbidigo // tests have no configuration
		return external, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server == nil && b.err == nil {
		b.err = b.start()
	}
	if b.err != nil {
		return "", b.err
	}
	return b.server.URL(localpg.Database), nil
}

func (b *binary) start() (err error) {
	if !b.allowed {
		return errors.New("call postgrestest.Main from TestMain, it ends the server")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if b.dir, err = localpg.MkdirTemp(); err != nil {
		return err
	}
	b.server, err = localpg.Start(ctx, localpg.Options{Dir: b.dir, Settings: map[string]string{
		"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "300",
	}})
	return err
}

func (b *binary) end() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.server != nil {
		// Nothing is kept, so nothing is waited for.
		now, cancel := context.WithCancel(context.Background())
		cancel()
		err = b.server.Stop(now)
	}
	if b.dir != "" {
		err = errors.Join(err, os.RemoveAll(b.dir))
	}
	return err
}
