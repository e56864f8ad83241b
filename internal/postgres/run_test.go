package postgres_test

import (
	"context"
	"errors"
	"testing"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

// run counts how often work runs.
func (f *fixture) run(ctx context.Context, work work) (runs int, err error) {
	f.t.Helper()
	err = f.db.Run(ctx, postgres.Unit{LockTimeout: patience}, func(ctx context.Context, tx *postgres.Tx) error {
		runs++
		return work(ctx, tx)
	})
	return runs, err
}

// putting is work that is recognised by its own row.
func putting(name thing, found *bool) work {
	return func(ctx context.Context, tx *postgres.Tx) error {
		kept, err := tx.Offer(ctx, middle, name)
		*found = !kept
		return err
	}
}

var orderRow = &postgres.Kind{Name: "order", Rank: postgres.RankOrder, Busy: fault.CheckoutInProgress}

// A staged row that was refused is looked at once more, in a transaction that survives it.
func TestRunOpensTheUnitAfterARefusal(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.exec("INSERT INTO things (name) VALUES ('taken')")
	kept := true
	runs, err := f.run(t.Context(), func(ctx context.Context, tx *postgres.Tx) (err error) {
		kept, err = tx.Offer(ctx, orderRow, thing("taken"))
		return err
	})
	if err != nil || runs != 2 || kept {
		t.Errorf("after %d runs: kept is %v, %v", runs, kept, err)
	}
	// A row that is refused even then, for nobody asked, ends it.
	runs, err = f.run(t.Context(), stage(orderRow, "taken"))
	wantRefused(t, err, orderRow)
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
	f.wantThings("taken")
}

// What PostgreSQL rolled back for a reason of its own is run again, and again, but not for ever.
func TestRunIsBounded(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.exec("CREATE FUNCTION fail() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$")
	runs, err := f.run(t.Context(), func(_ context.Context, tx *postgres.Tx) error {
		tx.Stage(early, thing("new"))
		tx.Stage(middle, statement("SELECT fail()"))
		return nil
	})
	wantFault(t, err, fault.Busy)
	if runs != postgres.MaxTries {
		t.Errorf("%d runs, want %d", runs, postgres.MaxTries)
	}
	f.wantThings()
}

// An error of the work itself says nothing that another run would change.
func TestRunEndsWithTheWorksError(t *testing.T) {
	t.Parallel()
	f := setup(t)
	broken := errors.New("broken")
	runs, err := f.run(t.Context(), func(context.Context, *postgres.Tx) error { return broken })
	if !errors.Is(err, broken) || runs != 1 {
		t.Errorf("after %d runs: %v", runs, err)
	}
}

// Case 12: once begun, the unit ends without its caller.
func TestRunGoesOnWithoutItsCaller(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := f.run(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		cancel()
		return stage(middle, "new")(ctx, tx)
	})
	if err != nil {
		t.Error(err)
	}
	f.wantThings("new")
}

// Case 3 without a key: after an unanswered COMMIT the next run finds the row, or makes it.
func TestRunFindsWhatAnUnansweredCommitDid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		commit postgrestest.Fate
		found  bool
	}{"lost on its way": {postgrestest.Lost, false}, "arrived, not answered": {postgrestest.Unanswered, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, p := setupProxied(t)
			p.AtCommit(c.commit)
			var found bool
			runs, err := f.run(t.Context(), func(ctx context.Context, tx *postgres.Tx) error {
				if _, err := tx.DB(ctx); err != nil {
					return err
				}
				return putting("new", &found)(ctx, tx)
			})
			if err != nil || runs != 2 || found != c.found {
				t.Errorf("after %d runs: found is %v, %v", runs, found, err)
			}
			f.wantThings("new")
		})
	}
}

// Where no later run can ask, the COMMIT is still unknown: "unavailable" would say that nothing happened.
func TestRunDoesNotForgetAnUnansweredCommit(t *testing.T) {
	t.Parallel()
	f, p := setupProxied(t)
	p.AtCommit(p.Last)
	_, err := f.run(t.Context(), stage(middle, "new"))
	wantFault(t, err, fault.OutcomeUnknown)
	wantPause(t, err)
	migrationPoll(t, "the COMMIT to have its effect", func() bool {
		return migrationCount(t, f.watch, "SELECT count(*) FROM things") == 1
	})
}
