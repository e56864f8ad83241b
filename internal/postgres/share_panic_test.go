package postgres_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
)

// A bug in one module's row must not end the process, which serves all others, nor let anybody wait for ever. Whoever
// shared a commit with it does not know the outcome, and finds out by running again.

// explosive is a shared thing that panics when it is written, or taken back.
type explosive struct {
	shared
	onUndo bool
}

func (e explosive) Write(ctx context.Context, db postgres.DBTX) error {
	if !e.onUndo {
		panic("a bug in Write")
	}
	return e.shared.Write(ctx, db)
}

func (e explosive) Undo(context.Context, postgres.DBTX) error { panic("a bug in Undo") }

func TestPanickingRowLeavesTheOthersAnswered(t *testing.T) {
	t.Parallel()
	panics := func(row explosive, more ...thing) work {
		return func(_ context.Context, tx *postgres.Tx) error {
			tx.Stage(early, row)
			for _, name := range more {
				tx.Stage(late, shared{name})
			}
			return nil
		}
	}
	for name, units := range map[string][]work{
		"written":    {share(early, "a"), panics(explosive{shared: shared{"bug"}}), share(early, "c")},
		"taken back": {share(early, "a"), panics(explosive{shared{"bug"}, true}, "taken"), share(early, "c")},
		// By then the batch is not the one that it was.
		"taken back, after another has left": {
			share(early, "a"), share(early, "poison"), panics(explosive{shared{"bug"}, true}, "taken"), share(early, "c"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setupShared(t)
			f.exec("ALTER TABLE things ADD CHECK (name <> 'poison')")
			f.mustTx(postgres.Unit{}, share(early, "taken"))
			errs := f.together(units...)
			if len(units) == 4 {
				if err := errs[1]; err == nil || errors.Is(err, postgres.ErrCommitUnknown) {
					t.Errorf("the one that left got %v", err)
				}
				errs = slices.Delete(errs, 1, 2)
			}
			for _, err := range errs {
				if !errors.Is(err, postgres.ErrCommitUnknown) {
					t.Errorf("error %v, want an unknown outcome", err)
				}
				wantFault(t, err, fault.OutcomeUnknown)
			}
			f.wantThings("taken", "gate")
			f.mustTx(postgres.Unit{}, share(early, "after"))
			f.wantThings("taken", "gate", "after")
		})
	}
}

// explodes is a destination that panics.
type explodes struct{}

func (explodes) Scan(any) error { panic("a bug in Scan") }

// A read has no outcome that could be unknown: the panic is an internal fault of all that shared it.
func TestPanickingReadLeavesTheOthersAnswered(t *testing.T) {
	t.Parallel()
	f := setupSharedReads(t)
	open := f.readGate()
	errs := make(chan error, 2)
	go func() {
		errs <- f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
			return db.QueryRow(ctx, "SELECT 'x'").Scan(explodes{})
		})
	}()
	migrationPoll(t, "the read to wait", func() bool { return f.db.Reading() == 1 })
	go func() {
		q := ask("SELECT 'behind'")
		q.run(t.Context(), f.db, uuid.Nil)
		errs <- q.err
	}()
	migrationPoll(t, "the read to wait", func() bool { return f.db.Reading() == 2 })
	open()
	for range 2 {
		if err := <-errs; err == nil || fault.KindOf(err) != fault.Internal || errors.Is(err, postgres.ErrCommitUnknown) {
			t.Errorf("error %v, want an internal fault", err)
		}
	}
	after := ask("SELECT 'after'")
	after.run(t.Context(), f.db, uuid.Nil)
	after.want(t, "after")
	f.wantThings()
}

// A read whose time ends while it waits for others is taken out of the line, and never sent.
func TestReadLeavesTheLineAtItsBound(t *testing.T) {
	t.Parallel()
	f := setupSharedReads(t)
	open := f.readGate()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	q := ask("SELECT pg_advisory_lock(2)::text") // which the session would keep
	q.run(ctx, f.db, uuid.Nil)
	q.wantNothing(t)
	wantFault(t, q.err, fault.Busy)
	if n := f.db.Reading(); n != 0 {
		t.Errorf("%d reads still wait", n)
	}
	open()
	if n := migrationCount(t, f.watch, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 2"); n != 0 {
		t.Error("it was sent nevertheless")
	}
	f.wantThings()
}
