package postgres_test

import (
	"context"
	"testing"

	"orderonce/internal/postgres"
)

// hooked is a row whose unit is refused for another one, and which does something when it is taken back: after all
// rows have been answered and before COMMIT is sent.
type hooked struct {
	shared
	undone func()
}

func (h hooked) Undo(ctx context.Context, db postgres.DBTX) error {
	h.undone()
	return h.shared.Undo(ctx, db)
}

// A refused unit has its answer before COMMIT is sent: that the others' COMMIT has got lost is not its business. Told
// "unknown", whoever runs it would take that COMMIT for one of its own rows.
func TestRefusalOutlivesTheOthersLostCommit(t *testing.T) {
	t.Parallel()
	f := setupShared(t)
	f.mustTx(postgres.Unit{}, share(early, "taken"))
	loser := func(_ context.Context, tx *postgres.Tx) error {
		tx.Stage(early, shared{thing: "taken"})
		//nolint:contextcheck // the test's own session, not the unit's
		tx.Stage(late, hooked{shared{thing: "side"}, func() {
			f.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'")
		}})
		return nil
	}
	errs := f.together(share(middle, "a"), loser)
	wantRefused(t, errs[1], early)
	if errs[0] == nil {
		t.Error("the others' COMMIT was not lost")
	}
	f.wantThings("taken", "gate")
}
