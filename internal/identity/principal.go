package identity

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/identity/internal/identitydb"
	"orderonce/internal/postgres"
)

// PrincipalRecord is what is known of a machine client or a user of a tenant. Its idempotency keys are its own, whatever
// credential it shows; its credentials count only while it and its tenant are active.
type PrincipalRecord struct {
	ID        uuid.UUID `json:"id"`
	Tenant    uuid.UUID `json:"tenant_id"`
	Name      *string   `json:"name,omitempty"` // nil where an identity provider names it by issuer and subject
	Issuer    *string   `json:"issuer,omitempty"`
	Subject   *string   `json:"subject,omitempty"`
	Active    bool      `json:"active"`
	CreatedAt time.Time `json:"created_at"`
}

// CreatePrincipal makes a principal that can hold API keys, or finds the tenant's one of this name. An unknown tenant is
// fault.NotFound, an inactive one fault.NotActive.
func CreatePrincipal(ctx context.Context, tx *postgres.Tx, by Change, tenant uuid.UUID, name string) (p PrincipalRecord, made bool, err error) {
	if err := checkName(name); err != nil {
		return PrincipalRecord{}, false, err
	}
	db, err := by.begin(ctx, tx)
	if err != nil {
		return PrincipalRecord{}, false, err
	}
	owner, err := ReadTenant(ctx, db, tenant)
	if err != nil {
		return PrincipalRecord{}, false, err
	}
	if p, err = FindPrincipal(ctx, db, tenant, name); fault.KindOf(err) != fault.NotFound {
		return p, false, err
	}
	if !owner.Active {
		return PrincipalRecord{}, false, fault.New(fault.NotActive, "The tenant is not active.")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return PrincipalRecord{}, false, err
	}
	rows, err := queries.InsertPrincipal(ctx, db, identitydb.InsertPrincipalParams{
		TenantID: tenant, ID: id, Name: name, CreatedAt: time.Now(),
	})
	if err != nil {
		return PrincipalRecord{}, false, fmt.Errorf("insert principal %s: %w", name, err)
	}
	// Another unit may have made it since it was looked for.
	if p, err = FindPrincipal(ctx, db, tenant, name); err != nil || rows == 0 {
		return p, false, err
	}
	return p, true, by.record(ctx, db, tenant, "principal.created", id, map[string]any{"name": name})
}

// SetPrincipalActive lets the credentials of a principal count, or no more. An unknown principal is fault.NotFound.
func SetPrincipalActive(ctx context.Context, tx *postgres.Tx, by Change, tenant, id uuid.UUID, active bool) (PrincipalRecord, error) {
	db, err := by.begin(ctx, tx)
	if err != nil {
		return PrincipalRecord{}, err
	}
	rows, err := queries.SetPrincipalActive(ctx, db, identitydb.SetPrincipalActiveParams{TenantID: tenant, ID: id, Active: active})
	if err != nil {
		return PrincipalRecord{}, fmt.Errorf("set a principal's activity: %w", err)
	}
	p, err := ReadPrincipal(ctx, db, tenant, id)
	if err != nil || rows == 0 {
		return p, err
	}
	return p, by.record(ctx, db, tenant, "principal."+activity(active), id, map[string]any{"name": p.Name})
}

// FindPrincipal returns fault.NotFound where the tenant has none of this name.
func FindPrincipal(ctx context.Context, db postgres.DBTX, tenant uuid.UUID, name string) (PrincipalRecord, error) {
	row, err := queries.FindPrincipal(ctx, db, identitydb.FindPrincipalParams{TenantID: tenant, Name: name})
	return found(row, err, principalOf, "principal")
}

// ReadPrincipal returns fault.NotFound where the tenant has none of this id.
func ReadPrincipal(ctx context.Context, db postgres.DBTX, tenant, id uuid.UUID) (PrincipalRecord, error) {
	row, err := queries.ReadPrincipal(ctx, db, identitydb.ReadPrincipalParams{TenantID: tenant, ID: id})
	return found(row, err, principalOf, "principal")
}

// ListPrincipals reads a page, as ListAuditLog does, of a tenant's principals. An unknown tenant is fault.NotFound.
func ListPrincipals(ctx context.Context, db postgres.DBTX, tenant, before uuid.UUID, size int32) (page []PrincipalRecord, more bool, err error) {
	if _, err := ReadTenant(ctx, db, tenant); err != nil {
		return nil, false, err
	}
	rows, err := queries.ListPrincipals(ctx, db, identitydb.ListPrincipalsParams{
		TenantID: tenant, Before: before, PageSize: size + 1,
	})
	if err != nil {
		return nil, false, fmt.Errorf("list principals: %w", err)
	}
	page, more = pageOf(rows, size, principalOf)
	return page, more, nil
}

func principalOf(row identitydb.Principal) PrincipalRecord {
	return PrincipalRecord{
		ID: row.ID, Tenant: row.TenantID, Name: row.Name, Issuer: row.Issuer, Subject: row.Subject, Active: row.Active,
		CreatedAt: row.CreatedAt,
	}
}
