package postgres_test

import (
	"context"
	"errors"
	"testing"

	"orderonce/internal/postgres"
)

// One lock order for the whole product: whatever order work stages in, rows are sent by ascending rank, and those of
// one rank as they were staged. First rows come before all others.
func TestRowsAreSentByAscendingRank(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, unit postgres.Unit) {
		t.Helper()
		unit.First = []postgres.Staged{{Kind: late, Row: thing("first 1")}, {Kind: early, Row: thing("first 2")}}
		f.mustTx(unit, func(_ context.Context, tx *postgres.Tx) error {
			tx.Stage(late, thing("late 1"))
			tx.Stage(early, thing("early 1"))
			tx.Stage(middle, thing("middle"))
			tx.Stage(early, thing("early 2"))
			tx.Stage(late, thing("late 2"))
			return nil
		})
		f.wantThings("first 1", "first 2", "early 1", "early 2", "middle", "late 1", "late 2")
	})
}

// Promise 2: what a unit wrote is visible together or not at all.
func TestRefusedRowUndoesTheUnitAndIsNamed(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, unit postgres.Unit) {
		t.Helper()
		f.exec("INSERT INTO things (name) VALUES ('taken'), ('taken too')")
		err := f.inTx(unit, func(_ context.Context, tx *postgres.Tx) error {
			tx.Stage(late, thing("taken too")) // refused as well, but after the other
			tx.Stage(early, thing("new"))
			tx.Stage(middle, thing("taken"))
			return nil
		})
		wantRefused(t, err, middle)
		f.wantThings("taken", "taken too")

		// A First row decides before everything else. In an open unit work is not even begun.
		unit.First = []postgres.Staged{{Kind: early, Row: thing("taken")}}
		began := false
		err = f.inTx(unit, func(_ context.Context, tx *postgres.Tx) error {
			began = true
			tx.Stage(middle, thing("taken too"))
			return nil
		})
		wantRefused(t, err, early)
		if began && unit.Open {
			t.Error("work was begun in a unit that may not happen")
		}
		f.wantThings("taken", "taken too")
	})
}

// A row that the unit itself wrote is refused like any other.
func TestSecondRowOfTheSameUnitIsRefused(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, unit postgres.Unit) {
		t.Helper()
		wantRefused(t, f.inTx(unit, stage(middle, "twice", "twice")), middle)
		f.wantThings()
	})
}

// Case 5: the refusal of an offered row leaves the transaction alive, to store in it what the refusal means.
func TestOfferInAnOpenUnitTellsTheTruth(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.exec("INSERT INTO things (name) VALUES ('taken')")
	f.mustTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx) // opens the unit as well as Unit.Open does
		if err != nil {
			return err
		}
		for name, want := range map[thing]bool{"taken": false, "free": true} {
			if kept, err := tx.Offer(ctx, middle, name); err != nil || kept != want {
				t.Errorf("%s: kept is %v, %v", name, kept, err)
			}
		}
		if kept, err := tx.Offer(ctx, middle, thing("free")); err != nil || kept {
			t.Errorf("once more: kept is %v, %v", kept, err)
		}
		var there int
		if err := db.QueryRow(ctx, "SELECT count(*) FROM things").Scan(&there); err != nil || there != 2 {
			t.Errorf("after the offers the unit sees %d, %v", there, err)
		}
		tx.Stage(late, thing("what it means"))
		return nil
	})
	f.wantThings("taken", "free", "what it means")
}

// Without a transaction there is no answer yet: the row is taken to be kept, and if it is not, the unit fails.
func TestOfferInAStagedUnitIsAnAssumption(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.exec("INSERT INTO things (name) VALUES ('taken')")
	err := f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
		kept, err := tx.Offer(ctx, middle, thing("taken"))
		if err != nil || !kept || tx.Opened() {
			t.Errorf("kept is %v, opened %v, %v", kept, tx.Opened(), err)
		}
		tx.Stage(late, thing("new"))
		return err
	})
	wantRefused(t, err, middle)
	f.wantThings("taken")
}

// Trap 7: a rejection must not commit the side write that came before it, and must be committed itself.
func TestUndoTakesBackTheWorkAndKeepsFirstRows(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, unit postgres.Unit) {
		t.Helper()
		unit.First = []postgres.Staged{{Kind: early, Row: thing("claim")}}
		f.mustTx(unit, func(ctx context.Context, tx *postgres.Tx) error {
			tx.Stage(middle, thing("staged"))
			if _, err := tx.Offer(ctx, middle, thing("offered")); err != nil {
				return err
			}
			if tx.Opened() {
				db, err := tx.DB(ctx)
				if err != nil {
					return err
				}
				if err := thing("written").Write(ctx, db); err != nil {
					return err
				}
			}
			tx.Undo()
			tx.Stage(late, thing("rejection"))
			return nil
		})
		f.wantThings("claim", "rejection")
	})
}

// Undo speaks of the past: what work does after it is as good as before.
func TestWorkGoesOnAfterUndo(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, unit postgres.Unit) {
		t.Helper()
		unit.First = []postgres.Staged{{Kind: early, Row: thing("claim")}}
		f.mustTx(unit, func(ctx context.Context, tx *postgres.Tx) error {
			for range 2 {
				if kept, err := tx.Offer(ctx, middle, thing("offered")); err != nil || !kept {
					t.Errorf("offered after Undo: kept is %v, %v", kept, err)
				}
				tx.Undo()
			}
			db, err := tx.DB(ctx)
			if err != nil {
				return err
			}
			var there int
			if err := db.QueryRow(ctx, "SELECT count(*) FROM things").Scan(&there); err != nil || there != 1 {
				t.Errorf("after Undo the unit sees %d, %v; want the First row", there, err)
			}
			return thing("written").Write(ctx, db)
		})
		f.wantThings("claim", "written")
	})
}

func TestErrorOfTheWorkUndoesTheUnit(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, unit postgres.Unit) {
		t.Helper()
		unit.First = []postgres.Staged{{Kind: early, Row: thing("claim")}}
		broken := errors.New("broken")
		err := f.inTx(unit, func(ctx context.Context, tx *postgres.Tx) error {
			if _, err := tx.Offer(ctx, middle, thing("offered")); err != nil {
				return err
			}
			return broken
		})
		if !errors.Is(err, broken) {
			t.Errorf("error %v, want work's own", err)
		}
		f.wantThings()
		f.mustTx(unit, stage(late, "again"))
		f.wantThings("claim", "again")
	})
}

func TestPanicOfTheWorkUndoesTheUnit(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, unit postgres.Unit) {
		t.Helper()
		unit.First = []postgres.Staged{{Kind: early, Row: thing("claim")}}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is gone")
				}
			}()
			_ = f.inTx(unit, func(context.Context, *postgres.Tx) error { panic("broken") })
		}()
		f.wantThings()
	})
}

// A unit without writes is one too: its First rows, or nothing, are committed.
func TestUnitWithoutRowsCommits(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, unit postgres.Unit) {
		t.Helper()
		f.mustTx(unit, stage(early))
		unit.First = []postgres.Staged{{Kind: early, Row: thing("claim")}}
		f.mustTx(unit, stage(early))
		f.wantThings("claim")
	})
}
