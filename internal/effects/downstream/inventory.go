package downstream

import (
	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/outbox"
)

const reserve, release = "reserve", "release"

// Item is what is kept for an order.
type Item struct {
	SKU      string `json:"sku"`
	Quantity int32  `json:"quantity"`
}

// Inventory reserves the items of each order that is created, which the order waits for, and releases them for one that
// is rejected or cancelled.
func Inventory(c Config) effects.Destination {
	return newService("inventory", c, map[string]string{
		reserve: "/inventory/reservations", release: "/inventory/releases",
	}).destination(func(e outbox.Recorded) ([]effects.Call, error) {
		switch e.Type {
		case orderCreated:
			var order struct {
				Items []Item `json:"items"`
			}
			if err := payload(e, &order); err != nil {
				return nil, err
			}
			return required(reservation(e, order.Items))
		case orderRejected, orderCancelled:
			return reverting(reserve)(call(e, release, aboutOrder(e)))
		}
		return nil, nil
	})
}

// Reservation is the call that the order's creation would make, for whoever needs its outcome before there is an order:
// when the order is created the reservation is there. asker is what asks for it, and version that of the order to come.
func Reservation(tenant, order, asker uuid.UUID, version int64, items []Item) (effects.Call, error) {
	calls, err := required(reservation(outbox.Recorded{Tenant: tenant, AggregateID: order, ID: asker, Version: version}, items))
	if err != nil {
		return effects.Call{}, err
	}
	return calls[0], nil
}

func reservation(e outbox.Recorded, items []Item) (effects.Call, error) {
	return call(e, reserve, struct {
		about
		Items []Item `json:"items"`
	}{aboutOrder(e), items})
}
