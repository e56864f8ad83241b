package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

// setupProxied lets the pool, of one connection, reach the database through a proxy.
func setupProxied(t *testing.T) (*fixture, *postgrestest.Proxy) {
	t.Helper()
	var p *postgrestest.Proxy
	f := setupWith(t, func(c *postgres.Config) {
		p, c.URL = postgrestest.ThroughProxy(t, c.URL)
		c.MaxConns = 1
	})
	return f, p
}

// The price of a unit is what the whole product is built around: BEGIN with everything that it writes, and COMMIT.
// Statements are prepared when their connection first meets them, so the first unit costs more.
func TestUnitThatOnlyStagesCostsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	f, p := setupProxied(t)
	run := func(names ...thing) int {
		unit := postgres.Unit{First: []postgres.Staged{{Kind: early, Row: names[0]}}}
		return p.Count(func() { f.mustTx(unit, stage(middle, names[1:]...)) })
	}
	run("a", "b")
	for _, names := range [][]thing{{"c"}, {"d", "e"}, {"f", "g", "h", "i", "j"}} {
		if trips := fewest(func(try string) int {
			for i := range names {
				names[i] += thing(try)
			}
			return run(names...)
		}); trips != 2 {
			t.Errorf("%d rows cost %d round trips", len(names), trips)
		}
	}
}

// What reads or locks pays a trip for each thing that it asks, and one to open the transaction.
func TestOpenUnitCostsOneRoundTripMoreAndOneForEachStatement(t *testing.T) {
	t.Parallel()
	f, p := setupProxied(t)
	run := func(try string, statements int) int {
		unit := postgres.Unit{First: []postgres.Staged{{Kind: early, Row: thing("a" + try)}}}
		return p.Count(func() {
			f.mustTx(unit, func(ctx context.Context, tx *postgres.Tx) error {
				db, err := tx.DB(ctx)
				if err != nil {
					return err
				}
				for range statements {
					if _, err := db.Exec(ctx, "SELECT 1"); err != nil {
						return err
					}
				}
				tx.Stage(middle, thing("b"+try))
				return nil
			})
		})
	}
	run("warm", 1)
	for _, statements := range []int{0, 1, 3} {
		if trips := fewest(func(try string) int { return run(string(rune('0'+statements))+try, statements) }); trips != 3+statements {
			t.Errorf("open, %d statements, rows and COMMIT cost %d round trips", statements, trips)
		}
	}
}

// fewest takes the best of three: the pool pings a connection that has rested for a second, which a busy machine may
// well let it do.
func fewest(run func(try string) int) int {
	best := run("1")
	for _, try := range []string{"2", "3"} {
		best = min(best, run(try))
	}
	return best
}

// Trap 2: literals would fill a statement cache with texts that come once. Only typed statements are prepared, and
// each once a connection.
func TestOnlyTypedStatementsArePrepared(t *testing.T) {
	t.Parallel()
	f := setupWith(t, func(c *postgres.Config) { c.MaxConns = 1 })
	for i, name := range []thing{"a", "b", "c"} {
		unit := postgres.Unit{LockTimeout: patience + time.Duration(i)*time.Second, Open: i > 0}
		f.mustTx(unit, stage(middle, name))
	}
	var prepared []string
	err := f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		return db.QueryRow(ctx, "SELECT array_agg(statement) FROM pg_prepared_statements").Scan(&prepared)
	})
	if err != nil || len(prepared) != 2 { // the row's and this one
		t.Errorf("prepared are %q, %v", prepared, err)
	}
}
