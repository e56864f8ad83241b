package postgres_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"orderonce/internal/postgres"
)

// A Tx kept past its unit writes nothing and says so, whichever way the unit went.
func TestTxIsDeadAfterItsUnit(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, unit postgres.Unit) {
		t.Helper()
		for name, ending := range map[string]error{"committed": nil, "failed": context.Canceled} {
			var kept *postgres.Tx
			_ = f.inTx(unit, func(_ context.Context, tx *postgres.Tx) error {
				kept = tx
				return ending
			})
			if _, err := kept.DB(t.Context()); err == nil {
				t.Errorf("%s: DB opens a transaction", name)
			}
			if ok, err := kept.Offer(t.Context(), middle, thing("offered")); err == nil {
				t.Errorf("%s: Offer says kept is %v", name, ok)
			}
			kept.Stage(middle, thing("staged")) // has nowhere to go
			kept.Undo()
		}
		f.wantThings()
	})
}

// Neither does the session that the unit lent: its connection may be another unit's by now.
func TestSessionIsDeadAfterItsUnit(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var kept []postgres.DBTX
	f.mustTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		kept = append(kept, db)
		return err
	})
	err := f.db.Read(t.Context(), uuid.Nil, func(_ context.Context, db postgres.DBTX) error {
		kept = append(kept, db)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, db := range kept {
		if err := thing("late").Write(t.Context(), db); err == nil {
			t.Error("a statement runs after its unit")
		}
		if rows, err := db.Query(t.Context(), "SELECT 1"); err == nil {
			rows.Close()
			t.Errorf("a query runs after its unit: %v", rows.Err())
		}
		if err := db.QueryRow(t.Context(), "SELECT 1").Scan(new(int)); err == nil {
			t.Error("a row is read after its unit")
		}
	}
	f.wantThings()
}

// The row count of each statement is what names a refused row, so a row is one statement and reads nothing.
func TestRowMustBeExactlyOneStatement(t *testing.T) {
	t.Parallel()
	rows := map[string]rowFunc{
		"none": func(context.Context, postgres.DBTX) error { return nil },
		"two": func(ctx context.Context, db postgres.DBTX) error {
			if err := thing("one").Write(ctx, db); err != nil {
				return err
			}
			return thing("two").Write(ctx, db)
		},
		"reads rows": func(ctx context.Context, db postgres.DBTX) error {
			if err := thing("one").Write(ctx, db); err != nil {
				return err
			}
			rows, err := db.Query(ctx, "SELECT 1")
			if err == nil {
				rows.Close()
				err = rows.Err()
			}
			return err
		},
		"reads a row": func(ctx context.Context, db postgres.DBTX) error {
			if err := thing("one").Write(ctx, db); err != nil {
				return err
			}
			return db.QueryRow(ctx, "SELECT 1").Scan(new(int))
		},
		"argument that cannot be encoded": func(ctx context.Context, db postgres.DBTX) error {
			_, err := db.Exec(ctx, "INSERT INTO things (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", make(chan int))
			return err
		},
		"syntax error": func(ctx context.Context, db postgres.DBTX) error {
			_, err := db.Exec(ctx, "INSERT INTO")
			return err
		},
	}
	eachPath(t, func(t *testing.T, f *fixture, unit postgres.Unit) {
		t.Helper()
		for name, row := range rows {
			err := f.inTx(unit, func(ctx context.Context, tx *postgres.Tx) error {
				tx.Stage(early, thing("before "+name))
				if _, err := tx.Offer(ctx, middle, row); err != nil {
					return err
				}
				tx.Stage(late, thing("after "+name))
				return nil
			})
			if err == nil {
				t.Errorf("%s: the unit commits", name)
			}
			f.wantThings()
		}
		// The connections are as good as before.
		f.mustTx(unit, stage(middle, "good"))
		f.wantThings("good")
	})
}
