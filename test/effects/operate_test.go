package effects_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/effects"
	"orderonce/internal/orders"
	"orderonce/internal/sandbox"
	"orderonce/test/shop"
)

// desk is what a person has who is asked about a stage's effects: the command, and the shop's own view.
type desk struct {
	*stage
	shop   *shop.Shop
	server *shop.Server
}

// setupDesk runs everything there is, as processes of their own.
func setupDesk(t *testing.T, capabilities [3]effects.Capability) *desk {
	t.Helper()
	s := setupStage(t, capabilities)
	d := &desk{stage: s, shop: shop.OpenOnURL(t, s.url)}
	d.must(d.owner.QueryRow(t.Context(), "SELECT tenant_id FROM tenants WHERE name = 'acme'").Scan(&d.tenant))
	d.server = d.shop.Serve(t, shop.Options{})
	return d
}

// asked waits for the effect that needs a person.
func (d *desk) asked() (effect, order uuid.UUID) {
	d.t.Helper()
	orderoncetest.Poll(d.t, "an effect to need a person", func() bool {
		rows, err := d.owner.Query(d.t.Context(), "SELECT id, order_id FROM effects WHERE state = 'needs_human'")
		d.must(err)
		defer rows.Close()
		for rows.Next() {
			d.must(rows.Scan(&effect, &order))
		}
		d.must(rows.Err())
		return effect != uuid.Nil
	})
	return effect, order
}

// succeed says that it was done, as the service's own books tell. Said twice it is done once.
func (d *desk) succeed(effect uuid.UUID) {
	d.t.Helper()
	for range 2 {
		said := d.shop.Operate(d.t, "effects", "resolve", effect.String(), "--tenant=acme", "--move=succeed", "--evidence=it is in the books")
		if said != "effect "+effect.String()+" is succeeded" {
			d.t.Errorf("%q", said)
		}
	}
	var entries int
	d.must(d.owner.QueryRow(d.t.Context(), `SELECT count(*) FROM audit_log WHERE action = 'effect.succeed' AND reason = 'a test'
		AND actor LIKE 'cli:%' AND subject_id = $1`, effect).Scan(&entries))
	if entries != 1 {
		d.t.Errorf("%d entries in the audit log", entries)
	}
}

// wantConfirmed wants everything to have ended, the order confirmed, and what the person judged asked for once.
func (d *desk) wantConfirmed(order uuid.UUID, judged string) {
	d.t.Helper()
	d.settle()
	d.wantAllEnded(d.t)
	if status := d.status(order); status != orders.Confirmed {
		d.t.Errorf("the order is %s", status)
	}
	if seen := d.services.count(order, judged); seen != (counted{executions: 1, requests: 1, keys: 1}) {
		d.t.Errorf("%+v", seen)
	}
}

// Nobody can know what became of a payment: a person looks it up and says so, and the order is confirmed.
func TestPersonResolvesAPaymentThatNobodyKnows(t *testing.T) {
	t.Parallel()
	d := setupDesk(t, [3]effects.Capability{effects.None, effects.Idempotent, effects.Idempotent})
	d.services.fault(sandbox.Fault{Kind: sandbox.TimeoutAfterWork, Service: "payment", Operation: "authorize", Count: 1})
	d.work()
	placed := d.server.Place(t, orderoncetest.NewKey(), orderoncetest.Order(nil))
	effect, order := d.asked()
	if order.String() != placed.OrderID() || d.status(order) != orders.Pending {
		t.Errorf("order %s is %s, placed was %s", order, d.status(order), placed.OrderID())
	}
	d.succeed(effect)
	d.wantConfirmed(order, "payment authorize")
}

// The same for a reservation that an import waits for: the outcome of its task is unknown, and the task ends by itself
// once the person has said it.
func TestImportOfUnknownOutcomeEndsOnceAPersonHasSaidIt(t *testing.T) {
	t.Parallel()
	d := setupDesk(t, [3]effects.Capability{effects.Idempotent, effects.None, effects.Idempotent})
	d.services.fault(sandbox.Fault{Kind: sandbox.TimeoutAfterWork, Service: "inventory", Operation: "reserve", Count: 1})
	d.work()
	body := `{"reserve_inventory":true,"orders":[` + orderoncetest.Order(map[string]any{"client_order_id": "wanted"}) + "," +
		orderoncetest.Order(map[string]any{"client_order_id": "wrong", "currency": "XXX"}) + `]}`
	accepted, err := d.server.Do(t.Context(), http.MethodPost, "/order-imports", body, http.Header{
		"Content-Type": {"application/json"}, "Idempotency-Key": {orderoncetest.NewKey()},
	})
	if err != nil || accepted.Status != http.StatusAccepted {
		t.Fatalf("%d %s, %v", accepted.Status, accepted.Body, err)
	}
	var task struct {
		ID       string
		State    string
		Progress struct{ Done, Succeeded, Rejected int }
	}
	d.must(json.Unmarshal([]byte(accepted.Body), &task))
	becomes := func(state string) {
		t.Helper()
		orderoncetest.Poll(t, "the task to be "+state, func() bool {
			a, err := d.server.Do(t.Context(), http.MethodGet, "/tasks/"+task.ID, "", nil)
			d.must(err)
			d.must(json.Unmarshal([]byte(a.Body), &task))
			return task.State == state
		})
	}
	becomes("outcome_unknown")
	effect, order := d.asked()
	var placed int
	d.must(d.owner.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&placed))
	if placed != 0 || task.Progress.Done != 1 {
		t.Errorf("%d orders before their stock; %+v", placed, task)
	}
	d.succeed(effect)
	becomes("succeeded")
	if task.Progress.Done != 2 || task.Progress.Succeeded != 1 || task.Progress.Rejected != 1 {
		t.Errorf("%+v", task)
	}
	d.wantConfirmed(order, "inventory reserve")
}
