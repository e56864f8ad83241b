// Package shop is what the whole-process suites have in common: one tenant's shop on one database, the servers that
// it runs on, and the account that must hold after whatever was done to them. It knows the tables by their counts and
// the servers by their command line and HTTP. A suite that counted for itself could forget to.
package shop

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/postgres/localpg"
	"orderonce/internal/postgres/postgrestest"
)

// Shop is one tenant on one database.
type Shop struct {
	URL   string // of the database, as its owner
	Token string
}

// Open opens a shop on a database of its own, on the test binary's PostgreSQL: that one is not durable, and only
// servers may be killed.
func Open(tb testing.TB) *Shop {
	tb.Helper()
	return open(tb, postgrestest.URL(tb))
}

// OpenOn opens a shop on a PostgreSQL of the test's own.
func OpenOn(tb testing.TB, server *localpg.Server) *Shop {
	tb.Helper()
	s := server.URL(localpg.Database)
	run(tb, "migrate", "up", "--database-url="+s)
	return open(tb, s)
}

// Killable is a PostgreSQL that loses nothing when it is killed. Without fsync a commit is in the kernel's hands when
// it is acknowledged: the machine's crash would lose it, the server's own end does not.
func Killable(tb testing.TB, restart bool) *localpg.Server {
	tb.Helper()
	return postgrestest.Start(tb, localpg.Options{Restart: restart, Settings: map[string]string{"fsync": "off"}})
}

// OpenOnURL opens a shop on a migrated database.
func OpenOnURL(tb testing.TB, url string) *Shop {
	tb.Helper()
	return open(tb, url)
}

func open(tb testing.TB, database string) *Shop {
	tb.Helper()
	s := &Shop{URL: database}
	s.Operate(tb, "tenants", "create", "--tenant=acme")
	s.Operate(tb, "principals", "create", "--tenant=acme", "--principal=shop")
	s.Token = s.Operate(tb, "keys", "create", "--tenant=acme", "--principal=shop", "--name=test")
	s.Exec(tb, `INSERT INTO coupons (tenant_id, code, kind, percent, valid_from, valid_until)
		SELECT tenant_id, code, 'percent', 10, '2020-01-01', until::timestamptz
		FROM tenants, (VALUES ('WELCOME10', '2200-01-01'), ('EXPIRED10', '2021-01-01')) AS c (code, until)`)
	return s
}

// Operate runs an operator's command that changes something, and returns what it printed.
func (s *Shop) Operate(tb testing.TB, args ...string) string {
	tb.Helper()
	return strings.TrimSpace(run(tb, append(args, "--reason=a test", "--database-url="+s.URL)...))
}

func run(tb testing.TB, args ...string) (stdout string) {
	tb.Helper()
	status, stdout, stderr := orderoncetest.Run(tb, orderoncetest.Command{Binary: Binary(tb), Args: args})
	if status != 0 {
		tb.Fatalf("%v: status %d: %s", args, status, stderr)
	}
	return stdout
}

// Binary is the command with its fault points.
func Binary(tb testing.TB) string {
	tb.Helper()
	return orderoncetest.Binary(tb, "faults")
}

// Server is a running server with a client for the shop.
type Server struct {
	*orderoncetest.Process
	*orderoncetest.Client
}

// Options say how a server differs.
type Options struct {
	Through string   // address of a proxy to reach the database through
	Faults  []string // see internal/faultpoint
	Args    []string
}

// patient are bounds that a server which is held at a fault point on a machine under load does not meet: none of the
// suites is about them.
var patient = [...]string{
	"--drain-delay=0s", "--idle-in-transaction-timeout=30s", "--unit-deadline=40s", "--request-timeout=50s",
}

// Serve starts a server and waits until it is ready.
func (s *Shop) Serve(tb testing.TB, o Options) *Server {
	tb.Helper()
	server, err := s.TryServe(tb, o)
	if err != nil {
		tb.Fatal(err)
	}
	return server
}

// TryServe is Serve for a server that may find no database.
func (s *Shop) TryServe(tb testing.TB, o Options) (*Server, error) {
	tb.Helper()
	database := s.URL
	if o.Through != "" {
		u, err := url.Parse(database)
		if err != nil {
			return nil, err
		}
		u.Host = o.Through
		database = u.String()
	}
	process, ready, err := orderoncetest.TryServer(tb, orderoncetest.Command{
		Binary: Binary(tb),
		Args:   append([]string{"serve", "--database-url=" + database}, append(patient[:], o.Args...)...),
		Env:    []string{"ORDERONCE_FAULTS=" + strings.Join(o.Faults, ";")},
	})
	if err != nil {
		return nil, err
	}
	return &Server{process, orderoncetest.NewClient(ready.BaseURL, s.Token)}, nil
}

// Work starts a worker and waits until it is ready.
func (s *Shop) Work(tb testing.TB, o Options) *orderoncetest.Process {
	tb.Helper()
	process, _ := orderoncetest.StartServer(tb, orderoncetest.Command{
		Binary: Binary(tb),
		Args:   append([]string{"worker", "--database-url=" + s.URL, "--idle-in-transaction-timeout=30s", "--unit-deadline=40s", "--request-timeout=50s"}, o.Args...),
		Env:    []string{"ORDERONCE_FAULTS=" + strings.Join(o.Faults, ";")},
	})
	return process
}

// Address is the database's host and port.
func (s *Shop) Address(tb testing.TB) string {
	tb.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		tb.Fatal(err)
	}
	return u.Host
}

// Connect is a session of the test's own, beside every proxy. The database may just be starting.
func (s *Shop) Connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	var conn *pgx.Conn
	orderoncetest.Poll(tb, "a connection", func() bool {
		var err error
		conn, err = pgx.Connect(tb.Context(), s.URL)
		return err == nil
	})
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	return conn
}

// Exec runs one statement as the database's owner.
func (s *Shop) Exec(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	if _, err := s.Connect(tb).Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatal(err)
	}
}
