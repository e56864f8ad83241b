package identity_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

// Rotating keeps the principal, gives a key with the same scopes, and lets the others live for the overlap and no longer.
func TestRotateLetsTheOtherKeysEnd(t *testing.T) {
	t.Parallel()
	f := setup(t)
	soon := time.Now().Add(time.Minute).Truncate(time.Microsecond)
	old, oldText := f.create(identity.KeyPlan{Name: "2026-11", Scopes: []string{identity.OrdersRead}})
	_, otherText := f.create(identity.KeyPlan{Name: "other"})
	short, _ := f.create(identity.KeyPlan{Name: "short", Expires: &soon})
	rotate := func(name string, overlap time.Duration) (key identity.APIKey, text string, err error) {
		err = f.inTx(postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
			key, text, err = identity.RotateKey(ctx, tx, by, f.tenant, old.ID, identity.Rotation{Name: name, Overlap: overlap})
			return err
		})
		return key, text, err
	}
	key, text, err := rotate("2026-12", identity.DefaultOverlap)
	if err != nil || !slices.Equal(key.Scopes, old.Scopes) || key.Principal != old.Principal || key.ExpiresAt != nil {
		t.Fatalf("%+v, %v", key, err)
	}
	if same, none, err := rotate("2026-12", 0); err != nil || same.ID != key.ID || none != "" {
		t.Errorf("rotated again: %+v, %v", same, err)
	}
	for _, text := range []string{text, oldText, otherText} {
		if p := f.authenticate(text); p.ID != f.principal {
			t.Errorf("%+v", p)
		}
	}
	f.wantEnds(map[string]time.Duration{"2026-11": 24 * time.Hour, "2026-12": 0, "other": 24 * time.Hour, "short": time.Minute})

	// Without an overlap the old ones end at once.
	if _, _, err = rotate("2026-12b", 0); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{text, oldText, otherText} {
		_, err := f.ring.Authenticate(t.Context(), text)
		wantFault(t, err, fault.Unauthenticated)
	}
	// What is dead has no successor, and a key is not its own.
	_, _, err = rotate("2027-01", 0)
	wantFault(t, err, fault.NotActive)
	_, _, err = rotate("2026-11", 0)
	wantFault(t, err, fault.NameTaken)
	for _, overlap := range []time.Duration{-1, identity.MaxOverlap + 1} {
		_, _, err = rotate("2027-01", overlap)
		wantFault(t, err, fault.ValidationFailed)
	}
	if got := f.audited(); !slices.Equal(got[3:], []string{"api_key.rotated", "api_key.rotated"}) {
		t.Errorf("audited: %v; the key %s ends by itself", got, short.Name)
	}
}

// wantEnds compares the keys' ends with now, 0 for none.
func (f *fixture) wantEnds(want map[string]time.Duration) {
	f.t.Helper()
	err := f.db.Read(f.t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		keys, _, err := identity.ListKeys(ctx, db, f.tenant, uuid.NullUUID{UUID: f.principal, Valid: true}, uuid.Max, 100)
		if len(keys) != len(want) {
			f.t.Errorf("%d keys", len(keys))
		}
		for _, key := range keys {
			in := time.Duration(0)
			if key.ExpiresAt != nil {
				in = time.Until(*key.ExpiresAt)
			}
			if in > want[key.Name] || in < want[key.Name]-patience {
				f.t.Errorf("%s ends in %s, want %s", key.Name, in, want[key.Name])
			}
		}
		return err
	})
	if err != nil {
		f.t.Error(err)
	}
}
