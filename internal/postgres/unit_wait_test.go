package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
)

// brief is a bound that a test waits out.
const brief = 20 * time.Millisecond

// A row that another transaction holds is waited for up to the bound. Then the unit ends with the fault of the kind
// that waited, the other still holding it, and the connection is free.
func TestLockTimeoutIsTheFaultOfTheRowThatWaited(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first bool
		work  work
		want  fault.Kind
	}{
		"first row": {true, stage(late, "new"), fault.InProgress},
		"staged row": {false, func(_ context.Context, tx *postgres.Tx) error {
			tx.Stage(late, thing("new"))
			tx.Stage(middle, thing("held"))
			return nil
		}, fault.CheckoutInProgress},
		"offered row": {false, func(ctx context.Context, tx *postgres.Tx) error {
			if _, err := tx.DB(ctx); err != nil {
				return err
			}
			_, err := tx.Offer(ctx, middle, thing("held"))
			return err
		}, fault.CheckoutInProgress},
		// No row waits: all that can be said is that something was busy.
		"statement of the work": {false, func(ctx context.Context, tx *postgres.Tx) error {
			db, err := tx.DB(ctx)
			if err != nil {
				return err
			}
			return thing("held").Write(ctx, db)
		}, fault.Busy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			release := f.hold("held")
			unit := postgres.Unit{LockTimeout: brief}
			if c.first {
				unit.First = []postgres.Staged{{Kind: early, Row: thing("held")}}
			}
			err := f.inTx(unit, c.work)
			wantFault(t, err, c.want)
			wantPause(t, err)
			if errors.Is(err, postgres.ErrTransient) {
				t.Error("the unit would be run again, and wait again")
			}
			f.wantThings()
			release()
			f.mustTx(postgres.Unit{}, stage(middle, "held"))
			f.wantThings("held")
		})
	}
}

// Nobody waits for ever: a bound that was left out, or is less than PostgreSQL can count, is a short one.
func TestNoLockTimeoutIsAShortOne(t *testing.T) {
	t.Parallel()
	f := setup(t)
	release := f.hold("held")
	for _, bound := range []time.Duration{0, time.Nanosecond, -time.Second} {
		wantFault(t, f.db.InTx(t.Context(), postgres.Unit{LockTimeout: bound}, stage(middle, "held")), fault.CheckoutInProgress)
	}
	release()
	f.wantThings()
}

// First rows may have a bound of their own, which is not the work's.
func TestFirstRowsHaveTheirOwnLockTimeout(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, unit postgres.Unit) {
		t.Helper()
		release := f.hold("held")
		unit.First = []postgres.Staged{{Kind: early, Row: thing("held")}}
		unit.FirstTimeout, unit.LockTimeout = brief, patience
		wantFault(t, f.inTx(unit, stage(late, "new")), fault.InProgress)

		unit.First[0].Row = thing("claim")
		unit.FirstTimeout, unit.LockTimeout = patience, brief
		wantFault(t, f.inTx(unit, stage(middle, "held")), fault.CheckoutInProgress)
		release()
		f.wantThings()
	})
}

// A refusal is decided when the holder ends, not before. After its rollback one of those that waited owns the row, and
// the others are refused by that one.
func TestWaitingRowIsDecidedByTheHolder(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, unit postgres.Unit) {
		t.Helper()
		release := f.hold("wanted")
		unit.LockTimeout = patience
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- f.db.InTx(t.Context(), unit, stage(middle, "wanted")) }()
		}
		f.waiting(2)
		release() // rolls back
		one, two := <-done, <-done
		if one != nil {
			one, two = two, one
		}
		if one != nil {
			t.Errorf("error %v of the row that nobody holds any more", one)
		}
		wantRefused(t, two, middle)
		f.wantThings("wanted")
	})
}

// PostgreSQL parts two units that wait for each other by failing one. That one may be run again.
func TestDeadlockIsTransient(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var group errgroup.Group
	errs := make([]error, 2)
	ready, met := make(chan struct{}), make(chan struct{})
	for i, names := range [][2]thing{{"a", "b"}, {"b", "a"}} {
		group.Go(func() error {
			unit := postgres.Unit{Open: true, LockTimeout: patience}
			errs[i] = f.db.InTx(t.Context(), unit, func(ctx context.Context, tx *postgres.Tx) error {
				if _, err := tx.Offer(ctx, middle, names[0]); err != nil {
					return err
				}
				ready <- struct{}{}
				<-met
				kept, err := tx.Offer(ctx, middle, names[1])
				if err == nil && !kept {
					t.Error("refused by a unit that was rolled back")
				}
				return err
			})
			return nil
		})
	}
	<-ready
	<-ready
	close(met)
	_ = group.Wait()
	failed := errors.Join(errs...)
	if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(failed, postgres.ErrTransient) {
		t.Errorf("the units end with %v and %v, want one as transient", errs[0], errs[1])
	}
	wantFault(t, failed, fault.Busy)
	wantPause(t, failed)
	if things := migrationCount(t, f.watch, "SELECT count(*) FROM things"); things != 2 {
		t.Errorf("%d rows, want the two of the unit that went on", things)
	}
}

// The pool is bounded, and so is the wait for it. Whoever waits in vain has changed nothing and may come back.
func TestExhaustedPoolIsBusy(t *testing.T) {
	t.Parallel()
	f := setupWith(t, func(c *postgres.Config) { c.MaxConns, c.Acquire = 1, 5*brief })
	release := f.under(postgres.Unit{})
	for name, ask := range map[string]func() error{
		"unit":      func() error { return f.inTx(postgres.Unit{}, stage(middle, "new")) },
		"open unit": func() error { return f.inTx(postgres.Unit{Open: true}, stage(middle, "new")) },
		"ping":      func() error { return f.db.Ping(t.Context()) },
		"read": func() error {
			return f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
				return db.QueryRow(ctx, "SELECT 1").Scan(new(int))
			})
		},
	} {
		err := ask()
		if fault.KindOf(err) != fault.Busy {
			t.Errorf("%s: error %v", name, err)
		}
		wantPause(t, err)
	}
	if n := f.db.Stat().AcquiredConns(); n != 1 {
		t.Errorf("%d connections are in use, want the unit's", n)
	}
	release()
	f.wantThings()
}

// statement_timeout ends what lock_timeout does not see.
func TestStatementThatTakesTooLongIsBusy(t *testing.T) {
	t.Parallel()
	f := setupWith(t, func(c *postgres.Config) { c.Statement = 5 * brief })
	f.exec("SELECT pg_advisory_lock(1)")
	err := f.inTx(postgres.Unit{}, func(_ context.Context, tx *postgres.Tx) error {
		tx.Stage(early, thing("new"))
		tx.Stage(middle, statement("SELECT pg_advisory_xact_lock(1)"))
		return nil
	})
	wantFault(t, err, fault.Busy)
	f.wantThings()
}

// Every bound of Config and Unit is known to the session, in which PostgreSQL keeps it.
func TestBoundsAreSetInTheSession(t *testing.T) {
	t.Parallel()
	f := setup(t)
	// Whatever the database's own default is: a losing claim reads what the winner has committed since.
	f.exec("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', " +
		"current_database()); END $$")
	f.db.Close()
	config := patient(f.url)
	config.Statement, config.IdleInTransaction = 11*time.Second, 1500*time.Millisecond
	f.db = open(t, config)
	f.mustTx(postgres.Unit{LockTimeout: 250 * time.Millisecond, FirstTimeout: time.Second}, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		for name, want := range map[string]string{
			"statement_timeout": "11s", "idle_in_transaction_session_timeout": "1500ms", "lock_timeout": "250ms",
			"application_name": "orderonce", "transaction_isolation": "read committed",
		} {
			var got string
			if err := db.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %q, %v; want %q", name, got, err, want)
			}
		}
		return nil
	})
	// The lock time-out is the unit's own and does not stay behind on the connection.
	err := f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		var got string
		err := db.QueryRow(ctx, "SELECT current_setting('lock_timeout')").Scan(&got)
		if got != "0" {
			t.Errorf("lock_timeout is %q after the unit", got)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func wantPause(t *testing.T, err error) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.RetryAfter <= 0 {
		t.Errorf("error %v recommends no pause", err)
	}
}
