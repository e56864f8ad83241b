package downstream

import (
	"orderonce/internal/effects"
	"orderonce/internal/outbox"
)

// Payment authorizes the total of each order that is created, which the order waits for, and voids that for one that is
// rejected or cancelled.
func Payment(c Config) effects.Destination {
	const authorize, void = "authorize", "void"
	return newService("payment", c, map[string]string{
		authorize: "/payment/authorizations", void: "/payment/voids",
	}).destination(func(e outbox.Recorded) ([]effects.Call, error) {
		switch e.Type {
		case orderCreated:
			var order struct {
				CustomerID string `json:"customer_id"`
				Currency   string `json:"currency"`
				TotalMinor int64  `json:"total_minor"`
			}
			if err := payload(e, &order); err != nil {
				return nil, err
			}
			return required(call(e, authorize, struct {
				about
				CustomerID  string `json:"customer_id"`
				AmountMinor int64  `json:"amount_minor"`
				Currency    string `json:"currency"`
			}{aboutOrder(e), order.CustomerID, order.TotalMinor, order.Currency}))
		case orderRejected, orderCancelled:
			return reverting(authorize)(call(e, void, aboutOrder(e)))
		}
		return nil, nil
	})
}
