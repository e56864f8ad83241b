package downstream_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/effects/downstream"
	"orderonce/internal/outbox"
)

var (
	tenant = uuid.MustParse("0193b1f0-0000-7000-8000-00000000000a")
	order  = uuid.MustParse("0193b1f0-0000-7000-8000-00000000000b")
)

// orderPayload is what the orders module writes; more may come to it.
const orderPayload = `{"id":"0193b1f0-0000-7000-8000-00000000000b","status":"pending","customer_id":"customer-1","currency":"EUR",
	"items":[{"sku":"MUG","quantity":2,"unit_price_minor":1250}],"total_minor":2500,"subtotal_minor":2500,"later":[1,2]}`

func recorded(kind string, version int64) outbox.Recorded {
	return outbox.Recorded{
		Tenant: tenant, ID: uuid.New(), AggregateType: "order", AggregateID: order, Version: version,
		Type: "orderonce.order." + kind + ".v1", Payload: []byte(orderPayload), OccurredAt: time.Now(), Traceparent: new("00-trace"),
	}
}

var everywhere = downstream.Config{
	URL: "http://127.0.0.1:1", Capability: effects.Idempotent, Retention: time.Hour, Timeout: time.Second, Concurrency: 1,
}

// What each event asks of each service, byte for byte: the bytes are stored and resent for as long as it takes.
func TestWhatEventsAskFor(t *testing.T) {
	t.Parallel()
	const about = `{"tenant_id":"0193b1f0-0000-7000-8000-00000000000a","order_id":"0193b1f0-0000-7000-8000-00000000000b"`
	want := map[string]string{
		"payment created":        `authorize required ` + about + `,"customer_id":"customer-1","amount_minor":2500,"currency":"EUR"}`,
		"payment rejected":       `void reverts authorize ` + about + `}`,
		"payment cancelled":      `void reverts authorize ` + about + `}`,
		"inventory created":      `reserve required ` + about + `,"items":[{"sku":"MUG","quantity":2}]}`,
		"inventory rejected":     `release reverts reserve ` + about + `}`,
		"inventory cancelled":    `release reverts reserve ` + about + `}`,
		"notification confirmed": `confirmed ` + about + `,"customer_id":"customer-1","template":"confirmed"}`,
		"notification rejected":  `rejected ` + about + `,"customer_id":"customer-1","template":"rejected"}`,
		"notification cancelled": `cancelled ` + about + `,"customer_id":"customer-1","template":"cancelled"}`,
	}
	got := map[string]string{}
	for _, to := range []effects.Destination{
		downstream.Payment(everywhere), downstream.Inventory(everywhere), downstream.Notification(everywhere),
	} {
		for version, kind := range []string{"created", "confirmed", "rejected", "cancelled", "delivered"} {
			e := recorded(kind, int64(version+1))
			calls, err := to.Plan(t.Context(), nil, []outbox.Recorded{e})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range calls {
				if c.Tenant != tenant || c.Order != order || c.Event != e.ID || c.Version != e.Version || c.Lane != "" || c.Traceparent != e.Traceparent {
					t.Errorf("%s %s: %+v", to.Name, kind, c)
				}
				text := c.Operation
				if c.Required {
					text += " required"
				}
				if c.Reverts != nil {
					text += " reverts " + *c.Reverts
				}
				got[to.Name+" "+kind] += fmt.Sprint(text, " ", string(c.Request))
			}
		}
		if !to.Ordered || to.Retention != time.Hour || to.Timeout != time.Second {
			t.Errorf("%+v", to)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// An event that cannot be read stops the batch: a call that is left out would never be made.
func TestEventThatCannotBeRead(t *testing.T) {
	t.Parallel()
	broken := recorded("created", 1)
	broken.Payload = []byte(`{"total_minor":"many"}`)
	if _, err := downstream.Payment(everywhere).Plan(t.Context(), nil, []outbox.Recorded{broken}); err == nil {
		t.Error("it is left out")
	}
}

// What reserves before there is an order asks for the very thing that the order's creation asks for.
func TestReservationBeforeTheOrder(t *testing.T) {
	t.Parallel()
	e := recorded("created", 1)
	e.Traceparent = nil
	planned, err := downstream.Inventory(everywhere).Plan(t.Context(), nil, []outbox.Recorded{e})
	if err != nil {
		t.Fatal(err)
	}
	asked, err := downstream.Reservation(tenant, order, e.ID, 1, []downstream.Item{{SKU: "MUG", Quantity: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(planned, []effects.Call{asked}); diff != "" {
		t.Errorf("(-planned +asked)\n%s", diff)
	}
}
