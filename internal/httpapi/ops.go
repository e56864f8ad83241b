package httpapi

import (
	"context"

	"github.com/google/uuid"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

// What the operators' operations, in the files named ops_…, have in common. They work on the operators' side: what they
// change is any tenant's, and their idempotency keys are remembered under the operator's own.

// The types of an outcome's resource.
const (
	tenantResource    = "tenant"
	principalResource = "principal"
	apiKeyResource    = "api_key"
	webhookResource   = "webhook"
)

// changeOf is what the audit log will say of a change that the caller makes.
func changeOf(ctx context.Context, reason string) identity.Change {
	return identity.Change{Actor: "principal:" + callOf(ctx).principal.ID.String(), Reason: reason}
}

// given is a parameter that may be absent.
func given(id *uuid.UUID) uuid.NullUUID {
	if id == nil {
		return uuid.NullUUID{}
	}
	return uuid.NullUUID{UUID: *id, Valid: true}
}

// ListAuditLog reads one page of what operators changed, newest first.
func (s *Server) ListAuditLog(ctx context.Context, request api.ListAuditLogRequestObject) (api.ListAuditLogResponseObject, error) {
	params := request.Params
	page, more, err := readPage(ctx, s, params.PageToken, func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]identity.AuditEntry, bool, error) {
		return identity.ListAuditLog(ctx, db, given(params.TenantId), before, *params.PageSize)
	})
	if err != nil {
		return nil, err
	}
	entries, next := pageOf(page, more, auditEntryOf, func(e identity.AuditEntry) uuid.UUID { return e.ID })
	return api.ListAuditLog200JSONResponse{Entries: entries, NextPageToken: next}, nil
}

func auditEntryOf(e identity.AuditEntry) api.AuditLogEntry {
	return api.AuditLogEntry{
		Id: e.ID, TenantId: e.Tenant, Actor: e.Actor, Action: e.Action, SubjectType: e.SubjectType, SubjectId: e.SubjectID,
		Reason: e.Reason, Details: e.Details, OccurredAt: e.OccurredAt,
	}
}
