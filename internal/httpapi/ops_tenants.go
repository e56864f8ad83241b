package httpapi

import (
	"context"

	"github.com/google/uuid"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/idempotency"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

// CreateTenant makes a tenant, or finds it.
func (s *Server) CreateTenant(ctx context.Context, request api.CreateTenantRequestObject) (api.CreateTenantResponseObject, error) {
	body, change := request.Body, changeOf(ctx, request.Body.Reason)
	return s.once(ctx, rebuilt(s, identity.ReadTenant, madeTenant), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		tenant, made, err := identity.CreateTenant(ctx, tx, change, body.Name, *body.Operator)
		if made {
			return madeTenant(tenant), err
		}
		response := api.CreateTenant200JSONResponse{Body: tenantOf(tenant)}
		return reply{visit: response.VisitCreateTenantResponse, resource: resourceOfTenant(tenant)}, err
	})
}

func madeTenant(tenant identity.Tenant) reply {
	response := api.CreateTenant201JSONResponse{Body: tenantOf(tenant)}
	return reply{visit: response.VisitCreateTenantResponse, resource: resourceOfTenant(tenant)}
}

// ActivateTenant lets a tenant's credentials count again.
func (s *Server) ActivateTenant(ctx context.Context, request api.ActivateTenantRequestObject) (api.ActivateTenantResponseObject, error) {
	return s.setTenantActive(ctx, request.TenantId, request.Body.Reason, true, func(tenant identity.Tenant) reply {
		response := api.ActivateTenant200JSONResponse{Body: tenantOf(tenant)}
		return reply{visit: response.VisitActivateTenantResponse, resource: resourceOfTenant(tenant)}
	})
}

// DeactivateTenant lets none of a tenant's credentials count any more.
func (s *Server) DeactivateTenant(ctx context.Context, request api.DeactivateTenantRequestObject) (api.DeactivateTenantResponseObject, error) {
	return s.setTenantActive(ctx, request.TenantId, request.Body.Reason, false, func(tenant identity.Tenant) reply {
		response := api.DeactivateTenant200JSONResponse{Body: tenantOf(tenant)}
		return reply{visit: response.VisitDeactivateTenantResponse, resource: resourceOfTenant(tenant)}
	})
}

func (s *Server) setTenantActive(
	ctx context.Context, id uuid.UUID, reason string, active bool, answer func(identity.Tenant) reply,
) (stored, error) {
	change := changeOf(ctx, reason)
	return s.once(ctx, rebuilt(s, identity.ReadTenant, answer), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		tenant, err := identity.SetTenantActive(ctx, tx, change, id, active)
		return answer(tenant), err
	})
}

// ListTenants reads one page of all tenants, newest first.
func (s *Server) ListTenants(ctx context.Context, request api.ListTenantsRequestObject) (api.ListTenantsResponseObject, error) {
	params := request.Params
	page, more, err := readPage(ctx, s, params.PageToken, func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]identity.Tenant, bool, error) {
		return identity.ListTenants(ctx, db, before, *params.PageSize)
	})
	if err != nil {
		return nil, err
	}
	tenants, next := pageOf(page, more, tenantOf, func(t identity.Tenant) uuid.UUID { return t.ID })
	return api.ListTenants200JSONResponse{Tenants: tenants, NextPageToken: next}, nil
}

func tenantOf(t identity.Tenant) api.Tenant {
	return api.Tenant{Id: t.ID, Name: t.Name, Active: t.Active, Operator: t.Operator, CreatedAt: t.CreatedAt}
}

func resourceOfTenant(t identity.Tenant) idempotency.Resource {
	return idempotency.Resource{Type: tenantResource, ID: t.ID}
}
