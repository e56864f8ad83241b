package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/identity/internal/identitydb"
	"orderonce/internal/postgres"
)

// PutTenant finds the tenant of this name, or makes it.
func PutTenant(ctx context.Context, tx *postgres.Tx, name string) (uuid.UUID, error) {
	db, err := tx.DB(ctx)
	if err != nil {
		return uuid.Nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.Nil, err
	}
	err = queries.PutTenant(ctx, db, identitydb.PutTenantParams{TenantID: id, Name: name, CreatedAt: time.Now()})
	if err != nil {
		return uuid.Nil, fmt.Errorf("put tenant %s: %w", name, err)
	}
	return FindTenant(ctx, tx, name)
}

// FindTenant returns fault.NotFound where there is none of this name.
func FindTenant(ctx context.Context, tx *postgres.Tx, name string) (uuid.UUID, error) {
	db, err := tx.DB(ctx)
	if err != nil {
		return uuid.Nil, err
	}
	id, err := queries.FindTenant(ctx, db, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, fault.New(fault.NotFound, "There is no tenant "+name+".")
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("find tenant %s: %w", name, err)
	}
	return id, nil
}

// PutPrincipal finds the tenant's principal of this name, or makes it.
func PutPrincipal(ctx context.Context, tx *postgres.Tx, tenant uuid.UUID, name string) (uuid.UUID, error) {
	db, err := tx.DB(ctx)
	if err != nil {
		return uuid.Nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.Nil, err
	}
	err = queries.PutPrincipal(ctx, db, identitydb.PutPrincipalParams{
		TenantID: tenant, ID: id, Name: name, CreatedAt: time.Now(),
	})
	if err == nil {
		id, err = queries.FindPrincipal(ctx, db, identitydb.FindPrincipalParams{TenantID: tenant, Name: name})
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("put principal %s: %w", name, err)
	}
	return id, nil
}

// MintKey gives a principal one more API key and returns its text, which cannot be had a second time. A zero expiry
// means never. An unknown scope is fault.ValidationFailed.
func MintKey(ctx context.Context, tx *postgres.Tx, tenant, principal uuid.UUID, scopes []string, expiry time.Time) (string, error) {
	for _, scope := range scopes {
		if !slices.Contains(Scopes(), scope) {
			return "", fault.Invalid("scopes", fmt.Sprintf("%q is none of %s", scope, strings.Join(Scopes(), ", ")))
		}
	}
	db, err := tx.DB(ctx)
	if err != nil {
		return "", err
	}
	text, minted, err := mintToken()
	if err != nil {
		return "", fmt.Errorf("mint a key: %w", err)
	}
	params := identitydb.InsertAPIKeyParams{
		TenantID: tenant, ID: minted.id, PrincipalID: principal, Name: minted.id.String(), SecretHash: minted.hash[:], Scopes: append([]string{}, scopes...), // never NULL
		CreatedAt: time.Now(),
	}
	if !expiry.IsZero() {
		params.ExpiresAt = &expiry
	}
	if err := queries.InsertAPIKey(ctx, db, params); err != nil {
		return "", fmt.Errorf("store a key: %w", err)
	}
	return text, nil
}
