package downstream

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/outbox"
)

// The events of orders, which are not ours to import.
const (
	orderCreated   = "orderonce.order.created.v1"
	orderConfirmed = "orderonce.order.confirmed.v1"
	orderRejected  = "orderonce.order.rejected.v1"
	orderCancelled = "orderonce.order.cancelled.v1"
)

// about begins every request: whose order it is about. A service gives it back when it lists what it did.
type about struct {
	TenantID uuid.UUID `json:"tenant_id"`
	OrderID  uuid.UUID `json:"order_id"`
}

func aboutOrder(e outbox.Recorded) about { return about{e.Tenant, e.AggregateID} }

// payload decodes what is needed of an event's payload; what else is there is not looked at.
func payload(e outbox.Recorded, v any) error {
	if err := json.Unmarshal(e.Payload, v); err != nil {
		return fmt.Errorf("decode event %s of type %s: %w", e.ID, e.Type, err)
	}
	return nil
}

// call asks for an operation because of an event.
func call(e outbox.Recorded, operation string, request any) (effects.Call, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return effects.Call{}, fmt.Errorf("encode %s for order %s: %w", operation, e.AggregateID, err)
	}
	return effects.Call{
		Tenant: e.Tenant, Order: e.AggregateID, Operation: operation, Event: e.ID, Version: e.Version,
		Request: body, Traceparent: e.Traceparent,
	}, nil
}

// only is the one call that an event asks for.
func only(c effects.Call, err error) ([]effects.Call, error) { return []effects.Call{c}, err }

// required is one that the order waits for.
func required(c effects.Call, err error) ([]effects.Call, error) {
	c.Required = true
	return only(c, err)
}

// reverting makes the call one that undoes an operation.
func reverting(operation string) func(effects.Call, error) ([]effects.Call, error) {
	return func(c effects.Call, err error) ([]effects.Call, error) {
		c.Reverts = &operation
		return only(c, err)
	}
}
