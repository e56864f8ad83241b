package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
)

func setupSharedReads(t *testing.T) *fixture {
	t.Helper()
	return setupWith(t, func(c *postgres.Config) { c.SharedCommits, c.MaxConns = 1, postgres.SharedReads+2 })
}

// inquiry is a read of one row, into its own destination.
type inquiry struct {
	sql    string
	args   []any
	checks []postgres.Staged
	got    string
	err    error
}

func ask(sql string, args ...any) *inquiry { return &inquiry{sql: sql, args: args, got: "untouched"} }

// behind is the inquiry with the check that a thing is there.
func (q *inquiry) behind(name thing) *inquiry {
	q.checks = append(q.checks, postgres.Staged{Kind: checked, Row: check{shared{name}}})
	return q
}

func (q *inquiry) run(ctx context.Context, db *postgres.DB, tenant uuid.UUID) {
	q.err = db.Read(ctx, tenant, func(ctx context.Context, db postgres.DBTX) error {
		return db.QueryRow(ctx, q.sql, q.args...).Scan(&q.got)
	}, q.checks...)
}

// readGate lets as many reads be under way as there may be, and holds them until open is called; what comes meanwhile
// waits for the next one.
func (f *fixture) readGate() (open func()) {
	f.t.Helper()
	f.exec("SELECT pg_advisory_lock(1)")
	var held sync.WaitGroup
	for i := range postgres.SharedReads {
		held.Go(func() {
			q := ask("SELECT pg_advisory_xact_lock_shared(1)::text")
			if q.run(f.t.Context(), f.db, uuid.Nil); q.err != nil {
				f.t.Error(q.err)
			}
		})
		f.waiting(i + 1)
	}
	open = sync.OnceFunc(func() {
		f.exec("SELECT pg_advisory_unlock(1)")
		held.Wait()
	})
	f.t.Cleanup(open) // a test that has failed must not leave it shut
	return open
}

// askTogether lets inquiries, each of a tenant of its own where tenants are given, meet in one shared read.
func (f *fixture) askTogether(inquiries []*inquiry, tenants ...uuid.UUID) {
	f.t.Helper()
	open := f.readGate()
	var asked sync.WaitGroup
	for i, q := range inquiries {
		var tenant uuid.UUID
		if len(tenants) > 0 {
			tenant = tenants[i]
		}
		asked.Go(func() { q.run(f.t.Context(), f.db, tenant) })
		migrationPoll(f.t, "the read to wait", func() bool { return f.db.Reading() == i+1 })
	}
	open()
	asked.Wait()
}

func (q *inquiry) want(t *testing.T, answer string) {
	t.Helper()
	if q.err != nil || q.got != answer {
		t.Errorf("%s: %q, %v; want %q", q.sql, q.got, q.err, answer)
	}
}

// wantNothing checks that the inquiry has failed, and that its caller was given nothing.
func (q *inquiry) wantNothing(t *testing.T) {
	t.Helper()
	if q.err == nil || q.got != "untouched" {
		t.Errorf("%s: %q, %v; want an error alone", q.sql, q.got, q.err)
	}
}

// transaction is one text for the whole of one.
const transaction = "SELECT virtualtransaction FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'virtualxid'"

// What waits while others are under way is read in one transaction.
func TestReadsShareATransaction(t *testing.T) {
	t.Parallel()
	f := setupSharedReads(t)
	met := []*inquiry{ask(transaction), ask(transaction), ask(transaction)}
	f.askTogether(met)
	for _, q := range met {
		q.want(t, met[0].got)
	}
	alone := ask(transaction)
	alone.run(t.Context(), f.db, uuid.Nil)
	if alone.err != nil || alone.got == met[0].got {
		t.Errorf("a read that came later is in transaction %s, %v", alone.got, alone.err)
	}
	f.wantThings()
}

// Without shared commits there are no shared reads either: a cluster that shards by tenant would make each a distributed one.
func TestReadsShareNothingWhereCommitsDoNot(t *testing.T) {
	t.Parallel()
	f := setupWith(t, func(c *postgres.Config) { c.MaxConns = postgres.SharedReads + 2 })
	open := f.readGate()
	q := ask("SELECT 'answered'")
	q.run(t.Context(), f.db, uuid.Nil) // beside the others, which is one more than would be under way
	q.want(t, "answered")
	open()
}

// A query that fails does so alone. The others of its batch are answered, those behind it too.
func TestFailingQueryIsIsolated(t *testing.T) {
	t.Parallel()
	for name, poison := range map[string]*inquiry{
		"in its course":             ask("SELECT (1 / length($1::text))::text", ""),
		"at its preparation":        ask("SELECT name FROM nothings"),
		"at its argument":           ask("SELECT $1::int::text", "no number"),
		"at its argument's form":    ask("SELECT $1::int::text", struct{}{}),
		"at the number of them":     ask("SELECT $1::text || $2::text", "one"),
		"at its destination":        ask("SELECT 'more', 'than one'"),
		"with its own check's form": {sql: "SELECT 'x'", got: "untouched", checks: []postgres.Staged{{Kind: checked, Row: check{shared{"\x00"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setupSharedReads(t)
			f.mustTx(postgres.Unit{}, share(early, "there"))
			before, behind := ask("SELECT 'before'").behind("there"), ask("SELECT 'behind'").behind("there")
			f.askTogether([]*inquiry{before, poison, behind})
			before.want(t, "before")
			behind.want(t, "behind")
			poison.wantNothing(t)
			if fault.KindOf(poison.err) != fault.Internal {
				t.Errorf("the error of the one that failed is %v", poison.err)
			}
			f.wantThings("there")
		})
	}
}

// However many fail, each sound one is answered and each other one gets its own error.
func TestManyFailingQueries(t *testing.T) {
	t.Parallel()
	f := setupSharedReads(t)
	var all []*inquiry
	for i := range 20 {
		sql := "SELECT 'answer %d'"
		if i%2 == 1 {
			sql = "SELECT (%d / length(''))::text"
		}
		all = append(all, ask(fmt.Sprintf(sql, i)))
	}
	f.askTogether(all)
	for i, q := range all {
		if i%2 == 0 {
			q.want(t, fmt.Sprint("answer ", i))
			continue
		}
		q.wantNothing(t)
		if fault.KindOf(q.err) != fault.Internal {
			t.Errorf("%s: %v", q.sql, q.err)
		}
	}
	f.wantThings()
}

// No row is one query's own answer.
func TestNoRowStaysItsOwnQuerys(t *testing.T) {
	t.Parallel()
	f := setupSharedReads(t)
	none, some := ask("SELECT 'x' WHERE false"), ask("SELECT 'some'")
	f.askTogether([]*inquiry{none, some})
	if !errors.Is(none.err, pgx.ErrNoRows) || none.got != "untouched" {
		t.Errorf("%q, %v; want no rows", none.got, none.err)
	}
	some.want(t, "some")
}

// A check that fails refuses its own callers, who are given no row, whatever their query found.
func TestRefusedCheckGivesItsCallersNothing(t *testing.T) {
	t.Parallel()
	f := setupSharedReads(t)
	f.mustTx(postgres.Unit{}, share(early, "there"))
	sound, refused, broken := ask("SELECT 'sound'").behind("there"), ask("SELECT 'secret'").behind("missing"), ask("SELECT (1 / length(''))::text").behind("missing")
	twice, free := ask("SELECT 'secret too'").behind("there").behind("missing"), ask("SELECT 'free'")
	f.askTogether([]*inquiry{sound, refused, broken, twice, free})
	sound.want(t, "sound")
	free.want(t, "free")
	for _, q := range []*inquiry{refused, broken, twice} {
		q.wantNothing(t)
		wantRefused(t, q.err, checked)
	}
}

// A caller who was refused, or whose check was not come to, stays behind it, however often they ask.
func TestRefusedReadStaysRefused(t *testing.T) {
	t.Parallel()
	f := setupSharedReads(t)
	one := func(ctx context.Context, db postgres.DBTX) error {
		return db.QueryRow(ctx, "SELECT 'secret'").Scan(new(string))
	}
	many := func(ctx context.Context, db postgres.DBTX) error {
		rows, err := db.Query(ctx, "SELECT 'secret'")
		if err != nil {
			return err
		}
		_, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	}
	broken := func(ctx context.Context, db postgres.DBTX) error {
		_ = db.QueryRow(ctx, "SELECT name FROM nothings").Scan(new(string)) // ends before any check is looked at
		return postgres.ErrTransient
	}
	for name, asks := range map[string][]func(context.Context, postgres.DBTX) error{
		"one row": {one, one}, "many rows": {many, many}, "many, one": {many, one}, "one, many": {one, many}, "after a failure": {broken, one},
	} {
		_ = f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
			first, second := asks[0](ctx, db), asks[1](ctx, db)
			if first == nil {
				t.Errorf("%s: the first one was answered", name)
			}
			wantRefused(t, second, checked)
			return nil
		}, postgres.Staged{Kind: checked, Row: check{shared{"missing"}}})
	}
	f.wantThings()
}

// A check alone shares as well.
func TestCheckAlone(t *testing.T) {
	t.Parallel()
	f := setupSharedReads(t)
	f.mustTx(postgres.Unit{}, share(early, "there"))
	if err := f.db.Check(t.Context(), uuid.Nil, ask("").behind("there").checks...); err != nil {
		t.Error(err)
	}
	wantRefused(t, f.db.Check(t.Context(), uuid.Nil, ask("").behind("missing").checks...), checked)
	f.wantThings("there")
}

// counted is a check that counts how often it is sent.
type counted struct {
	check
	sent *atomic.Int32
}

func (c counted) Write(ctx context.Context, db postgres.DBTX) error {
	c.sent.Add(1)
	return c.check.Write(ctx, db)
}

// Reads behind the same check look at it once: a tenant's busy key costs a shared read one lookup.
func TestSharedReadsLookAtEqualChecksOnce(t *testing.T) {
	t.Parallel()
	f := setupSharedReads(t)
	f.mustTx(postgres.Unit{}, share(early, "there"))
	var sent atomic.Int32
	var all []*inquiry
	for _, name := range []thing{"there", "missing", "there", "missing", "there"} {
		q := ask("SELECT 'answer'")
		q.checks = []postgres.Staged{{Kind: checked, Row: counted{check{shared{name}}, &sent}}}
		all = append(all, q)
	}
	f.askTogether(all)
	for i, q := range all {
		if i%2 == 0 {
			q.want(t, "answer")
		} else {
			wantRefused(t, q.err, checked)
		}
	}
	if n := sent.Load(); n != 2 {
		t.Errorf("%d checks were sent, want 2", n)
	}
}
