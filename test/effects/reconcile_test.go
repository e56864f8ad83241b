package effects_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/effects"
	"orderonce/internal/identity"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
	"orderonce/internal/sandbox"
)

// reconciler looks at everything that has ended, as soon as it has.
func (w *world) reconciler(log *slog.Logger) *effects.Reconciler {
	return effects.NewReconciler(w.db, w.destinations, effects.Windows{Settle: time.Nanosecond}, log)
}

func (w *world) look() effects.Looked {
	w.t.Helper()
	looked, err := w.reconciler(slog.New(slog.DiscardHandler)).Look(w.t.Context(), true)
	w.must(err)
	return looked
}

// open are the disagreements that nobody has cleared, as destination, kind, operation and key.
func (w *world) open() map[string]effects.Disagreement {
	w.t.Helper()
	all := map[string]effects.Disagreement{}
	for _, d := range w.destinations {
		w.must(w.db.Read(w.t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
			page, more, err := effects.Open(ctx, db, d.Name, uuid.Max, 100)
			if more {
				w.t.Error("there are more than a page")
			}
			for _, one := range page {
				all[fmt.Sprint(one.Destination, " ", one.Kind, " ", one.Operation, " ", one.Key)] = one
			}
			return err
		}))
	}
	return all
}

func (w *world) wantOpen(want ...string) {
	w.t.Helper()
	got := map[string]bool{}
	for name := range maps.Keys(w.open()) {
		got[name] = true
	}
	wanted := map[string]bool{}
	for _, name := range want {
		wanted[name] = true
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		w.t.Errorf("open disagreements (-want +got)\n%s", diff)
	}
}

// outOfBand asks a service for something that this service did not ask for.
func (w *world) outOfBand(path, key, body string) {
	w.t.Helper()
	if a := w.services.ask(http.MethodPost, path, body, http.Header{"Idempotency-Key": {key}}); a.Status != http.StatusCreated {
		w.t.Fatalf("%d %s", a.Status, a.Body)
	}
}

// What went as it should, refusals and things with nothing to undo among it, is no disagreement, however often it is
// looked at.
func TestReconciliationOfWhatAgrees(t *testing.T) {
	t.Parallel()
	w := setup(t, abilities{Capability: effects.Queryable})
	const many = 60 // more than a page of the services' lists, at two and more a service
	placed := []uuid.UUID{w.place(orders.Item{SKU: "SOLD-OUT", Quantity: 1, UnitPriceMinor: 1})}
	for range many {
		placed = append(placed, w.place())
	}
	w.run()
	w.settle()
	w.inTx(func(ctx context.Context, tx *postgres.Tx) error {
		for _, order := range placed[1:] {
			if _, err := orders.Cancel(ctx, tx, w.tenant, order); err != nil {
				return err
			}
		}
		return nil
	})
	w.settle()
	looked := w.look()
	if want := 6*many + 3; looked.Listed != want+1 || looked.Succeeded != want || looked.Asked != 0 || looked.Found != 0 {
		t.Errorf("looked at %+v", looked)
	}
	w.look()
	w.wantOpen()
	for _, order := range placed {
		wantExact(t, order.String(), string(w.status(order)), w.services.counts())
	}
}

// Each way to disagree raises an alarm, once.
func TestReconciliationFindsEachDisagreement(t *testing.T) {
	t.Parallel()
	w := setup(t, abilities{Capability: effects.Queryable})
	w.run()
	twice, again, denied, failed := w.place(), w.place(), w.place(), w.place()
	w.settle()
	effectOf := func(order uuid.UUID, what string) effects.Effect { return w.effectsOf(order)[what] }

	// The service itself has executed a request twice: planted by asking it again, for it does not remember keys.
	paid := effectOf(twice, "payment authorize")
	w.outOfBand("/payment/authorizations", paid.Key.String(), string(paid.Request))
	// Somebody has executed the same operation under another key.
	reserved := effectOf(again, "inventory reserve")
	w.outOfBand("/inventory/reservations", "another key", string(reserved.Request))
	// Somebody uses the service without telling anybody, and without telling whose order it is.
	stranger := newID()
	w.outOfBand("/payment/authorizations", "a stranger's", fmt.Sprintf(`{"order_id":%q,"tenant_id":%q}`, stranger, w.tenant))
	w.outOfBand("/payment/authorizations", strings.Repeat("k", 255), `{"order_id":"our number 7"}`)
	// What counts as failed was done.
	voided := effectOf(failed, "payment authorize")
	w.exec("UPDATE effects SET state = 'failed' WHERE id = $1", voided.ID)
	// What counts as done was not: as by a wrong word of a person's.
	never := newID()
	told := effectOf(denied, "notification confirmed")
	w.exec(`INSERT INTO effects SELECT (jsonb_populate_record(e, jsonb_build_object('id', $2::uuid, 'operation', 'cancelled',
		'idempotency_key', $2::uuid))).* FROM effects e WHERE id = $1`, told.ID, never)
	// The service calls refused what counts as done.
	w.services.fault(sandbox.Fault{Kind: sandbox.Decline, Count: 1})
	refused := newID()
	w.services.ask(http.MethodPost, "/notification/messages", fmt.Sprintf(`{"order_id":%q,"tenant_id":%q,"template":"rejected"}`, denied, w.tenant),
		http.Header{"Idempotency-Key": {refused.String()}})
	w.exec(`INSERT INTO effects SELECT (jsonb_populate_record(e, jsonb_build_object('id', $2::uuid, 'operation', 'rejected',
		'idempotency_key', $2::uuid))).* FROM effects e WHERE id = $1`, told.ID, refused)

	var said orderoncetest.Output
	looked, err := w.reconciler(slog.New(slog.NewJSONHandler(&said, nil))).Look(t.Context(), true)
	w.must(err)
	want := []string{
		"payment executed_twice authorize " + paid.Key.String(),
		"inventory executed_twice reserve another key",
		"inventory executed_without_effect reserve another key",
		"payment executed_without_effect authorize a stranger's",
		"payment executed_without_effect authorize " + strings.Repeat("k", 255),
		"payment executed_but_failed authorize " + voided.Key.String(),
		"notification success_denied cancelled " + never.String(),
		"notification success_denied rejected " + refused.String(),
	}
	w.wantOpen(want...)
	if alarms := strings.Count(said.String(), `"level":"ERROR"`); looked.Found != len(want) || alarms != len(want) {
		t.Errorf("%+v, %d alarms", looked, alarms)
	}
	if found := w.open()[want[3]]; found.Tenant != w.tenant || found.Order != stranger {
		t.Errorf("%+v", found)
	}
	if found := w.open()[want[4]]; found.Tenant != uuid.Nil || found.Order != uuid.Nil {
		t.Errorf("%+v", found)
	}
	var details struct {
		Executions int
		Effect     uuid.UUID `json:"effect"`
	}
	w.must(json.Unmarshal(w.open()[want[0]].Details, &details))
	if details.Executions != 2 || details.Effect != paid.ID {
		t.Errorf("the details are %+v", details)
	}

	if again := w.look(); again.Found != 0 || again.Cleared != 0 {
		t.Errorf("found again: %+v", again)
	}
	w.wantOpen(want...)

	// One ends by itself: the service does what it had denied. Another one is dealt with by a person, for good.
	w.outOfBand("/notification/messages", never.String(), fmt.Sprintf(`{"order_id":%q,"tenant_id":%q,"template":"cancelled"}`, denied, w.tenant))
	dealt := w.open()[want[0]]
	for range 2 { // said twice, done once
		w.inTx(func(ctx context.Context, tx *postgres.Tx) error {
			_, err := effects.Clear(ctx, tx, identity.Change{Actor: "cli:tester", Reason: "refunded by hand"}, w.tenant, dealt.ID)
			return err
		})
	}
	if looked := w.look(); looked.Found != 0 || looked.Cleared != 1 {
		t.Errorf("%+v", looked)
	}
	w.wantOpen(append(want[1:6:6], want[7])...)
	var audited int
	w.must(w.owner.QueryRow(t.Context(), "SELECT count(*) FROM audit_log WHERE action = 'reconciliation.cleared'").Scan(&audited))
	if audited != 1 {
		t.Errorf("audited %d times", audited)
	}
	w.must(w.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		counts, err := effects.CountOpen(ctx, db)
		var sum int64
		for _, c := range counts {
			sum += c.Open
		}
		if sum != 6 {
			t.Errorf("the gauge says %d: %+v", sum, counts)
		}
		return err
	}))
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.owner.Exec(w.t.Context(), sql, args...)
	w.must(err)
}

// Of many that look at once, one does; and what a look saw is not looked at for ever.
func TestReconciliationTakesTurns(t *testing.T) {
	t.Parallel()
	w := setup(t, abilities{Capability: effects.Queryable})
	w.place()
	w.run()
	w.settle()
	var sum effects.Looked
	var mu sync.Mutex
	var all sync.WaitGroup
	barrier := make(chan struct{})
	for range 8 {
		r := w.reconciler(slog.New(slog.DiscardHandler))
		all.Go(func() {
			<-barrier
			looked, err := r.Look(t.Context(), false)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			sum.Listed += looked.Listed
			sum.Succeeded += looked.Succeeded
		})
	}
	close(barrier)
	all.Wait()
	if sum.Listed != 3 || sum.Succeeded != 3 {
		t.Errorf("looked at %+v", sum)
	}
	// A look much later begins where the last one came to, less the overlap.
	w.exec("UPDATE effects SET ended_at = ended_at - interval '1 hour'")
	w.exec("UPDATE reconciliation_looks SET listed_until = listed_until + interval '1 hour'")
	if looked := w.look(); looked.Listed != 0 || looked.Succeeded != 0 {
		t.Errorf("looked again at %+v", looked)
	}
}

// A service that cannot be asked leaves the look where it was, and nothing is taken for denied.
func TestReconciliationWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	w := setup(t, abilities{Capability: effects.Queryable})
	w.place()
	w.run()
	w.settle()
	for _, name := range []string{"payment", "inventory", "notification"} {
		w.services.ask(http.MethodPut, "/services/"+name, `{"queryable":false}`, nil)
	}
	if looked, err := w.reconciler(slog.New(slog.DiscardHandler)).Look(t.Context(), true); err == nil || looked.Found != 0 {
		t.Errorf("%+v, %v", looked, err)
	}
	w.wantOpen()
	for _, name := range []string{"payment", "inventory", "notification"} {
		w.services.ask(http.MethodPut, "/services/"+name, `{"queryable":true}`, nil)
	}
	if looked := w.look(); looked.Listed != 3 || looked.Succeeded != 3 {
		t.Errorf("%+v", looked)
	}
}
