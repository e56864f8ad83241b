package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
)

// State is what is known of a key at one moment.
type State struct {
	InProgress bool // a first request is running
	Completed  bool // a request with the same parameters would be given Status; neither: a request would run
	Status     int
	Resource   *Resource
	Expires    time.Time // zero while the answer is a promise
}

// probeWait is how long a look waits for the row of a request under way before it takes it to be running.
const probeWait = 10 * time.Millisecond

// errProbed ends the unit of a look, always: what it claimed is rolled back.
var errProbed = errors.New("looked")

// Look tells what became of a key, and leaves it as it is. A running request's claim is visible to nobody before it
// commits, so the look tries to claim the key and takes that back: a request that meets it waits these milliseconds.
func (k *Keys) Look(ctx context.Context, scope Scope) (State, error) {
	if k.leads(scope) {
		return State{InProgress: true}, nil
	}
	probe := &claim{request: &Request{Scope: scope, Parameters: &Parameters{}}, createdAt: time.Now()}
	unit := postgres.Unit{
		Tenant: scope.Tenant, First: []postgres.Staged{{Kind: claimKind, Row: probe}}, LockTimeout: probeWait, Open: true,
	}
	ctx, cancel := postgres.Detach(ctx, k.deadline)
	defer cancel()
	err := k.db.InTx(ctx, unit, func(context.Context, *postgres.Tx) error { return errProbed })
	switch {
	case errors.Is(err, errProbed):
		return State{}, nil
	case fault.KindOf(err) == fault.InProgress:
		return State{InProgress: true}, nil
	case postgres.RefusedBy(err) != claimKind:
		return State{}, err
	}
	row, err := k.read(ctx, scope)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Expired {
		return State{}, nil
	}
	if err != nil {
		return State{}, err
	}
	if row.ResponseStatus == nil {
		return State{}, fault.New(fault.RecordIncomplete, "")
	}
	outcome, err := outcomeOf(row)
	return State{Completed: true, Status: outcome.Status, Resource: outcome.Resource, Expires: outcome.Expires}, err
}

// leads says whether a request of this process leads the scope.
func (k *Keys) leads(scope Scope) bool {
	k.flights.mu.Lock()
	defer k.flights.mu.Unlock()
	_, ok := k.flights.leaders[scope]
	return ok
}
