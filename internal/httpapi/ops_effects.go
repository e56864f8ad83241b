package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/httpapi/api"
	"orderonce/internal/idempotency"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
)

const effectResource = "effect"

// ListEffects reads one page of the calls to the outside, newest first.
func (s *Server) ListEffects(ctx context.Context, request api.ListEffectsRequestObject) (api.ListEffectsResponseObject, error) {
	params := request.Params
	filter := effects.Filter{Tenant: given(params.TenantId), Order: given(params.OrderId)}
	switch {
	case params.State != nil:
		filter.State = effects.State(*params.State)
	case params.TenantId == nil:
		filter.State = effects.NeedsHuman
	}
	if params.Destination != nil {
		filter.Destination = *params.Destination
	}
	page, more, err := readPage(ctx, s, params.PageToken, func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]api.Effect, bool, error) {
		page, more, err := effects.List(ctx, db, filter, before, *params.PageSize)
		if err != nil {
			return nil, false, err
		}
		out := make([]api.Effect, len(page))
		for i, e := range page {
			if out[i], err = effectOf(e); err != nil {
				return nil, false, err
			}
		}
		return out, more, nil
	})
	if err != nil {
		return nil, err
	}
	items, next := pageOf(page, more, func(e api.Effect) api.Effect { return e }, func(e api.Effect) uuid.UUID { return e.Id })
	return api.ListEffects200JSONResponse{Effects: items, NextPageToken: next}, nil
}

// GetEffect reads one call to the outside.
func (s *Server) GetEffect(ctx context.Context, request api.GetEffectRequestObject) (api.GetEffectResponseObject, error) {
	var out api.Effect
	err := s.read(ctx, func(ctx context.Context, db postgres.DBTX) error {
		e, err := effects.Find(ctx, db, request.TenantId, request.EffectId)
		if err != nil {
			return err
		}
		out, err = effectOf(e)
		return err
	})
	return api.GetEffect200JSONResponse(out), err
}

// ResolveEffect makes a person's move. The order follows in the same unit.
func (s *Server) ResolveEffect(ctx context.Context, request api.ResolveEffectRequestObject) (api.ResolveEffectResponseObject, error) {
	body, change := request.Body, changeOf(ctx, request.Body.Reason)
	found := effects.Finding{Evidence: *body.Evidence, Absent: *body.Absent}
	find := func(ctx context.Context, db postgres.DBTX, id uuid.UUID) (effects.Effect, error) {
		return effects.Find(ctx, db, request.TenantId, id)
	}
	return s.once(ctx, rebuilt(s, find, resolved), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		e, err := effects.Resolve(ctx, tx, change, request.TenantId, request.EffectId, effects.Move(body.Move), found, orders.Follow)
		return resolved(e), err
	})
}

func resolved(e effects.Effect) reply {
	return reply{
		visit: func(w http.ResponseWriter) error {
			body, err := effectOf(e)
			if err != nil {
				return err
			}
			return api.ResolveEffect200JSONResponse{Body: body}.VisitResolveEffectResponse(w)
		},
		resource: idempotency.Resource{Type: effectResource, ID: e.ID},
	}
}

func effectOf(e effects.Effect) (api.Effect, error) {
	entries, err := e.Entries()
	if err != nil {
		return api.Effect{}, err
	}
	out := api.Effect{
		Id: e.ID, TenantId: e.Tenant, OrderId: e.Order, Destination: e.Destination, Lane: stated(e.Lane), Operation: e.Operation,
		Reverts: e.Reverts, EventId: e.Event, IdempotencyKey: e.Key, Required: e.Required, State: api.EffectState(e.State),
		Attempts: e.Attempts, AttemptToken: e.Token, DueAt: e.DueAt, Owner: e.Owner, FirstSentAt: e.FirstSentAt,
		KeyValidUntil: e.KeyValidUntil, LastError: e.LastError, Evidence: make([]api.EffectEvidence, len(entries)),
		Moves: []api.EffectMove{}, CreatedAt: e.CreatedAt, EndedAt: e.EndedAt,
	}
	for i, entry := range entries {
		out.Evidence[i] = evidenceOf(entry)
	}
	for _, move := range effects.Moves(e) {
		out.Moves = append(out.Moves, api.EffectMove(move))
	}
	return out, nil
}

func evidenceOf(e effects.Entry) api.EffectEvidence {
	return api.EffectEvidence{
		At: e.At, Token: e.Token, Owner: stated(e.Owner), Verdict: stated(string(e.Verdict)), Asked: stated(e.Asked),
		Status: stated(int32(e.Status)), Detail: stated(e.Detail), Actor: stated(e.Actor), //nolint:gosec // an HTTP status
		Move: stated(api.EffectMove(e.Move)), Reason: stated(e.Reason), Absent: stated(e.Absent),
	}
}

// stated is a member that is absent where it says nothing.
func stated[T comparable](value T) *T {
	var nothing T
	if value == nothing {
		return nil
	}
	return &value
}
