package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
)

// shared is a thing that can be part of a shared commit.
type shared struct{ thing }

func (s shared) LockOrder() string { return string(s.thing) }

func (s shared) Undo(ctx context.Context, db postgres.DBTX) error {
	_, err := db.Exec(ctx, "DELETE FROM things WHERE name = $1", string(s.thing))
	return err
}

// gated is a shared thing whose commit is under way until the gate is opened.
type gated struct {
	shared
	reached func()
	open    <-chan struct{}
}

func (g gated) Write(ctx context.Context, db postgres.DBTX) error {
	g.reached()
	<-g.open
	return g.shared.Write(ctx, db)
}

// gate begins a commit and holds it until open is called; what comes meanwhile waits for the next one.
func (f *fixture) gate() (open func()) {
	f.t.Helper()
	reached, opened := make(chan struct{}), make(chan struct{})
	done := f.begin(func(_ context.Context, tx *postgres.Tx) error {
		tx.Stage(early, gated{shared{"gate"}, sync.OnceFunc(func() { close(reached) }), opened})
		return nil
	})
	<-reached
	open = sync.OnceFunc(func() {
		close(opened)
		if err := <-done; err != nil {
			f.t.Error(err)
		}
	})
	f.t.Cleanup(open) // a test that has failed must not leave it shut
	return open
}

// check is a row that only looks whether a thing is there.
type check struct{ shared }

func (c check) Write(ctx context.Context, db postgres.DBTX) error {
	_, err := db.Exec(ctx, "SELECT FROM things WHERE name = $1", string(c.thing))
	return err
}

func (check) Undo(context.Context, postgres.DBTX) error { return nil }

var checked = &postgres.Kind{Name: "checked", Rank: 0, Check: true, Busy: fault.Busy}

func setupShared(t *testing.T) *fixture {
	t.Helper()
	return setupWith(t, func(c *postgres.Config) { c.SharedCommits = 1 })
}

// share is work that stages sharable rows of one kind.
func share(kind *postgres.Kind, names ...thing) work {
	return func(_ context.Context, tx *postgres.Tx) error {
		for _, name := range names {
			tx.Stage(kind, shared{name})
		}
		return nil
	}
}

// together lets units meet in one shared commit: the first commit is held at its gate until all the others wait.
func (f *fixture) together(units ...work) []error {
	f.t.Helper()
	open := f.gate()
	var rest []<-chan error
	for i, unit := range units {
		rest = append(rest, f.begin(unit))
		migrationPoll(f.t, "the unit to wait", func() bool { return f.db.Sharing() == i+1 })
	}
	open()
	var errs []error
	for _, done := range rest {
		errs = append(errs, <-done)
	}
	return errs
}

func (f *fixture) begin(unit work) <-chan error {
	done := make(chan error, 1)
	go func() {
		done <- f.db.InTx(f.t.Context(), postgres.Unit{LockTimeout: patience}, unit)
	}()
	return done
}

func wantAllCommitted(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Errorf("unit %d: %v", i, err)
		}
	}
}

// transactions is in how many transactions the things came that are there.
func (f *fixture) transactions() int {
	f.t.Helper()
	return migrationCount(f.t, f.watch, "SELECT count(DISTINCT xmin::text) FROM things")
}

// What waits while one commit is under way is the next one, whole.
func TestUnitsShareACommit(t *testing.T) {
	t.Parallel()
	f := setupShared(t)
	wantAllCommitted(t, f.together(share(late, "e"), share(early, "b", "a"), share(middle, "d", "c")))
	f.wantThings("gate", "a", "b", "c", "d", "e") // in one lock order
	if n := f.transactions(); n != 2 {
		t.Errorf("%d transactions, want the gate's and the shared one", n)
	}
}

// A refused unit leaves nothing of itself, and takes nothing from the others.
func TestRefusedUnitLeavesTheSharedCommit(t *testing.T) {
	t.Parallel()
	f := setupShared(t)
	f.mustTx(postgres.Unit{}, share(early, "taken"))
	twoKinds := func(_ context.Context, tx *postgres.Tx) error {
		tx.Stage(early, shared{"mine"})
		tx.Stage(middle, shared{"taken"})
		tx.Stage(late, shared{"mine too"})
		return nil
	}
	errs := f.together(share(early, "a"), twoKinds, share(late, "b"))
	wantRefused(t, errs[1], middle)
	wantAllCommitted(t, slices.Delete(errs, 1, 2))
	f.wantThings("taken", "gate", "a", "b")
}

func TestSharedCommitOfRefusedUnitsAlone(t *testing.T) {
	t.Parallel()
	f := setupShared(t)
	f.mustTx(postgres.Unit{}, share(early, "taken"))
	for _, err := range f.together(share(early, "taken", "x"), share(late, "taken", "y")) {
		if postgres.RefusedBy(err) == nil {
			t.Errorf("error %v, want a refusal", err)
		}
	}
	f.wantThings("taken", "gate")
}

// Of two units that want the same row one is kept, and the other is told so.
func TestSharedCommitKeepsOneOfTwoRivals(t *testing.T) {
	t.Parallel()
	f := setupShared(t)
	errs := f.together(share(early, "wanted", "first's"), share(early, "wanted", "second's"))
	kept := 0
	for _, err := range errs {
		if err == nil {
			kept++
		} else {
			wantRefused(t, err, early)
		}
	}
	if kept != 1 {
		t.Errorf("%d rivals were kept: %v", kept, errs)
	}
	if n := migrationCount(t, f.watch, "SELECT count(*) FROM things"); n != 3 {
		t.Errorf("%d things, want the gate, the one wanted and its unit's other one", n)
	}
}

// A unit whose statement fails runs alone and gets its own error; the others never see it.
func TestFailingUnitIsIsolated(t *testing.T) {
	t.Parallel()
	f := setupShared(t)
	f.exec("ALTER TABLE things ADD CHECK (name <> 'poison')")
	errs := f.together(share(early, "a"), share(middle, "poison", "with it"), share(late, "b"))
	if errs[1] == nil || postgres.RefusedBy(errs[1]) != nil {
		t.Errorf("the poisoned unit: %v", errs[1])
	}
	wantAllCommitted(t, slices.Delete(errs, 1, 2))
	f.wantThings("gate", "a", "b")
}

// Past a few failures all run alone, and each gets what it would have got alone.
func TestManyFailingUnits(t *testing.T) {
	t.Parallel()
	f := setupShared(t)
	f.exec("ALTER TABLE things ADD CHECK (name NOT LIKE 'poison%')")
	var units []work
	for i := range 20 {
		name := thing(fmt.Sprintf("sound %02d", i))
		if i%2 == 1 {
			name = thing(fmt.Sprintf("poison %02d", i))
		}
		units = append(units, share(early, name))
	}
	for i, err := range f.together(units...) {
		if (err != nil) != (i%2 == 1) {
			t.Errorf("unit %d: %v", i, err)
		}
	}
	if n := migrationCount(t, f.watch, "SELECT count(*) FROM things"); n != 11 {
		t.Errorf("%d things, want the gate and 10 sound ones", n)
	}
}

// A unit that must wait for another transaction waits alone, up to its own bound; the others go on.
func TestWaitingUnitHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	f := setupShared(t)
	release := f.hold("held")
	open := f.gate()
	waits := f.begin(share(early, "held"))
	migrationPoll(t, "the unit to wait", func() bool { return f.db.Sharing() == 1 })
	goes := f.begin(share(early, "free"))
	migrationPoll(t, "the unit to wait", func() bool { return f.db.Sharing() == 2 })
	open()
	if err := <-goes; err != nil { // while the row is held
		t.Fatal(err)
	}
	f.waiting(1)
	release()
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	if n := migrationCount(t, f.watch, "SELECT count(*) FROM things"); n != 3 {
		t.Errorf("%d things, want the gate, the free one and the held one", n)
	}
}

// Units that make the same check make it once, and are refused together.
func TestEqualChecksAreOne(t *testing.T) {
	t.Parallel()
	f := setupShared(t)
	f.mustTx(postgres.Unit{}, share(early, "there"))
	looking := func(for_, name thing) work {
		return func(_ context.Context, tx *postgres.Tx) error {
			tx.Stage(checked, check{shared{for_}})
			tx.Stage(late, shared{name})
			return nil
		}
	}
	errs := f.together(looking("there", "a"), looking("missing", "b"), looking("there", "c"), looking("missing", "d"))
	wantRefused(t, errs[1], checked)
	wantRefused(t, errs[3], checked)
	wantAllCommitted(t, []error{errs[0], errs[2]})
	f.wantThings("there", "gate", "a", "c")
}

// A row that cannot be taken back keeps its unit out of shared commits, and no other.
func TestUnsharableUnitCommitsAlone(t *testing.T) {
	t.Parallel()
	f := setupShared(t)
	open := f.gate()
	if err := <-f.begin(stage(early, "alone")); err != nil {
		t.Fatal(err)
	}
	open()
	f.wantThings("alone", "gate")
}

// Where more wait than a commit holds, the tenants take turns: a flood does not keep another tenant out of the next.
func TestTenantsTakeTurnsInSharedCommits(t *testing.T) {
	t.Parallel()
	f := setupShared(t)
	var units []work
	for i := range 3 * postgres.SharedUnits {
		units = append(units, share(early, thing(fmt.Sprintf("flood %03d", i))))
	}
	open := f.gate()
	flood, other := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	done := make(chan error, len(units)+1)
	of := func(tenant uuid.UUID, unit work) {
		go func() {
			done <- f.db.InTx(t.Context(), postgres.Unit{Tenant: tenant, LockTimeout: patience}, unit)
		}()
	}
	for _, unit := range units {
		of(flood, unit)
	}
	migrationPoll(t, "the flood to wait", func() bool { return f.db.Sharing() == len(units) })
	of(other, share(early, "other"))
	migrationPoll(t, "the other tenant to wait", func() bool { return f.db.Sharing() == len(units)+1 })
	open()
	for range len(units) + 1 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	rank := migrationCount(t, f.watch, `SELECT rank FROM (
		SELECT commit, dense_rank() OVER (ORDER BY first) AS rank FROM (
			SELECT xmin::text AS commit, min(came) AS first FROM things GROUP BY 1
		) AS commits
	) AS ranked JOIN things ON things.xmin::text = ranked.commit WHERE name = 'other'`)
	if rank != 2 {
		t.Errorf("the other tenant was in commit %d, want the first after the gate's", rank)
	}
}

// A unit does not wait past its own bound for a commit that others hold up, and then was never written.
func TestUnitLeavesTheLineAtItsBound(t *testing.T) {
	t.Parallel()
	f := setupShared(t)
	open := f.gate()
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.db.InTx(ctx, postgres.Unit{LockTimeout: patience}, share(early, "late")) }()
	migrationPoll(t, "the unit to wait", func() bool { return f.db.Sharing() == 1 })
	giveUp()
	wantFault(t, <-done, fault.Busy)
	open()
	f.wantThings("gate")
}

// A connection lost before the COMMIT has rolled all units back; each may run again.
func TestLostConnectionRollsTheSharedCommitBack(t *testing.T) {
	t.Parallel()
	f := setupShared(t)
	release := f.hold("held")
	defer release()
	done := f.begin(share(early, "held"))
	f.terminate(t.Context(), f.waiting(1)[0])
	if err := <-done; fault.KindOf(err) != fault.Unavailable {
		t.Errorf("error %v, want unavailable", err)
	}
	if n := migrationCount(t, f.watch, "SELECT count(*) FROM things"); n != 0 {
		t.Errorf("%d things are there", n)
	}
}

// Where a crowd waits behind a commit under way, another one begins beside it.
func TestSecondSharedCommitBesideTheFirst(t *testing.T) {
	t.Parallel()
	f := setupWith(t, func(c *postgres.Config) { c.SharedCommits = 2 })
	open := f.gate()
	var done []<-chan error
	for i := range postgres.SharedCrowd {
		migrationPoll(t, "the units before to wait", func() bool { return f.db.Sharing() == i })
		done = append(done, f.begin(share(early, thing(fmt.Sprintf("unit %02d", i)))))
	}
	for _, d := range done {
		if err := <-d; err != nil { // while the first commit is held
			t.Error(err)
		}
	}
	open()
	if n := migrationCount(t, f.watch, "SELECT count(*) FROM things"); n != postgres.SharedCrowd+1 {
		t.Errorf("%d things", n)
	}
}
