package cloudevents

import (
	"context"
	"time"

	"orderonce/internal/effects"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
)

// Remembered is how long a consumer has to know the ids of the events that it has processed; docs/delivery.md says so to
// them. What may have been delivered is not delivered again past it.
//
// It is what makes a destination of events idempotent: a broker's own memory is of minutes, or of one producer's session.
const Remembered = 7 * 24 * time.Hour

// Orders says whether an event is of an order. Only these leave.
func Orders(event outbox.Recorded) bool { return event.AggregateType == "order" }

// Destination is a broker that gets every event of an order once, those of one order in their order.
func Destination(
	name, source string, concurrency int, timeout time.Duration, send func(context.Context, effects.Effect) effects.Result,
) effects.Destination {
	return effects.Destination{
		Name: name, Capability: effects.Idempotent, Retention: Remembered, Ordered: true,
		Concurrency: concurrency, Timeout: timeout, Plan: Publish(source), Send: send,
	}
}

// Publish is the Plan of a destination that gets every event of an order once.
func Publish(source string) func(context.Context, postgres.DBTX, []outbox.Recorded) ([]effects.Call, error) {
	return func(_ context.Context, _ postgres.DBTX, events []outbox.Recorded) ([]effects.Call, error) {
		var calls []effects.Call
		for _, event := range events {
			if !Orders(event) {
				continue
			}
			envelope, err := Wrap(source, event)
			if err != nil {
				return nil, err
			}
			calls = append(calls, effects.Call{
				Tenant: event.Tenant, Order: event.AggregateID, Operation: "publish:" + event.ID.String(),
				Event: event.ID, Version: event.Version, Request: envelope, Traceparent: event.Traceparent,
			})
		}
		return calls, nil
	}
}
