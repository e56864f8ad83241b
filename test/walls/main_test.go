// Package walls holds the second wall between tenants, the database's own, against every query there is: run as the
// request's role by a caller of another tenant, or of none, it finds nothing, changes nothing, waits for nothing and
// learns nothing. The queries are read from sql/queries when the test runs, so that a new one is held from its first
// day; the test says what it lacks where it does not know an argument or a table.
//
// The first wall, the tenant that each statement names, is deliberately aimed at the victim here: what is left to stop
// the query is row level security alone.
package walls

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// world is a migrated database.
type world struct {
	t     *testing.T
	url   string
	conn  *pgx.Conn // the owner's
	never *pgx.Conn // another one, on which orderonce.tenants is never set
	rows  string    // reads all rows there are, the victim's apart
}

// setup is a world with the rows of three tenants.
func setup(t *testing.T) *world {
	t.Helper()
	w := empty(t)
	w.fill()
	return w
}

func empty(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, url: postgrestest.URL(t)}
	w.conn, w.never = w.connect(), w.connect()
	var all []string
	for _, table := range w.strings(tablesOfTenants) {
		// With the transactions that wrote and locked the row: an equal row written anew, or held, is an effect.
		all = append(all, fmt.Sprintf("SELECT tenant_id, '%s ' || concat_ws(' ', xmin, xmax, to_jsonb(t)) AS line FROM %[1]s AS t", table))
	}
	w.rows = `SELECT coalesce(string_agg(line, E'\n' ORDER BY line) FILTER (WHERE tenant_id = $1), ''),
		coalesce(string_agg(line, E'\n' ORDER BY line) FILTER (WHERE tenant_id <> $1), '')
		FROM (` + strings.Join(all, " UNION ALL ") + ") AS lines"
	return w
}

const tablesOfTenants = `SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
	WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND a.attname = 'tenant_id' ORDER BY 1`

func (w *world) connect() *pgx.Conn {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), w.url)
	w.must(err)
	w.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(w.t.Context())) })
	return conn
}

// open is a pool as the server has one.
func (w *world) open(role postgres.Role) *postgres.DB {
	w.t.Helper()
	const patience = 30 * time.Second
	db, err := postgres.Open(w.t.Context(), postgres.Config{
		URL: w.url, Role: role, MaxConns: 2, SharedCommits: postgrestest.SharedCommits(),
		Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	w.must(err)
	w.t.Cleanup(db.Close)
	return db
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.conn.Exec(w.t.Context(), sql, args...)
	w.must(err)
}

func (w *world) strings(sql string, args ...any) []string {
	w.t.Helper()
	rows, err := w.conn.Query(w.t.Context(), sql, args...)
	w.must(err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	w.must(err)
	return all
}

// attempt is one way to run a query.
type attempt struct {
	role      postgres.Role // empty for the owner
	tenants   *string       // what the transaction names; nil where it never names any
	arguments map[string]any
}

func named(tenants ...string) *string {
	list := strings.Join(tenants, ",")
	return &list
}

// outcome is all that a caller learns of a query, and what it did.
type outcome struct {
	Answer         string // rows and command tag, or the error
	Rows           string
	Denied         bool // by the wall or for lack of a grant
	Failed         bool // for what is in a table
	VictimsChanged bool
	OthersChanged  bool
}

// effective says whether the query found or did anything, other than what it finds in an empty database.
func (o outcome) effective(inEmpty string) bool {
	return o.Rows != inEmpty || o.VictimsChanged || o.OthersChanged
}

// try runs the query and undoes it.
func (w *world) try(q query, a attempt) (o outcome) {
	w.t.Helper()
	ctx, conn := w.t.Context(), w.conn
	if a.tenants == nil {
		conn = w.never
	}
	tx, err := conn.Begin(ctx)
	w.must(err)
	defer func() { w.must(tx.Rollback(ctx)) }()
	victims, others := w.read(tx)
	// A wait for somebody else's row is no matter of time here: it is an error that no other attempt has.
	_, err = tx.Exec(ctx, "SET LOCAL lock_timeout = '10ms'")
	w.must(err)
	if a.tenants != nil {
		_, err = tx.Exec(ctx, "SET LOCAL orderonce.tenants = '"+*a.tenants+"'")
		w.must(err)
	}
	if a.role != "" {
		_, err = tx.Exec(ctx, "SET LOCAL ROLE "+string(a.role))
		w.must(err)
	}
	o.Rows, o.Answer, err = answer(ctx, tx, q, q.bind(w.t, a.arguments))
	if err != nil {
		var pe *pgconn.PgError
		if !errors.As(err, &pe) {
			w.t.Fatalf("%s: %v", q, err)
		}
		o.Answer = strings.Join([]string{pe.Code, pe.Message, pe.Detail, pe.Hint, pe.TableName, pe.ConstraintName}, "|")
		o.Denied, o.Failed = denied(err), !denied(err)
		return o // and the transaction has changed nothing
	}
	_, err = tx.Exec(ctx, "RESET ROLE")
	w.must(err)
	victimsNow, othersNow := w.read(tx)
	o.VictimsChanged, o.OthersChanged = victims != victimsNow, others != othersNow
	return o
}

func denied(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "42501"
}

// clock is the column in which a query brings the database's time along.
const clock = "read_at"

func answer(ctx context.Context, tx pgx.Tx, q query, values []any) (found, answer string, err error) {
	rows, err := tx.Query(ctx, q.sql, values...)
	if err != nil {
		return "", "", err
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		for i, field := range row.FieldDescriptions() {
			if field.Name == clock && err == nil {
				values[i] = nil // tells what time it is, and nothing of any row
			}
		}
		return fmt.Sprint(values), err
	})
	found = strings.Join(all, "\n")
	return found, found + "\n" + rows.CommandTag().String(), err
}

func (w *world) read(tx pgx.Tx) (victims, others string) {
	w.t.Helper()
	w.must(tx.QueryRow(w.t.Context(), w.rows, victim).Scan(&victims, &others))
	return victims, others
}
