package identity

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/identity/internal/identitydb"
	"orderonce/internal/postgres"
)

// Tenant is one customer of the installation, or whoever runs it. Its credentials count only while it is active.
type Tenant struct {
	ID        uuid.UUID `json:"id"`
	Name      string    `json:"name"`
	Active    bool      `json:"active"`
	Operator  bool      `json:"operator"` // its principals may hold the scopes that reach every tenant; for ever
	CreatedAt time.Time `json:"created_at"`
}

// nameForm is that of tenants and principals.
var nameForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

func checkName(name string) error {
	if !nameForm.MatchString(name) {
		return fault.Invalid("/name", "must be 1 to 63 of a-z 0-9 -, a letter first")
	}
	return nil
}

// CreateTenant makes a tenant, or finds the one of this name. Where that one is an operators' tenant and this was not to
// be one, or the other way round, it is fault.NameTaken.
func CreateTenant(ctx context.Context, tx *postgres.Tx, by Change, name string, operator bool) (tenant Tenant, made bool, err error) {
	if err := checkName(name); err != nil {
		return Tenant{}, false, err
	}
	db, err := by.begin(ctx, tx)
	if err != nil {
		return Tenant{}, false, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Tenant{}, false, err
	}
	rows, err := queries.InsertTenant(ctx, db, identitydb.InsertTenantParams{
		TenantID: id, Name: name, Operator: operator, CreatedAt: time.Now(),
	})
	if err != nil {
		return Tenant{}, false, fmt.Errorf("insert tenant %s: %w", name, err)
	}
	if tenant, err = FindTenant(ctx, db, name); err != nil {
		return Tenant{}, false, err
	}
	if tenant.Operator != operator {
		return Tenant{}, false, fault.New(fault.NameTaken, fmt.Sprintf("There is a tenant %s with operator %t.", name, tenant.Operator))
	}
	if rows == 0 {
		return tenant, false, nil
	}
	return tenant, true, by.record(ctx, db, id, "tenant.created", id, map[string]any{"name": name, "operator": operator})
}

// SetTenantActive lets the credentials of a tenant count, or no more. An unknown tenant is fault.NotFound.
func SetTenantActive(ctx context.Context, tx *postgres.Tx, by Change, id uuid.UUID, active bool) (Tenant, error) {
	db, err := by.begin(ctx, tx)
	if err != nil {
		return Tenant{}, err
	}
	rows, err := queries.SetTenantActive(ctx, db, identitydb.SetTenantActiveParams{TenantID: id, Active: active})
	if err != nil {
		return Tenant{}, fmt.Errorf("set a tenant's activity: %w", err)
	}
	tenant, err := ReadTenant(ctx, db, id)
	if err != nil || rows == 0 {
		return tenant, err
	}
	return tenant, by.record(ctx, db, id, "tenant."+activity(active), id, map[string]any{"name": tenant.Name})
}

func activity(active bool) string {
	if active {
		return "activated"
	}
	return "deactivated"
}

// FindTenant returns fault.NotFound where there is none of this name.
func FindTenant(ctx context.Context, db postgres.DBTX, name string) (Tenant, error) {
	row, err := queries.FindTenant(ctx, db, name)
	return found(row, err, tenantOf, "tenant")
}

// ReadTenant returns fault.NotFound where there is none of this id.
func ReadTenant(ctx context.Context, db postgres.DBTX, id uuid.UUID) (Tenant, error) {
	row, err := queries.ReadTenant(ctx, db, id)
	return found(row, err, tenantOf, "tenant")
}

// ListTenants reads a page, as ListAuditLog does, of all tenants.
func ListTenants(ctx context.Context, db postgres.DBTX, before uuid.UUID, size int32) (page []Tenant, more bool, err error) {
	rows, err := queries.ListTenants(ctx, db, identitydb.ListTenantsParams{Before: before, PageSize: size + 1})
	if err != nil {
		return nil, false, fmt.Errorf("list tenants: %w", err)
	}
	page, more = pageOf(rows, size, tenantOf)
	return page, more, nil
}

func tenantOf(row identitydb.Tenant) Tenant {
	return Tenant{ID: row.TenantID, Name: row.Name, Active: row.Active, Operator: row.Operator, CreatedAt: row.CreatedAt}
}

// found is the thing of a row, and fault.NotFound where there is no row.
func found[Row, Thing any](row Row, err error, thing func(Row) Thing, kind string) (Thing, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return *new(Thing), fault.New(fault.NotFound, "There is no such "+kind+".")
	}
	if err != nil {
		return *new(Thing), fmt.Errorf("read the %s: %w", kind, err)
	}
	return thing(row), nil
}
