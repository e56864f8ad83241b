package httpapi

import (
	"context"

	"orderonce/internal/fault"
	"orderonce/internal/httpapi/api"
	"orderonce/internal/idempotency"
)

// GetIdempotencyKey tells what became of a key in the caller's own scope.
func (s *Server) GetIdempotencyKey(ctx context.Context, request api.GetIdempotencyKeyRequestObject) (api.GetIdempotencyKeyResponseObject, error) {
	policy := s.spec.policyOf(request.Params.Operation)
	if policy == nil {
		return nil, &fault.Error{Kind: fault.InvalidRequest, Fields: []fault.Field{{
			Pointer: "?operation", Reason: "is no operation that takes a key",
		}}}
	}
	// What is known in memory is told without a look at any table.
	if err := s.authenticate(ctx, callOf(ctx)); err != nil {
		return nil, err
	}
	principal := callOf(ctx).principal
	scope := policy.Scope(principal.Tenant, principal.ID, request.Params.Operation, idempotency.Key(request.Key))
	state, err := s.modules.Tenants.Keys.Look(ctx, scope)
	if err != nil {
		return nil, err
	}
	switch {
	case state.InProgress:
		return api.GetIdempotencyKey200JSONResponse{State: api.InProgress}, nil
	case !state.Completed:
		return api.GetIdempotencyKey200JSONResponse{State: api.Absent}, nil
	}
	status := int32(state.Status) //nolint:gosec // an HTTP status
	out := api.GetIdempotencyKey200JSONResponse{State: api.Completed, Status: &status}
	if !state.Expires.IsZero() {
		out.ExpiresAt = &state.Expires
	}
	if state.Resource != nil {
		out.Resource = pathOf(*state.Resource)
	}
	return out, nil
}

// pathOf is where a caller reads the resource of an outcome; nil for what only operators do.
func pathOf(r idempotency.Resource) *string {
	var path string
	switch r.Type {
	case orderResource:
		path = orderPath(r.ID.String())
	case taskResource:
		path = taskPath(r.ID.String())
	default:
		return nil
	}
	return &path
}
