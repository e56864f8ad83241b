package effects

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
)

// effectKind is what those who wait for effects to send watch the commits of their process for.
var effectKind = &postgres.Kind{Name: "effect"}

// Watch lets commits of a pool of this process that make effects wake the worker.
func (w *Worker) Watch(db *postgres.DB) { db.OnCommit(effectKind, w.Wake) }

// Planner makes effects of events. The identity of an effect is the inbox of its destination: an event that comes
// twice, in whatever process, makes nothing.
type Planner struct {
	ended        Ended
	destinations []Destination
}

// NewPlanner plans for these destinations. ended is told of effects that were there and had ended before the event
// that waits for them.
func NewPlanner(ended Ended, destinations ...Destination) *Planner {
	return &Planner{ended: ended, destinations: destinations}
}

// FanOut makes what the events ask of each destination. The events of one order come in the order of their versions,
// and no other transaction fans out events of the same order meanwhile; the dispatcher sees to both. All of it is in tx:
// an error of one destination's Plan leaves nothing of the batch.
func (p *Planner) FanOut(ctx context.Context, tx *postgres.Tx, events []outbox.Recorded) error {
	db, err := tx.DB(ctx)
	if err != nil {
		return err
	}
	var all []planned
	for i := range p.destinations {
		d := &p.destinations[i]
		calls, err := d.Plan(ctx, db, events)
		if err != nil {
			return fmt.Errorf("plan for %s: %w", d.Name, err)
		}
		for _, call := range calls {
			all = append(all, planned{call, d})
		}
	}
	return p.make(ctx, tx, all)
}

// Ask makes effects for somebody other than an event: an import that reserves before it places the order. It waits
// for nobody, and what is there already is left as it is.
func (p *Planner) Ask(ctx context.Context, tx *postgres.Tx, destination string, calls ...Call) error {
	i := slices.IndexFunc(p.destinations, func(d Destination) bool { return d.Name == destination })
	if i < 0 {
		return fmt.Errorf("there is no destination %q", destination)
	}
	all := make([]planned, len(calls))
	for j, call := range calls {
		all[j] = planned{call, &p.destinations[i]}
	}
	return p.make(ctx, tx, all)
}

// planned is a call with its destination.
type planned struct {
	Call
	to *Destination
}

func (a planned) identity() Identity {
	return Identity{Order: a.Order, Destination: a.to.Name, Lane: a.Lane, Operation: a.Operation}
}

func (a planned) laneKey() laneKey {
	return laneKey{tenant: a.Tenant, order: a.Order, destination: a.to.Name, lane: a.Lane}
}

// known says whether the effects of the call's lane have to be known before it is made.
func (a planned) known() bool { return a.to.Ordered || a.Required || a.Reverts != nil }

// errMeanwhile ends a transaction that decided by what another one has changed since. Run again it sees the change.
var errMeanwhile = errors.New("an effect was made at the same time")

func (p *Planner) make(ctx context.Context, tx *postgres.Tx, all []planned) error {
	if len(all) == 0 {
		return nil
	}
	// One order for all transactions, so that two that make the same effects do not wait for each other in a circle.
	slices.SortStableFunc(all, func(a, b planned) int {
		return cmp.Or(bytes.Compare(a.Order[:], b.Order[:]), cmp.Compare(a.to.Name, b.to.Name), cmp.Compare(a.Lane, b.Lane),
			cmp.Compare(a.Version, b.Version))
	})
	db, err := tx.DB(ctx)
	if err != nil {
		return err
	}
	lanes, err := holdLanes(ctx, db, all)
	if err != nil {
		return err
	}
	var rows insert
	settled := map[orderKey]*Effect{} // a required effect of each order that was there, and had ended
	waiting := map[orderKey]bool{}    // orders with a required effect that begins here
	for _, a := range all {
		there := lanes[a.laneKey()]
		if e, exists := there.operation(a.Operation); exists {
			if e != nil && e.Required && (e.State == Succeeded || e.State == Failed) {
				if kept := settled[a.orderKey()]; kept == nil || kept.State == Succeeded {
					settled[a.orderKey()] = e
				}
			}
			continue
		}
		state, due := there.begin(a)
		if state == "" {
			continue
		}
		if err := rows.add(a, state, due); err != nil {
			return err
		}
		if a.known() {
			lanes[a.laneKey()] = there.with(a.Operation, state)
		}
		waiting[a.orderKey()] = waiting[a.orderKey()] || a.Required
	}
	if err := rows.write(ctx, tx, db); err != nil {
		return err
	}
	return p.settle(ctx, tx, settled, waiting)
}

// settle tells of what had ended before the order waited for it. Where the order waits for something else, which has
// only begun, a success changes nothing yet.
func (p *Planner) settle(ctx context.Context, tx *postgres.Tx, settled map[orderKey]*Effect, waiting map[orderKey]bool) error {
	orders := make([]orderKey, 0, len(settled))
	for order, e := range settled {
		if e.State == Failed || !waiting[order] {
			orders = append(orders, order)
		}
	}
	// They lock their orders: in one order for all transactions.
	slices.SortFunc(orders, func(a, b orderKey) int { return bytes.Compare(a.order[:], b.order[:]) })
	for _, order := range orders {
		if err := p.ended(ctx, tx, *settled[order]); err != nil {
			return fmt.Errorf("tell of the end of effect %s: %w", settled[order].ID, err)
		}
	}
	return nil
}

type orderKey struct{ tenant, order uuid.UUID }

func (c Call) orderKey() orderKey { return orderKey{c.Tenant, c.Order} }
