package effects

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"orderonce/internal/effects/internal/effectsdb"
	"orderonce/internal/postgres"
)

// laneKey is what a destination keeps in order.
type laneKey struct {
	tenant, order     uuid.UUID
	destination, lane string
}

// lane is what is known of the effects of one lane: those that were there, and those that this transaction makes.
type lane struct {
	open bool // one of them has not ended
	made map[string]State
	were map[string]*Effect
}

// operation is the effect of that operation, where there is one; nil where it is made here.
func (l *lane) operation(name string) (e *Effect, exists bool) {
	if l == nil {
		return nil, false
	}
	if _, exists = l.made[name]; exists {
		return nil, true
	}
	e, exists = l.were[name]
	return e, exists
}

// begin says how a new effect of the lane begins, and whether it is due at once. An empty state makes none. The one
// that waits becomes due with the end of its predecessor.
func (l *lane) begin(a planned) (begins State, due bool) {
	if a.Reverts != nil {
		reverted, exists := l.operation(*a.Reverts)
		if !exists {
			return "", false
		}
		if reverted != nil && reverted.State == Failed {
			return Succeeded, false // nothing to undo
		}
	}
	return Pending, !a.to.Ordered || l == nil || !l.open
}

// with is the lane with one effect more.
func (l *lane) with(operation string, state State) *lane {
	if l == nil {
		l = &lane{}
	}
	if l.made == nil {
		l.made = map[string]State{}
	}
	l.made[operation] = state
	l.open = l.open || state == Pending
	return l
}

// holdLanes reads the lanes that have to be known, and holds their effects.
func holdLanes(ctx context.Context, db postgres.DBTX, all []planned) (map[laneKey]*lane, error) {
	var keys effectsdb.HoldLanesParams
	var last laneKey // the calls of a lane are side by side
	for _, a := range all {
		if key := a.laneKey(); a.known() && key != last {
			last = key
			keys.TenantIds = append(keys.TenantIds, a.Tenant)
			keys.OrderIds = append(keys.OrderIds, a.Order)
			keys.Destinations = append(keys.Destinations, a.to.Name)
			keys.Lanes = append(keys.Lanes, a.Lane)
		}
	}
	lanes := map[laneKey]*lane{}
	if len(keys.TenantIds) == 0 {
		return lanes, nil
	}
	rows, err := queries.HoldLanes(ctx, db, keys)
	if err != nil {
		return nil, fmt.Errorf("hold the lanes of effects: %w", err)
	}
	for _, row := range rows {
		e := effectOf(row)
		key := laneKey{e.Tenant, e.Order, e.Destination, e.Lane}
		l := lanes[key]
		if l == nil {
			l = &lane{were: map[string]*Effect{}}
			lanes[key] = l
		}
		l.were[e.Operation] = &e
		l.open = l.open || e.EndedAt == nil
	}
	return lanes, nil
}
