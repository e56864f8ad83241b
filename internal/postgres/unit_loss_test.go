package postgres_test

import (
	"context"
	"errors"
	"testing"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

// doomed is work whose server process is gone when it ends.
func (f *fixture) doomed(then work) work {
	return func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		var pid int32
		if err := db.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return err
		}
		f.terminate(ctx, pid)
		return then(ctx, tx)
	}
}

// Until COMMIT is sent, a lost connection is a rollback for sure: the unit may be run again.
func TestConnectionLostBeforeCommitIsTransient(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]work{
		"rows to send": stage(middle, "new"),
		"an offer": func(ctx context.Context, tx *postgres.Tx) error {
			kept, err := tx.Offer(ctx, middle, thing("new"))
			if kept {
				t.Error("the offer is kept by a dead connection")
			}
			return err
		},
		"a statement of the work": func(ctx context.Context, tx *postgres.Tx) error {
			db, err := tx.DB(ctx)
			if err != nil {
				return err
			}
			return thing("new").Write(ctx, db)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			err := f.inTx(postgres.Unit{First: []postgres.Staged{{Kind: early, Row: thing("claim")}}}, f.doomed(then))
			if !errors.Is(err, postgres.ErrTransient) || errors.Is(err, postgres.ErrCommitUnknown) {
				t.Errorf("error %v, want transient", err)
			}
			wantFault(t, err, fault.Unavailable)
			wantPause(t, err)
			f.wantThings()
			f.mustTx(postgres.Unit{}, stage(middle, "again"))
			f.wantThings("again")
		})
	}
}

// From COMMIT on nobody knows, and a unit that says "done" or "rolled back" would guess. The FATAL of a server that
// ends arrives like an error of the statement (trap 5), a cut connection like any other.
func TestFailedCommitIsUnknown(t *testing.T) {
	t.Parallel()
	// A deferred constraint runs inside COMMIT.
	inCommit := func(f *fixture, statement string) {
		f.exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + statement + "; RETURN NULL; END $$")
		f.exec("CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON things DEFERRABLE INITIALLY DEFERRED " +
			"FOR EACH ROW EXECUTE FUNCTION refuse()")
	}
	for name, c := range map[string]struct {
		prepare func(f *fixture, p *postgrestest.Proxy)
		work    func(f *fixture) work
		want    []string
	}{
		"the server process is gone": {
			func(*fixture, *postgrestest.Proxy) {}, func(f *fixture) work { return f.doomed(stage(middle)) }, nil,
		},
		"the server ends while it commits": {
			func(f *fixture, _ *postgrestest.Proxy) { inCommit(f, "PERFORM pg_terminate_backend(pg_backend_pid())") },
			func(*fixture) work { return stage(middle, "new") }, nil,
		},
		"the server refuses to commit": {
			func(f *fixture, _ *postgrestest.Proxy) { inCommit(f, "RAISE EXCEPTION 'no'") },
			func(*fixture) work { return stage(middle, "new") }, nil,
		},
		"COMMIT is lost": {
			func(_ *fixture, p *postgrestest.Proxy) { p.AtCommit(postgrestest.Lost) }, func(*fixture) work { return stage(middle, "new") }, nil,
		},
		"the answer is lost": {
			func(_ *fixture, p *postgrestest.Proxy) { p.AtCommit(postgrestest.Unanswered) },
			func(*fixture) work { return stage(middle, "new") },
			[]string{"claim", "new"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, p := setupProxied(t)
			c.prepare(f, p)
			err := f.inTx(postgres.Unit{First: []postgres.Staged{{Kind: early, Row: thing("claim")}}}, c.work(f))
			if !errors.Is(err, postgres.ErrCommitUnknown) || errors.Is(err, postgres.ErrTransient) {
				t.Errorf("error %v, want the outcome to be unknown", err)
			}
			wantFault(t, err, fault.OutcomeUnknown)
			wantPause(t, err)
			migrationPoll(t, "the transaction to end", func() bool {
				return migrationCount(t, f.watch, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "+
					"AND pid <> pg_backend_pid() AND xact_start IS NOT NULL") == 0
			})
			f.wantThings(c.want...)
		})
	}
}

// PostgreSQL answers the COMMIT of an aborted transaction with ROLLBACK, which is no error of its own. Work that
// overlooks the error of a statement must not be told that it is done.
func TestCommitOfAnAbortedTransactionIsAnError(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]work{"nothing to send": stage(late), "rows to send": stage(late, "new")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			unit := postgres.Unit{First: []postgres.Staged{{Kind: early, Row: thing("claim")}}}
			overlook := func(ctx context.Context, tx *postgres.Tx) error {
				db, err := tx.DB(ctx)
				if err != nil {
					return err
				}
				if _, err := db.Exec(ctx, "SELECT 1/0"); err == nil {
					t.Error("the statement does not fail")
				}
				return nil
			}
			err := f.inTx(unit, func(ctx context.Context, tx *postgres.Tx) error {
				return errors.Join(overlook(ctx, tx), then(ctx, tx))
			})
			if err == nil || errors.Is(err, postgres.ErrCommitUnknown) {
				t.Errorf("error %v, want a rollback that is known", err)
			}
			f.wantThings()
			// Undo is the way back to a sound transaction, for a rejection that is to be stored.
			f.mustTx(unit, func(ctx context.Context, tx *postgres.Tx) error {
				err := overlook(ctx, tx)
				tx.Undo()
				return err
			})
			f.wantThings("claim")
		})
	}
}

// A unit whose context ends is rolled back, and its connection does not come back to life in another's hands.
func TestCancelledUnitIsUndone(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, unit postgres.Unit) {
		t.Helper()
		unit.First, unit.LockTimeout = []postgres.Staged{{Kind: early, Row: thing("claim")}}, patience
		ctx, cancel := context.WithCancel(t.Context())
		err := f.db.InTx(ctx, unit, func(ctx context.Context, tx *postgres.Tx) error {
			cancel()
			return stage(middle, "new")(ctx, tx)
		})
		wantFault(t, err, fault.Busy)
		f.wantThings()
		f.mustTx(unit, stage(middle, "again"))
		f.wantThings("claim", "again")
	})
}
