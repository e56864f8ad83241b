package webhooks

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/effects/cloudevents"
	"orderonce/internal/effects/webhooks/internal/webhooksdb"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
)

const (
	// Name is the destination's.
	Name = "webhooks"

	// GiveUp is how long a receiver may not be reached before its subscription is disabled.
	GiveUp = 5 * 24 * time.Hour

	// DefaultTimeout bounds one delivery where nothing else is set.
	DefaultTimeout = 15 * time.Second

	// bookkeeping bounds what is read before a delivery, and what is written after it.
	bookkeeping = 2 * time.Second
)

// Config is what an operator decides.
type Config struct {
	Guard       Guard
	Source      string         // of the CloudEvents
	Timeout     time.Duration  // of one delivery, from the name's resolution to the answer's last byte
	Concurrency int            // deliveries under way at once
	RootCAs     *x509.CertPool // that receivers' certificates are judged by; nil for the system's
	Resolver    *net.Resolver  // of receivers' names; nil for the system's
}

// Deliveries sends events to subscribers.
type Deliveries struct {
	db     *postgres.DB
	config Config
	client client
	log    *slog.Logger
}

// New needs a pool of the Worker role. The caller closes the result.
func New(db *postgres.DB, config Config, log *slog.Logger) *Deliveries {
	return &Deliveries{db: db, config: config, client: newClient(config), log: log}
}

// Close closes the connections that wait for another delivery.
func (d *Deliveries) Close() { d.client.CloseIdleConnections() }

// Destination is the deliveries as effects make them. Receivers make it idempotent: they have to know an event that they
// have processed by its webhook-id.
func (d *Deliveries) Destination() effects.Destination {
	return effects.Destination{
		Name: Name, Capability: effects.Idempotent, Retention: cloudevents.Remembered, Ordered: true,
		Concurrency: d.config.Concurrency, Timeout: d.config.Timeout + 2*bookkeeping,
		Plan: d.plan, Send: d.send,
	}
}

// plan asks for one delivery of each event to each active subscription that wants it. Subscriptions are read once, for
// all tenants of the batch.
func (d *Deliveries) plan(ctx context.Context, db postgres.DBTX, events []outbox.Recorded) ([]effects.Call, error) {
	var tenants []uuid.UUID
	for _, event := range events {
		if cloudevents.Orders(event) && !slices.Contains(tenants, event.Tenant) {
			tenants = append(tenants, event.Tenant)
		}
	}
	if len(tenants) == 0 {
		return nil, nil
	}
	rows, err := queries.ListActiveSubscriptions(ctx, db, tenants)
	if err != nil {
		return nil, fmt.Errorf("list the active webhooks: %w", err)
	}
	subscriptions := map[uuid.UUID][]webhooksdb.ListActiveSubscriptionsRow{}
	for _, row := range rows {
		subscriptions[row.TenantID] = append(subscriptions[row.TenantID], row)
	}
	var calls []effects.Call
	for _, event := range events {
		if !cloudevents.Orders(event) {
			continue
		}
		var body []byte
		for _, s := range subscriptions[event.Tenant] {
			if len(s.EventTypes) > 0 && !slices.Contains(s.EventTypes, event.Type) {
				continue
			}
			if body == nil {
				if body, err = cloudevents.Wrap(d.config.Source, event); err != nil {
					return nil, err
				}
			}
			calls = append(calls, effects.Call{
				Tenant: event.Tenant, Order: event.AggregateID, Lane: s.ID.String(), Operation: "deliver:" + event.ID.String(),
				Event: event.ID, Version: event.Version, Request: body, Traceparent: event.Traceparent,
			})
		}
	}
	return calls, nil
}

// send makes one delivery. No transaction is open while it does: what it needs is read before, and what it learns of
// the receiver is written after, in units of their own.
func (d *Deliveries) send(ctx context.Context, e effects.Effect) effects.Result {
	id, err := uuid.Parse(e.Lane)
	if err != nil {
		return effects.Result{Verdict: effects.Impossible, Detail: "the lane is no subscription"}
	}
	delivery, err := d.read(ctx, e.Tenant, id)
	if err != nil {
		d.log.WarnContext(ctx, "read a webhook", slog.String("subscription", e.Lane), slog.String("error", err.Error()))
		return effects.Result{Verdict: effects.NotExecuted, Detail: "the subscription cannot be read"}
	}
	if !delivery.Active {
		return effects.Result{Verdict: effects.Refused, Detail: "subscription inactive"}
	}
	if err := d.config.Guard.CheckURL(delivery.Url); err != nil { // the operator has become stricter
		return effects.Result{Verdict: effects.Refused, Detail: "the URL is not allowed any more"}
	}
	result := d.client.deliver(ctx, delivery.Url, e.Event.String(), delivery.Secrets, e.Request)
	d.learn(ctx, e.Tenant, id, delivery.FailingSince != nil, result)
	return result
}

func (d *Deliveries) read(ctx context.Context, tenant, id uuid.UUID) (row webhooksdb.ReadDeliveryRow, err error) {
	ctx, cancel := context.WithTimeout(ctx, bookkeeping)
	defer cancel()
	err = d.db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		row, err = queries.ReadDelivery(ctx, db, webhooksdb.ReadDeliveryParams{TenantID: tenant, ID: id})
		return err
	})
	return row, err
}

// learn keeps what a delivery tells of its receiver. What cannot be kept now, the next delivery tells again.
func (d *Deliveries) learn(ctx context.Context, tenant, id uuid.UUID, failing bool, result effects.Result) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bookkeeping)
	defer cancel()
	var off string
	err := d.db.Run(ctx, postgres.Unit{LockTimeout: bookkeeping / 2}, func(ctx context.Context, tx *postgres.Tx) error {
		off = ""
		switch {
		case result.Status == statusGone:
			off = Gone
		case result.Verdict == effects.Done && !failing:
			return nil
		case result.Verdict == effects.Done:
			db, err := tx.DB(ctx)
			if err != nil {
				return err
			}
			return queries.MarkReached(ctx, db, webhooksdb.MarkReachedParams{TenantID: tenant, ID: id})
		default:
			db, err := tx.DB(ctx)
			if err != nil {
				return err
			}
			mark, err := queries.MarkFailing(ctx, db, webhooksdb.MarkFailingParams{TenantID: tenant, ID: id})
			if err != nil {
				return err
			}
			if mark.Now.Sub(mark.FailingSince) < GiveUp {
				return nil
			}
			off = Failing
		}
		_, changed, err := Disable(ctx, tx, tenant, id, off)
		if !changed {
			off = ""
		}
		return err
	})
	if err != nil {
		d.log.WarnContext(ctx, "keep what a delivery told", slog.String("subscription", id.String()), slog.String("error", err.Error()))
	} else if off != "" {
		d.log.InfoContext(ctx, "webhook disabled", slog.String("subscription", id.String()), slog.String("reason", off))
	}
}
