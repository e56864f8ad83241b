package effects_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/postgres"
)

func TestOrderedDestinationSeesVersionsInOrder(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	const changes = 100
	orders := []uuid.UUID{newID(t), newID(t), newID(t)}
	for version := range changes {
		for _, order := range orders {
			f.add(plan{
				order: order, operation: fmt.Sprint("change-", version), version: int64(version + 1), request: fmt.Sprintf("%s %d", order, version+1), blocked: version > 0,
			})
		}
	}
	d := out.destination("payment", effects.Idempotent)
	d.Ordered = true
	var workers []*effects.Worker
	for range 2 {
		db := f.open()
		for range 4 {
			workers = append(workers, f.workerOn(db, f.options(), d))
		}
	}
	f.run(workers...)
	f.await("all changes to arrive", func() bool { return len(out.seen()) == changes*len(orders) })
	last := map[string]int{}
	for _, a := range out.seen() {
		order, version, _ := strings.Cut(a.body, " ")
		var n int
		if _, err := fmt.Sscan(version, &n); err != nil || n != last[order]+1 {
			t.Fatalf("version %s of %s came after %d, %v", version, order, last[order], err)
		}
		last[order] = n
	}
}

// What undoes a thing waits for that thing's end, and where that failed there is nothing to undo: it ends without a
// call, and lets its own successor go.
func TestNothingIsUndoneThatWasNotDone(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	order, taken, authorize := newID(t), newID(t), "authorize"
	refused := effects.KeyOf(effects.Identity{Order: order, Destination: "payment", Operation: "authorize"}, f.tenant).String()
	out.answer = func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.Header.Get("Idempotency-Key") == refused {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	}
	first := f.add(plan{order: order, version: 1})
	undo := f.add(plan{order: order, version: 2, operation: "void", blocked: true, reverts: &authorize})
	later := f.add(plan{order: order, version: 3, operation: "note", blocked: true})
	f.add(plan{order: taken, version: 1})
	real := f.add(plan{order: taken, version: 2, operation: "void", blocked: true, reverts: &authorize})
	d := out.destination("payment", effects.Idempotent)
	d.Ordered = true
	f.run(f.worker(f.options(), d))
	f.awaitState(later, effects.Succeeded)
	f.awaitState(real, effects.Succeeded)
	if f.find(first).State != effects.Failed {
		t.Errorf("the first is %s", f.find(first).State)
	}
	if e := f.find(undo); e.State != effects.Succeeded || e.Attempts != 0 || f.entries(undo)[0].Detail != effects.NothingToUndo {
		t.Errorf("the undoing: %+v", e)
	}
	if f.find(real).Attempts != 1 || len(out.seen()) != 4 || len(f.told()) != 5 {
		t.Errorf("%d requests and %d ends, want 4 and 5", len(out.seen()), len(f.told()))
	}
}

// The hook is part of the end: while it fails, nothing has ended; and what it writes is there with it.
func TestEndAndItsConsequenceCommitTogether(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	f.exec("CREATE TABLE consequences (effect uuid PRIMARY KEY)")
	f.exec("GRANT INSERT ON consequences TO orderonce_worker")
	id := f.add(plan{})
	o := f.options()
	var fails atomic.Int32
	o.Ended = func(ctx context.Context, tx *postgres.Tx, e effects.Effect) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		if _, err := db.Exec(ctx, "INSERT INTO consequences VALUES ($1)", e.ID); err != nil {
			return err
		}
		if fails.Add(1) < 3 {
			return errors.New("the hook fails")
		}
		return nil
	}
	f.run(f.worker(o, out.destination("payment", effects.Idempotent)))
	f.awaitState(id, effects.Succeeded)
	if n := f.count("SELECT count(*) FROM consequences"); n != 1 || fails.Load() != 3 || len(out.seen()) != 1 {
		t.Errorf("%d consequences after %d runs and %d requests", n, fails.Load(), len(out.seen()))
	}
}
