package downstream

import (
	"orderonce/internal/effects"
	"orderonce/internal/outbox"
)

// Notification tells the customer that an order was confirmed, rejected or cancelled. The operation is the message's
// template, since an order may get one of each.
func Notification(c Config) effects.Destination {
	templates := map[string]string{orderConfirmed: "confirmed", orderRejected: "rejected", orderCancelled: "cancelled"}
	return newService("notification", c, map[string]string{
		"": "/notification/messages",
	}).destination(func(e outbox.Recorded) ([]effects.Call, error) {
		template, known := templates[e.Type]
		if !known {
			return nil, nil
		}
		var order struct {
			CustomerID string `json:"customer_id"`
		}
		if err := payload(e, &order); err != nil {
			return nil, err
		}
		return only(call(e, template, struct {
			about
			CustomerID string `json:"customer_id"`
			Template   string `json:"template"`
		}{aboutOrder(e), order.CustomerID, template}))
	})
}
