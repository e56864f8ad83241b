package effects

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/effects/internal/effectsdb"
	"orderonce/internal/fault"
	"orderonce/internal/postgres"
)

// Find reads an effect; fault.NotFound where the tenant has none with this id.
func Find(ctx context.Context, db postgres.DBTX, tenant, id uuid.UUID) (Effect, error) {
	row, err := queries.ReadEffect(ctx, db, effectsdb.ReadEffectParams{TenantID: tenant, ID: id})
	if errors.Is(err, pgx.ErrNoRows) {
		return Effect{}, notFound()
	}
	if err != nil {
		return Effect{}, fmt.Errorf("read effect %s: %w", id, err)
	}
	return effectOf(row), nil
}

// Filter says which effects a list has. What is empty filters nothing.
type Filter struct {
	// Tenant may be left out where State is Unknown or NeedsHuman, by whoever may see all of them.
	Tenant      uuid.NullUUID
	State       State
	Destination string
	Order       uuid.NullUUID // of a tenant that is named
}

// List reads up to size effects that are older than before, newest first. more says whether there are others behind
// them. uuid.Max begins at the newest.
func List(ctx context.Context, db postgres.DBTX, f Filter, before uuid.UUID, size int32) (page []Effect, more bool, err error) {
	var state, destination *string
	if f.State != "" {
		state = (*string)(&f.State)
	}
	if f.Destination != "" {
		destination = &f.Destination
	}
	var rows []effectsdb.Effect
	switch {
	case f.Tenant.Valid:
		rows, err = queries.ListEffects(ctx, db, effectsdb.ListEffectsParams{
			TenantID: f.Tenant.UUID, Before: before, State: state, Destination: destination, OrderID: f.Order, PageSize: size + 1,
		})
	case (f.State == Unknown || f.State == NeedsHuman) && !f.Order.Valid:
		rows, err = queries.ListEffectsInDoubt(ctx, db, effectsdb.ListEffectsInDoubtParams{
			Before: before, Doubt: string(f.State), Destination: destination, PageSize: size + 1,
		})
	default:
		return nil, false, fault.Invalid("?tenant_id", "must be given, unless state is unknown or needs_human and no order is named")
	}
	if err != nil {
		return nil, false, fmt.Errorf("list effects: %w", err)
	}
	if more = len(rows) > int(size); more {
		rows = rows[:size]
	}
	page = make([]Effect, len(rows))
	for i, row := range rows {
		page[i] = effectOf(row)
	}
	return page, more, nil
}

// Replayable is what sending an effect's bytes again would mean.
type Replayable struct {
	Effect Effect
	// Remembered says that the destination still knows the key: it executes it once. Where Effect.KeyValidUntil is nil,
	// it never executed the key, for certain.
	Remembered bool
	Refused    string // why Resolve would refuse to resend it without being told more; empty where it would not
}

// Replay reads what List does, and says of each effect whether its key may be sent again. It changes nothing: what sends
// is Resolve with Resend.
func Replay(ctx context.Context, db postgres.DBTX, f Filter, before uuid.UUID, size int32) (page []Replayable, more bool, err error) {
	effects, more, err := List(ctx, db, f, before, size)
	if err != nil {
		return nil, false, err
	}
	remembered, err := rememberedKeys(ctx, db, effects)
	if err != nil {
		return nil, false, err
	}
	page = make([]Replayable, len(effects))
	for i, e := range effects {
		page[i] = Replayable{Effect: e, Remembered: remembered[e.ID]}
		switch {
		case e.State != NeedsHuman:
			page[i].Refused = "it is " + string(e.State) + ": a person resends what needs one"
		case e.KeyValidUntil != nil && !remembered[e.ID]:
			page[i].Refused = keyForgotten
		}
	}
	return page, more, nil
}

// keyForgotten is why a key is not sent again.
const keyForgotten = "its destination may have forgotten it, so ask there, and say so where it is certain that it was never executed"

func rememberedKeys(ctx context.Context, db postgres.DBTX, effects []Effect) (map[uuid.UUID]bool, error) {
	ids, remembered := map[uuid.UUID][]uuid.UUID{}, map[uuid.UUID]bool{}
	for _, e := range effects {
		ids[e.Tenant] = append(ids[e.Tenant], e.ID)
	}
	for tenant, ids := range ids {
		found, err := queries.ListRememberedKeys(ctx, db, effectsdb.ListRememberedKeysParams{TenantID: tenant, Ids: ids})
		if err != nil {
			return nil, fmt.Errorf("list remembered keys: %w", err)
		}
		for _, id := range found {
			remembered[id] = true
		}
	}
	return remembered, nil
}

func notFound() error { return fault.New(fault.NotFound, "There is no such effect.") }

func effectOf(r effectsdb.Effect) Effect {
	return Effect{
		Tenant: r.TenantID, ID: r.ID,
		Identity: Identity{Order: r.OrderID, Destination: r.Destination, Lane: r.Lane, Operation: r.Operation},
		Reverts:  r.Reverts, Event: r.EventID, Version: r.Version, Key: r.IdempotencyKey, Request: r.Request, Required: r.Required,
		State: State(r.State), Attempts: r.Attempts, Token: r.AttemptToken, DueAt: r.DueAt, Owner: r.Owner, FirstSentAt: r.FirstSentAt,
		KeyValidUntil: r.KeyValidUntil, LastError: r.LastError, Evidence: r.Evidence, Traceparent: r.Traceparent,
		CreatedAt: r.CreatedAt, EndedAt: r.EndedAt,
	}
}

// effectTaken is the effect of a row that has one.
func effectTaken(r effectsdb.TakeEffectsRow) Effect {
	return effectOf(effectsdb.Effect{
		TenantID: r.TenantID.UUID, ID: r.ID.UUID, Destination: *r.Destination, Lane: *r.Lane, Operation: *r.Operation, Reverts: r.Reverts,
		EventID: r.EventID.UUID, OrderID: r.OrderID.UUID, Version: *r.Version, IdempotencyKey: r.IdempotencyKey.UUID, Request: r.Request,
		RequestHash: r.RequestHash, Required: *r.Required, State: *r.State, Attempts: *r.Attempts, AttemptToken: *r.AttemptToken,
		DueAt: r.DueAt, Owner: r.Owner, FirstSentAt: r.FirstSentAt, KeyValidUntil: r.KeyValidUntil, LastError: r.LastError,
		Evidence: r.Evidence, Traceparent: r.Traceparent, CreatedAt: *r.CreatedAt, EndedAt: r.EndedAt,
	})
}
