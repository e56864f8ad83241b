package httpapi

import (
	"context"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/idempotency"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

// The operations that make a key replay by reference: what is stored of their answer is the key's id, never its text. A
// resource in each of their answers is what keeps it so.

// CreateAPIKey makes an API key, or finds it.
func (s *Server) CreateAPIKey(ctx context.Context, request api.CreateAPIKeyRequestObject) (api.CreateAPIKeyResponseObject, error) {
	body, change := request.Body, changeOf(ctx, request.Body.Reason)
	plan := identity.KeyPlan{Name: body.Name, Expires: body.ExpiresAt}
	for _, scope := range body.Scopes {
		plan.Scopes = append(plan.Scopes, string(scope))
	}
	answer := func(key identity.APIKey, text string) reply {
		visit := api.CreateAPIKey200JSONResponse{Body: apiKeyOf(key)}.VisitCreateAPIKeyResponse
		if text != "" {
			visit = api.CreateAPIKey201JSONResponse{Body: withSecret(key, text)}.VisitCreateAPIKeyResponse
		}
		return reply{visit: visit, resource: resourceOfAPIKey(key)}
	}
	return s.once(ctx, s.rebuiltAPIKey(request.TenantId, answer), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		key, text, err := identity.CreateKey(ctx, tx, change, request.TenantId, body.PrincipalId, plan)
		return answer(key, text), err
	})
}

// RotateAPIKey gives the key's principal a new one and lets its others end.
func (s *Server) RotateAPIKey(ctx context.Context, request api.RotateAPIKeyRequestObject) (api.RotateAPIKeyResponseObject, error) {
	body, change := request.Body, changeOf(ctx, request.Body.Reason)
	rotation := identity.Rotation{
		Name: body.Name, Expires: body.ExpiresAt, Overlap: time.Duration(*body.OverlapSeconds) * time.Second,
	}
	answer := func(key identity.APIKey, text string) reply {
		visit := api.RotateAPIKey200JSONResponse{Body: apiKeyOf(key)}.VisitRotateAPIKeyResponse
		if text != "" {
			visit = api.RotateAPIKey201JSONResponse{Body: withSecret(key, text)}.VisitRotateAPIKeyResponse
		}
		return reply{visit: visit, resource: resourceOfAPIKey(key)}
	}
	return s.once(ctx, s.rebuiltAPIKey(request.TenantId, answer), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		key, text, err := identity.RotateKey(ctx, tx, change, request.TenantId, request.ApiKeyId, rotation)
		return answer(key, text), err
	})
}

// RevokeAPIKey ends an API key at once.
func (s *Server) RevokeAPIKey(ctx context.Context, request api.RevokeAPIKeyRequestObject) (api.RevokeAPIKeyResponseObject, error) {
	change := changeOf(ctx, request.Body.Reason)
	answer := func(key identity.APIKey, _ string) reply {
		response := api.RevokeAPIKey200JSONResponse{Body: apiKeyOf(key)}
		return reply{visit: response.VisitRevokeAPIKeyResponse, resource: resourceOfAPIKey(key)}
	}
	return s.once(ctx, s.rebuiltAPIKey(request.TenantId, answer), func(ctx context.Context, tx *postgres.Tx) (reply, error) {
		key, err := identity.RevokeKey(ctx, tx, change, request.TenantId, request.ApiKeyId)
		return answer(key, ""), err
	})
}

// rebuiltAPIKey makes a keyed operation's answer of the key as it is now, without its text.
func (s *Server) rebuiltAPIKey(tenant uuid.UUID, answer func(identity.APIKey, string) reply) func(context.Context, uuid.UUID) (reply, error) {
	find := func(ctx context.Context, db postgres.DBTX, id uuid.UUID) (identity.APIKey, error) {
		return identity.ReadKey(ctx, db, tenant, id)
	}
	return rebuilt(s, find, func(key identity.APIKey) reply { return answer(key, "") })
}

// ListAPIKeys reads one page of a tenant's API keys, newest first.
func (s *Server) ListAPIKeys(ctx context.Context, request api.ListAPIKeysRequestObject) (api.ListAPIKeysResponseObject, error) {
	params := request.Params
	page, more, err := readPage(ctx, s, params.PageToken, func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]identity.APIKey, bool, error) {
		return identity.ListKeys(ctx, db, request.TenantId, given(params.PrincipalId), before, *params.PageSize)
	})
	if err != nil {
		return nil, err
	}
	keys, next := pageOf(page, more, apiKeyOf, func(k identity.APIKey) uuid.UUID { return k.ID })
	return api.ListAPIKeys200JSONResponse{ApiKeys: keys, NextPageToken: next}, nil
}

func apiKeyOf(k identity.APIKey) api.APIKey {
	out := api.APIKey{
		Id: k.ID, TenantId: k.Tenant, PrincipalId: k.Principal, Name: k.Name, Prefix: k.Prefix, Scopes: make([]api.Scope, len(k.Scopes)),
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, LastUsedAt: k.LastUsedAt,
	}
	for i, scope := range k.Scopes {
		out.Scopes[i] = api.Scope(scope)
	}
	return out
}

func withSecret(key identity.APIKey, text string) api.APIKey {
	out := apiKeyOf(key)
	out.Secret = &text
	return out
}

func resourceOfAPIKey(k identity.APIKey) idempotency.Resource {
	return idempotency.Resource{Type: apiKeyResource, ID: k.ID}
}
