package walls

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orderonce/internal/postgres"
)

// outside are the ways to stand outside of the victim's wall.
var outside = map[string]*string{
	"another tenant":        named(intruder),
	"no tenant":             nil,
	"an empty list":         named(),
	"several other tenants": named(intruder, third),
}

// inEmpty is what each query finds where nothing is: no row, or a count of nothing.
func inEmpty(t *testing.T, all []query) map[string]string {
	t.Helper()
	w, found := empty(t), map[string]string{}
	for _, q := range all {
		found[q.name] = w.try(q, attempt{arguments: theirs}).Rows
	}
	return found
}

// Promise 7. Whoever names another tenant, or none, finds nothing of the victim's by any query, changes nothing, and is
// told the same whether the row is there or not: by rows, by their count, by the error.
func TestEveryQueryStaysOutsideTheWall(t *testing.T) {
	t.Parallel()
	w, all := setup(t), queries(t)
	nothing := inEmpty(t, all)
	for _, q := range all {
		for name, tenants := range outside {
			there := w.try(q, attempt{postgres.Request, tenants, theirs})
			if there.Failed || !there.Denied && there.effective(nothing[q.name]) {
				t.Errorf("%s, naming %s: %+v", q, name, there)
			}
			notThere := w.try(q, attempt{postgres.Request, tenants, absent})
			if diff := cmp.Diff(there, notThere); diff != "" {
				t.Errorf("%s, naming %s, tells whether the victim's row is there (-there +absent)\n%s", q, name, diff)
			}
		}
	}
}

// What stops a query outside of the wall must be the wall: inside, it finds or changes something. A query that is no
// request's is denied to a request for lack of a grant, and does its work as the worker.
func TestEveryQueryWorksInsideTheWall(t *testing.T) {
	t.Parallel()
	w, all := setup(t), queries(t)
	nothing := inEmpty(t, all)
	works := func(q query, role postgres.Role, tenants *string) bool {
		return w.try(q, attempt{role, tenants, theirs}).effective(nothing[q.name]) ||
			w.try(q, attempt{role, tenants, absent}).effective(nothing[q.name])
	}
	for _, q := range all {
		if !works(q, postgres.Worker, nil) {
			t.Errorf("%s does nothing for the worker: theirs does not name a row of the victim's", q)
		}
		alone := w.try(q, attempt{postgres.Request, named(victim), absent})
		if alone.Denied {
			continue // so it is the worker's
		}
		for name, tenants := range map[string]*string{
			"the victim": named(victim), "the victim first": named(victim, intruder),
			"the victim among others": named(intruder, victim, third), "the victim last": named(third, victim),
		} {
			if !works(q, postgres.Request, tenants) {
				t.Errorf("%s does nothing, naming %s", q, name)
			}
		}
	}
}

// The other way to ask: by one's own tenant and the victim's ids, names and keys. No unique index or other constraint
// knows more than one tenant, so the answer is that for ids that nobody has.
func TestVictimsIdsMeanNothingInAnotherTenant(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, q := range queries(t) {
		own := map[string]any{"tenant_id": intruder, "principal_id": intruder, "principal_ids": "{" + intruder + "}", "tenant_ids": "{" + intruder + "}"}
		used := w.try(q, attempt{postgres.Request, named(intruder), changed(theirs, own)})
		free := w.try(q, attempt{postgres.Request, named(intruder), changed(absent, own)})
		if used.VictimsChanged {
			t.Errorf("%s of the intruder's changes the victim's rows: %+v", q, used)
		}
		if diff := cmp.Diff(free, used); diff != "" {
			t.Errorf("%s tells that another tenant uses an id (-free +used)\n%s", q, diff)
		}
	}
}

// No tenant can block another one, or see by a wait that it is at work: while the victim holds all its rows, and has
// written others that nobody sees yet, each query outside of the wall answers as it does otherwise.
func TestNoQueryWaitsForAnotherTenantsRows(t *testing.T) {
	t.Parallel()
	w, all := setup(t), queries(t)
	answers := func() map[string]outcome {
		answers := map[string]outcome{}
		for _, q := range all {
			for name, tenants := range outside {
				answers[q.name+", naming "+name] = w.try(q, attempt{postgres.Request, tenants, theirs})
				answers[q.name+", naming "+name+", absent"] = w.try(q, attempt{postgres.Request, tenants, absent})
			}
		}
		return answers
	}
	atWork := func() bool { // as its own requests see it
		return slices.ContainsFunc(all, func(q query) bool {
			return w.try(q, attempt{postgres.Request, named(victim), absent}).Failed
		})
	}
	if atWork() {
		t.Fatal("somebody is at work before")
	}
	before := answers()
	w.hold(all)
	if !atWork() {
		t.Fatal("the victim is not at work")
	}
	if diff := cmp.Diff(before, answers()); diff != "" {
		t.Errorf("the victim at work can be told from the victim at rest (-rest +work)\n%s", diff)
	}
}

// hold lets another session lock every row of the victim's, and insert the absent ones, until the end of the test.
func (w *world) hold(all []query) {
	w.t.Helper()
	ctx, conn := w.t.Context(), w.connect()
	tx, err := conn.Begin(ctx)
	w.must(err)
	w.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(ctx)) })
	for _, table := range w.strings(tablesOfTenants) {
		_, err := tx.Exec(ctx, "SELECT FROM "+table+" WHERE tenant_id = $1 FOR UPDATE", victim)
		w.must(err)
	}
	for _, q := range all {
		nested, err := tx.Begin(ctx)
		w.must(err)
		_, tag, err := answer(ctx, nested, q, q.bind(w.t, absent))
		if err == nil && tag == "\nINSERT 0 1" {
			w.must(nested.Commit(ctx))
			continue
		}
		w.must(nested.Rollback(ctx))
	}
}
