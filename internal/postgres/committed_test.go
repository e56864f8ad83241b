package postgres_test

import (
	"context"
	"errors"
	"testing"

	"orderonce/internal/postgres"
)

// watched counts the commits that wrote each kind, and checks at each that another session sees the rows.
func (f *fixture) watched() (told map[*postgres.Kind]int) {
	f.t.Helper()
	told = map[*postgres.Kind]int{}
	f.db.OnCommit(early, func() { told[early]++ })
	f.db.OnCommit(late, func() {
		told[late]++
		if migrationCount(f.t, f.watch, "SELECT count(*) FROM things WHERE name LIKE 'z%'") == 0 {
			f.t.Error("the watcher is told before the row is visible")
		}
	})
	return told
}

// Whoever waits for rows of a kind is told once they can be read, and of nothing that was not kept.
func TestWatcherIsToldOfCommits(t *testing.T) {
	t.Parallel()
	eachPath(t, func(_ *testing.T, f *fixture, unit postgres.Unit) {
		told := f.watched()
		f.mustTx(unit, stage(late, "z1", "z2"))
		if told[early] != 0 || told[late] != 1 {
			f.t.Errorf("after one commit of two rows: early %d, late %d", told[early], told[late])
		}
		broken := errors.New("broken")
		for name, work := range map[string]work{
			"refused": stage(late, "z1"),
			"failed": func(_ context.Context, tx *postgres.Tx) error {
				tx.Stage(late, thing("z3"))
				return broken
			},
			"taken back": func(_ context.Context, tx *postgres.Tx) error {
				tx.Stage(late, thing("z4"))
				tx.Wrote(late)
				tx.Undo()
				return nil
			},
			"of another kind": stage(middle, "m"),
		} {
			if err := f.inTx(unit, work); (err != nil) != (name == "refused" || name == "failed") {
				f.t.Errorf("%s: %v", name, err)
			}
		}
		if told[early] != 0 || told[late] != 1 {
			f.t.Errorf("without a row that was kept: early %d, late %d", told[early], told[late])
		}
		f.mustTx(unit, func(ctx context.Context, tx *postgres.Tx) error {
			_, err := tx.Offer(ctx, early, thing("offered"))
			tx.Wrote(late)
			return err
		})
		if told[early] != 1 || told[late] != 2 {
			f.t.Errorf("after an offer and a row written otherwise: early %d, late %d", told[early], told[late])
		}
	})
}

// A shared commit tells once, whoever of its units wrote the row, and not for a unit that was refused.
func TestWatcherIsToldOfSharedCommits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		taken thing
		want  int
	}{"all kept": {"nobody", 1}, "one refused": {"z1", 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setupShared(t)
			f.mustTx(postgres.Unit{}, share(middle, c.taken))
			told := f.watched()
			units := []work{share(late, "z1"), share(middle, "m")}
			if c.want == 1 {
				units = append(units, share(late, "z2"))
			}
			errs := f.together(units...)
			if c.want == 0 {
				wantRefused(t, errs[0], late)
				errs = errs[1:]
			}
			wantAllCommitted(t, errs)
			if told[late] != c.want || told[early] != 1 { // the gate is an early one
				t.Errorf("told %d times of the late ones, %d of the early", told[late], told[early])
			}
		})
	}
}
