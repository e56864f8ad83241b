package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

// walled is a migrated database with three tenants, seen as requests see it. A tenant's own row in tenants is what there
// is to see of it.
type walled struct {
	*fixture
	tenants []uuid.UUID
}

func setupWalled(t *testing.T, shared int) walled {
	t.Helper()
	w := walled{fixture: &fixture{t: t, url: postgrestest.URL(t)}}
	w.watch = w.session()
	w.exec("CREATE TABLE things (came bigserial, name text PRIMARY KEY)")
	for i := range 3 {
		w.tenants = append(w.tenants, uuid.Must(uuid.NewV7()))
		w.exec(fmt.Sprintf("INSERT INTO tenants (tenant_id, name, created_at) VALUES ('%s', 'tenant-%d', now())", w.tenants[i], i))
	}
	w.exec("GRANT SELECT ON tenants TO orderonce_request") // the names too, for the test to look at
	config := patient(w.url)
	config.Role, config.SharedCommits, config.MaxConns = postgres.Request, shared, postgres.SharedReads+2
	w.db = open(t, config)
	return w
}

const visible = "SELECT coalesce(string_agg(name, ' ' ORDER BY name), '') FROM tenants"

// all reads what a query for many rows sees of the tenant.
func (w walled) all(tenant uuid.UUID, sql string) (seen string, err error) {
	err = w.db.Read(w.t.Context(), tenant, func(ctx context.Context, db postgres.DBTX) error {
		rows, err := db.Query(ctx, sql)
		if err != nil {
			return err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		seen = strings.Join(names, " ")
		return err
	})
	return seen, err
}

// A read sees the rows of its tenant and of no other, whatever its query forgets to say; and the connection of a query
// for many rows goes back with the transaction ended.
func TestReadSeesItsTenantAlone(t *testing.T) {
	t.Parallel()
	for _, shared := range []int{0, 1} {
		w := setupWalled(t, shared)
		for i, tenant := range append(slices.Clone(w.tenants), uuid.Nil, uuid.Must(uuid.NewV7())) {
			var want string
			if i < len(w.tenants) {
				want = fmt.Sprint("tenant-", i)
			}
			one := ask(visible)
			one.run(t.Context(), w.db, tenant)
			one.want(t, want)
			if many, err := w.all(tenant, "SELECT name FROM tenants"); err != nil || many != want {
				t.Errorf("many rows: %q, %v; want %q", many, err, want)
			}
		}
		w.wantThings()
		if n := migrationCount(t, w.watch, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND usename = current_user AND pid <> pg_backend_pid() AND state <> 'idle'`); n != 0 {
			t.Errorf("%d transactions are still open", n)
		}
	}
}

// Reads that meet share a transaction, and each is asked while its own tenant alone is named: a query that forgot to name
// its tenant sees no other's row, whomever it met.
func TestReadsThatMeetSeeTheirOwnTenantOnly(t *testing.T) {
	t.Parallel()
	w := setupWalled(t, 1)
	const own = "SELECT name FROM tenants WHERE tenant_id = $1"
	first, second, careless := ask(own, w.tenants[0]), ask(own, w.tenants[1]), ask(visible)
	stranger := ask(own, w.tenants[2]) // asks for a tenant that is not in the batch
	w.askTogether([]*inquiry{first, second, careless, stranger}, w.tenants[0], w.tenants[1], w.tenants[0], w.tenants[0])
	first.want(t, "tenant-0")
	second.want(t, "tenant-1")
	careless.want(t, "tenant-0")
	stranger.wantNothing(t)
	w.wantThings()
}

// A read writes nothing, not even through a function.
func TestReadCannotWrite(t *testing.T) {
	t.Parallel()
	f := setupWith(t, func(c *postgres.Config) { c.SharedCommits = 1 })
	f.exec("CREATE FUNCTION writes() RETURNS text LANGUAGE sql AS $$ INSERT INTO things (name) VALUES ('new') RETURNING name $$")
	w := walled{fixture: f}
	one := ask("SELECT writes()")
	one.run(t.Context(), f.db, uuid.Nil)
	_, many := w.all(uuid.Nil, "SELECT writes()")
	_, inserted := w.all(uuid.Nil, "INSERT INTO things (name) VALUES ('new') RETURNING name")
	exec := f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		_, err := db.Exec(ctx, "INSERT INTO things (name) VALUES ('new')")
		return err
	})
	for name, err := range map[string]error{"one row": one.err, "many rows": many, "an INSERT": inserted} {
		if pe, ok := errors.AsType[*pgconn.PgError](err); !ok || pe.Code != "25006" {
			t.Errorf("%s: %v, want a read-only transaction", name, err)
		}
	}
	if exec == nil {
		t.Error("a read executes a statement")
	}
	f.wantThings()
}
