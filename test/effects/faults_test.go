package effects_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/orders"
	"orderonce/internal/sandbox"
)

// ambiguous are the faults after which nobody can tell by the answer whether the work was done.
var ambiguous = map[sandbox.FaultKind]bool{
	sandbox.TimeoutBeforeWork: true, sandbox.TimeoutAfterWork: true, sandbox.CutBeforeWork: true, sandbox.CutAfterWork: true,
	sandbox.CutMidResponse: true, sandbox.Overloaded: true, sandbox.ErrorBeforeWork: true, sandbox.ErrorAfterWork: true,
}

// executedBy says of a fault whether the work was done by the request that it happened to.
var executedBy = map[sandbox.FaultKind]bool{
	sandbox.TimeoutAfterWork: true, sandbox.CutAfterWork: true, sandbox.CutMidResponse: true, sandbox.ErrorAfterWork: true,
	sandbox.Slow: true, sandbox.NoFault: true,
}

// Promise 8, case 25: whatever goes wrong with one request, and whatever the service can do about it, the operation is
// executed at most once. It ends as what really happened; where nobody can find that out, a person is asked, and
// nothing is sent a second time.
func TestEveryFaultForEveryCapability(t *testing.T) {
	t.Parallel()
	for capability, timeout := range map[effects.Capability]time.Duration{
		effects.Idempotent: time.Second, effects.Queryable: time.Second,
		effects.None: 10 * time.Second, // a call that nothing was to happen to must not meet it either
	} {
		t.Run(string(capability), func(t *testing.T) {
			t.Parallel()
			w := setup(t, abilities{Capability: capability, timeout: timeout})
			placed := map[sandbox.FaultKind]uuid.UUID{}
			for _, kind := range sandbox.FaultKinds() {
				if kind == sandbox.Duplicate && capability != effects.Idempotent {
					continue // the service's own fault, which no caller can prevent: reconciliation finds it
				}
				placed[kind] = w.place()
				w.services.fault(sandbox.Fault{ // twice, so that the resending meets it too
					Kind: kind, OrderID: placed[kind].String(), Service: "payment", Operation: "authorize", Count: 2,
					Delay: sandbox.Duration(time.Millisecond),
				})
			}
			w.run()
			w.settle()
			for kind, order := range placed {
				w.wantEnd(kind, order, capability)
			}
		})
	}
}

// wantEnd checks what became of an order whose authorization met a fault.
func (w *world) wantEnd(kind sandbox.FaultKind, order uuid.UUID, capability effects.Capability) {
	w.t.Helper()
	paid, seen := w.effectsOf(order)["payment authorize"], w.services.count(order, "payment authorize")
	wantState, wantExecutions, wantStatus := effects.Succeeded, 1, orders.Confirmed
	switch {
	case kind == sandbox.Decline:
		wantState, wantExecutions, wantStatus = effects.Failed, 0, orders.Rejected
	case capability == effects.None && ambiguous[kind]:
		wantState, wantStatus = effects.NeedsHuman, orders.Pending
		if !executedBy[kind] {
			wantExecutions = 0
		}
		if seen.requests != 1 {
			w.t.Errorf("%s: %d requests", kind, seen.requests)
		}
	}
	if paid.State != wantState || seen.executions != wantExecutions || seen.keys != 1 || w.status(order) != wantStatus {
		w.t.Errorf("%s: the effect is %s, the order %s; %+v; the evidence: %s", kind, paid.State, w.status(order), seen, paid.Evidence)
	}
	wantExact(w.t, order.String(), string(w.status(order)), w.services.counts())
}

// A service that refuses to undo what it did leaves it standing: an order that is rejected or cancelled is not done with,
// and somebody has to know.
func TestRefusalToUndoNeedsAPerson(t *testing.T) {
	t.Parallel()
	w := setup(t, abilities{Capability: effects.Idempotent})
	w.services.fault(sandbox.Fault{Kind: sandbox.Decline, Operation: "void"})
	w.run()
	order := w.place(orders.Item{SKU: "SOLD-OUT", Quantity: 1, UnitPriceMinor: 1})
	w.settle()
	all := w.effectsOf(order)
	if state := all["payment void"].State; state != effects.NeedsHuman || w.status(order) != orders.Rejected {
		t.Errorf("the void is %s, the order %s", state, w.status(order))
	}
	// What was refused in the first place has nothing to undo, and nobody is asked.
	if state := all["inventory release"].State; state != effects.Succeeded || all["inventory release"].Attempts != 0 {
		t.Errorf("the release is %s", state)
	}
}

// wantExact checks that what was done for an order is what its end means: a confirmed one is paid and reserved, and of a
// rejected or cancelled one everything that was done is undone, once, and nothing else is.
func wantExact(t testing.TB, order, status string, counts map[string]counted) {
	t.Helper()
	done := func(what string) int { return counts[order+" "+what].executions }
	authorized, voided, reserved, released := done("payment authorize"), done("payment void"), done("inventory reserve"), done("inventory release")
	for what, n := range map[string]int{
		"authorize": authorized, "void": voided, "reserve": reserved, "release": released,
		"tell confirmed": done("notification confirmed"), "tell rejected": done("notification rejected"), "tell cancelled": done("notification cancelled"),
	} {
		if n > 1 {
			t.Errorf("order %s: %s was executed %d times", order, what, n)
		}
	}
	switch orders.Status(status) {
	case orders.Confirmed:
		if authorized != 1 || reserved != 1 || voided != 0 || released != 0 {
			t.Errorf("order %s is confirmed: authorized %d, reserved %d, voided %d, released %d", order, authorized, reserved, voided, released)
		}
	case orders.Rejected, orders.Cancelled:
		if voided != authorized || released != reserved {
			t.Errorf("order %s is %s: authorized %d, voided %d; reserved %d, released %d", order, status, authorized, voided, reserved, released)
		}
	case orders.Pending:
		if voided != 0 || released != 0 {
			t.Errorf("order %s is pending: voided %d, released %d", order, voided, released)
		}
	}
}
