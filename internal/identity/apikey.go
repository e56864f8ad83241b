package identity

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/identity/internal/identitydb"
	"orderonce/internal/postgres"
)

// APIKey is what is known of a key: all but its secret, of which only a hash is stored.
type APIKey struct {
	ID         uuid.UUID  `json:"id"`
	Tenant     uuid.UUID  `json:"tenant_id"`
	Principal  uuid.UUID  `json:"principal_id"`
	Name       string     `json:"name"`
	Prefix     string     `json:"prefix"` // what its text begins with, to know a key by that was found somewhere
	Scopes     []string   `json:"scopes"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"` // up to a minute behind: see Keyring.RecordUses
}

// KeyPlan is what a new key is to be.
type KeyPlan struct {
	Name    string // 1 to 63 of a-z 0-9 . -; the principal's keys never share one, dead ones included
	Scopes  []string
	Expires *time.Time // nil: no end
}

var keyNameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`)

// CreateKey makes an API key of a principal and returns its text, which cannot be had a second time. It finds the key of
// this name where that was made with the same scopes and end, and then the text is empty; another one's name is
// fault.NameTaken, and so is that of a revoked key.
//
// An unknown tenant or principal is fault.NotFound, an inactive one fault.NotActive. A scope that the tenant may not
// give, an end in the past and a principal that an identity provider names are fault.ValidationFailed.
func CreateKey(ctx context.Context, tx *postgres.Tx, by Change, tenant, principal uuid.UUID, plan KeyPlan) (key APIKey, text string, err error) {
	db, err := by.begin(ctx, tx)
	if err != nil {
		return APIKey{}, "", err
	}
	key, text, err = plan.issue(ctx, db, tenant, principal)
	if err != nil || text == "" {
		return key, "", err
	}
	return key, text, by.record(ctx, db, tenant, "api_key.created", key.ID, key.details())
}

// RevokeKey ends a key at once. An unknown key is fault.NotFound.
func RevokeKey(ctx context.Context, tx *postgres.Tx, by Change, tenant, id uuid.UUID) (APIKey, error) {
	db, err := by.begin(ctx, tx)
	if err != nil {
		return APIKey{}, err
	}
	now := time.Now()
	rows, err := queries.RevokeAPIKey(ctx, db, identitydb.RevokeAPIKeyParams{TenantID: tenant, ID: id, RevokedAt: &now})
	if err != nil {
		return APIKey{}, fmt.Errorf("revoke a key: %w", err)
	}
	key, err := ReadKey(ctx, db, tenant, id)
	if err != nil || rows == 0 {
		return key, err
	}
	return key, by.record(ctx, db, tenant, "api_key.revoked", id, key.details())
}

// issue makes the planned key, or finds it and returns no text.
func (p KeyPlan) issue(ctx context.Context, db postgres.DBTX, tenant, principal uuid.UUID) (key APIKey, text string, err error) {
	if !keyNameForm.MatchString(p.Name) {
		return APIKey{}, "", fault.Invalid("/name", "must be 1 to 63 of a-z 0-9 . -, a letter or digit first")
	}
	owner, err := ReadTenant(ctx, db, tenant)
	if err != nil {
		return APIKey{}, "", err
	}
	row, err := queries.LockPrincipal(ctx, db, identitydb.LockPrincipalParams{TenantID: tenant, ID: principal})
	holder, err := found(row, err, principalOf, "principal")
	if err != nil {
		return APIKey{}, "", err
	}
	if p.Scopes, err = grantable(owner, p.Scopes); err != nil {
		return APIKey{}, "", err
	}
	if key, err = FindKey(ctx, db, tenant, principal, p.Name); err == nil {
		return key, "", p.sameAs(key)
	}
	if fault.KindOf(err) != fault.NotFound {
		return APIKey{}, "", err
	}
	switch {
	case !owner.Active:
		return APIKey{}, "", fault.New(fault.NotActive, "The tenant is not active.")
	case !holder.Active:
		return APIKey{}, "", fault.New(fault.NotActive, "The principal is not active.")
	case holder.Name == nil:
		return APIKey{}, "", fault.Invalid("/principal_id", "is of an identity provider and shows its tokens")
	case p.Expires != nil && !p.Expires.After(time.Now()):
		return APIKey{}, "", fault.Invalid("/expires_at", "must lie in the future")
	}
	return p.mint(ctx, db, tenant, principal)
}

func (p KeyPlan) mint(ctx context.Context, db postgres.DBTX, tenant, principal uuid.UUID) (key APIKey, text string, err error) {
	text, minted, err := mintToken()
	if err != nil {
		return APIKey{}, "", fmt.Errorf("mint a key: %w", err)
	}
	row, err := queries.InsertAPIKey(ctx, db, identitydb.InsertAPIKeyParams{
		TenantID: tenant, ID: minted.id, PrincipalID: principal, Name: p.Name, SecretHash: minted.hash[:], Scopes: p.Scopes,
		CreatedAt: time.Now(), ExpiresAt: p.Expires,
	})
	if err != nil {
		return APIKey{}, "", fmt.Errorf("store a key: %w", err)
	}
	return keyOf(row), text, nil
}

// sameAs returns fault.NameTaken where the key of the plan's name is not the planned one, or not alive to be it.
func (p KeyPlan) sameAs(key APIKey) error {
	switch {
	case key.RevokedAt != nil:
		return fault.New(fault.NameTaken, "The principal's key of this name was revoked.")
	case !slices.Equal(key.Scopes, p.Scopes):
		return fault.New(fault.NameTaken, "The principal has a key of this name with other scopes.")
	case !sameEnd(key.ExpiresAt, p.Expires):
		return fault.New(fault.NameTaken, "The principal has a key of this name with another end.")
	}
	return nil
}

// sameEnd compares times as PostgreSQL keeps them.
func sameEnd(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
}

// details is what the audit log says of a key.
func (k APIKey) details() map[string]any {
	return map[string]any{"principal_id": k.Principal, "name": k.Name, "scopes": k.Scopes, "expires_at": k.ExpiresAt}
}

// FindKey returns fault.NotFound where the principal has no key of this name.
func FindKey(ctx context.Context, db postgres.DBTX, tenant, principal uuid.UUID, name string) (APIKey, error) {
	row, err := queries.FindAPIKey(ctx, db, identitydb.FindAPIKeyParams{TenantID: tenant, PrincipalID: principal, Name: name})
	return found(row, err, keyOf, "API key")
}

// ReadKey returns fault.NotFound where the tenant has no key of this id.
func ReadKey(ctx context.Context, db postgres.DBTX, tenant, id uuid.UUID) (APIKey, error) {
	row, err := queries.ReadAPIKey(ctx, db, identitydb.ReadAPIKeyParams{TenantID: tenant, ID: id})
	return found(row, err, keyOf, "API key")
}

// ListKeys reads a page, as ListAuditLog does, of a tenant's keys, dead ones included; of one principal's where one is
// given. An unknown tenant or principal is fault.NotFound.
func ListKeys(
	ctx context.Context, db postgres.DBTX, tenant uuid.UUID, principal uuid.NullUUID, before uuid.UUID, size int32,
) (page []APIKey, more bool, err error) {
	if principal.Valid {
		_, err = ReadPrincipal(ctx, db, tenant, principal.UUID)
	} else {
		_, err = ReadTenant(ctx, db, tenant)
	}
	if err != nil {
		return nil, false, err
	}
	rows, err := queries.ListAPIKeys(ctx, db, identitydb.ListAPIKeysParams{
		TenantID: tenant, PrincipalID: principal, Before: before, PageSize: size + 1,
	})
	if err != nil {
		return nil, false, fmt.Errorf("list API keys: %w", err)
	}
	page, more = pageOf(rows, size, keyOf)
	return page, more, nil
}

func keyOf(row identitydb.ApiKey) APIKey {
	return APIKey{
		ID: row.ID, Tenant: row.TenantID, Principal: row.PrincipalID, Name: row.Name,
		Prefix: prefix + base.EncodeToString(row.ID[:]), Scopes: row.Scopes,
		CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, RevokedAt: row.RevokedAt, LastUsedAt: row.LastUsedAt,
	}
}
