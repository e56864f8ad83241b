package httpapi

import (
	"context"

	"github.com/google/uuid"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/idempotency"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

// CreatePrincipal makes a principal of a tenant, or finds it.
func (s *Server) CreatePrincipal(ctx context.Context, request api.CreatePrincipalRequestObject) (api.CreatePrincipalResponseObject, error) {
	body, change := request.Body, changeOf(ctx, request.Body.Reason)
	return s.once(ctx, rebuilt(s, principalIn(request.TenantId), madePrincipal), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		principal, made, err := identity.CreatePrincipal(ctx, tx, change, request.TenantId, body.Name)
		if made {
			return madePrincipal(principal), err
		}
		response := api.CreatePrincipal200JSONResponse{Body: principalOf(principal)}
		return reply{visit: response.VisitCreatePrincipalResponse, resource: resourceOfPrincipal(principal)}, err
	})
}

func madePrincipal(principal identity.PrincipalRecord) reply {
	response := api.CreatePrincipal201JSONResponse{Body: principalOf(principal)}
	return reply{visit: response.VisitCreatePrincipalResponse, resource: resourceOfPrincipal(principal)}
}

// ActivatePrincipal lets a principal's credentials count again.
func (s *Server) ActivatePrincipal(ctx context.Context, request api.ActivatePrincipalRequestObject) (api.ActivatePrincipalResponseObject, error) {
	return s.setPrincipalActive(ctx, request.TenantId, request.PrincipalId, request.Body.Reason, true, func(p identity.PrincipalRecord) reply {
		response := api.ActivatePrincipal200JSONResponse{Body: principalOf(p)}
		return reply{visit: response.VisitActivatePrincipalResponse, resource: resourceOfPrincipal(p)}
	})
}

// DeactivatePrincipal lets none of a principal's credentials count any more.
func (s *Server) DeactivatePrincipal(ctx context.Context, request api.DeactivatePrincipalRequestObject) (api.DeactivatePrincipalResponseObject, error) {
	return s.setPrincipalActive(ctx, request.TenantId, request.PrincipalId, request.Body.Reason, false, func(p identity.PrincipalRecord) reply {
		response := api.DeactivatePrincipal200JSONResponse{Body: principalOf(p)}
		return reply{visit: response.VisitDeactivatePrincipalResponse, resource: resourceOfPrincipal(p)}
	})
}

func (s *Server) setPrincipalActive(
	ctx context.Context, tenant, id uuid.UUID, reason string, active bool, answer func(identity.PrincipalRecord) reply,
) (stored, error) {
	change := changeOf(ctx, reason)
	return s.once(ctx, rebuilt(s, principalIn(tenant), answer), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		principal, err := identity.SetPrincipalActive(ctx, tx, change, tenant, id, active)
		return answer(principal), err
	})
}

// principalIn finds a principal of the tenant.
func principalIn(tenant uuid.UUID) func(context.Context, postgres.DBTX, uuid.UUID) (identity.PrincipalRecord, error) {
	return func(ctx context.Context, db postgres.DBTX, id uuid.UUID) (identity.PrincipalRecord, error) {
		return identity.ReadPrincipal(ctx, db, tenant, id)
	}
}

// ListPrincipals reads one page of a tenant's principals, newest first.
func (s *Server) ListPrincipals(ctx context.Context, request api.ListPrincipalsRequestObject) (api.ListPrincipalsResponseObject, error) {
	params := request.Params
	page, more, err := readPage(ctx, s, params.PageToken, func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]identity.PrincipalRecord, bool, error) {
		return identity.ListPrincipals(ctx, db, request.TenantId, before, *params.PageSize)
	})
	if err != nil {
		return nil, err
	}
	principals, next := pageOf(page, more, principalOf, func(p identity.PrincipalRecord) uuid.UUID { return p.ID })
	return api.ListPrincipals200JSONResponse{Principals: principals, NextPageToken: next}, nil
}

func principalOf(p identity.PrincipalRecord) api.Principal {
	return api.Principal{
		Id: p.ID, TenantId: p.Tenant, Name: p.Name, Issuer: p.Issuer, Subject: p.Subject, Active: p.Active, CreatedAt: p.CreatedAt,
	}
}

func resourceOfPrincipal(p identity.PrincipalRecord) idempotency.Resource {
	return idempotency.Resource{Type: principalResource, ID: p.ID}
}
