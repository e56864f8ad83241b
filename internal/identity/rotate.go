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

const (
	// DefaultOverlap is how long the old keys live beside the new one where nothing else is said: a day to hand it out.
	DefaultOverlap = 24 * time.Hour
	// MaxOverlap is the longest.
	MaxOverlap = 30 * 24 * time.Hour
)

// Rotation is what takes a key's place, and when.
type Rotation struct {
	Name    string        // of the new key
	Expires *time.Time    // the new key's end; nil for none
	Overlap time.Duration // how long the principal's other keys go on living; up to MaxOverlap
}

// RotateKey gives the key's principal a new key with the same scopes and lets all its other keys live for the overlap
// and no longer. The principal, and with it the scope of its idempotency keys, stays. It returns what CreateKey does; a
// key of the new name that is there already, with the same scopes and end, is found, and nothing changes.
//
// An unknown key is fault.NotFound, one that is dead already fault.NotActive.
func RotateKey(ctx context.Context, tx *postgres.Tx, by Change, tenant, id uuid.UUID, r Rotation) (key APIKey, text string, err error) {
	if r.Overlap < 0 || r.Overlap > MaxOverlap {
		return APIKey{}, "", fault.Invalid("/overlap_seconds", fmt.Sprintf("must be between 0 and %.0f", MaxOverlap.Seconds()))
	}
	db, err := by.begin(ctx, tx)
	if err != nil {
		return APIKey{}, "", err
	}
	old, err := ReadKey(ctx, db, tenant, id)
	if err != nil {
		return APIKey{}, "", err
	}
	if r.Name == old.Name {
		return APIKey{}, "", fault.New(fault.NameTaken, "The new key needs a name of its own.")
	}
	now := time.Now()
	plan := KeyPlan{Name: r.Name, Scopes: old.Scopes, Expires: r.Expires}
	if key, text, err = plan.issue(ctx, db, tenant, old.Principal); err != nil || text == "" {
		return key, "", err
	}
	if old.RevokedAt != nil || old.ExpiresAt != nil && !old.ExpiresAt.After(now) {
		return APIKey{}, "", fault.New(fault.NotActive, "The key was revoked or has expired.")
	}
	ends := now.Add(r.Overlap)
	ended, err := queries.EndOtherKeys(ctx, db, identitydb.EndOtherKeysParams{
		TenantID: tenant, PrincipalID: old.Principal, ID: key.ID, EndsAt: &ends,
	})
	if err != nil {
		return APIKey{}, "", fmt.Errorf("end the other keys: %w", err)
	}
	details := key.details()
	details["replaces"], details["ended"], details["end_at"] = old.ID, append([]uuid.UUID{}, ended...), ends
	return key, text, by.record(ctx, db, tenant, "api_key.rotated", key.ID, details)
}
