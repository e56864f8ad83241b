package identity_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"orderonce/internal/identity"
)

// lastUsed is the stored time of the fixture's only key, the zero time where there is none.
func (f *fixture) lastUsed() (at time.Time) {
	f.t.Helper()
	var stored *time.Time
	if err := f.watch.QueryRow(f.t.Context(), "SELECT last_used_at FROM api_keys").Scan(&stored); err != nil {
		f.t.Fatal(err)
	}
	if stored != nil {
		at = *stored
	}
	return at
}

func (f *fixture) write(ring *identity.Keyring) {
	f.t.Helper()
	if err := ring.WriteUses(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// A use is remembered at once and written later, whether the database was asked for the key or memory.
func TestLastUseIsWrittenLater(t *testing.T) {
	t.Parallel()
	f := setup(t)
	text := f.mint(time.Time{}, identity.OrdersRead)
	f.write(f.ring)
	f.authenticate(text)
	if at := f.lastUsed(); !at.IsZero() {
		t.Errorf("written on the request's path, or before: %v", at)
	}
	before := time.Now()
	f.authenticate(text)
	f.write(f.ring)
	first := f.lastUsed()
	if first.Before(before.Truncate(time.Microsecond)) || first.After(time.Now()) {
		t.Errorf("used at %v, written is %v", before, first)
	}
	if _, ok := f.ring.Recall(text); !ok {
		t.Fatal("not remembered")
	}
	f.write(f.ring)
	if recalled := f.lastUsed(); !recalled.After(first) {
		t.Errorf("the use of a remembered key is not written: %v", recalled)
	}
	// Who shows only the key's id, or an unknown one, uses nothing.
	written := f.lastUsed()
	forged := identity.Forge(text)
	f.ring.Recall(forged)
	if _, err := f.ring.Authenticate(t.Context(), forged); err == nil {
		t.Error("a forged key gives access")
	}
	f.write(f.ring)
	if at := f.lastUsed(); !at.Equal(written) {
		t.Errorf("a forged key was used at %v", at)
	}
}

// Servers write in any order: the time only grows. And what a dead key's owner tries is no use of it.
func TestLastUseOnlyGrowsAndEndsWithTheKey(t *testing.T) {
	t.Parallel()
	f := setup(t)
	text := f.mint(time.Time{}, identity.OrdersRead)
	other := identity.NewKeyring(f.db)
	f.authenticate(text)
	if _, err := other.Authenticate(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	f.write(other)
	latest := f.lastUsed()
	f.write(f.ring)
	if at := f.lastUsed(); !at.Equal(latest) {
		t.Errorf("the older use replaced %v by %v", latest, at)
	}
	f.exec("UPDATE api_keys SET revoked_at = now()")
	if _, ok := f.ring.Recall(text); !ok {
		t.Fatal("not remembered")
	}
	f.write(f.ring)
	if at := f.lastUsed(); !at.Equal(latest) {
		t.Errorf("a revoked key was used at %v", at)
	}
}

// What could not be written is written the next time, and the end of a server is such a time.
func TestLastUseSurvivesAFailedWriteAndIsWrittenAtTheEnd(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.authenticate(f.mint(time.Time{}, identity.OrdersRead))
	f.exec("ALTER TABLE api_keys RENAME TO elsewhere")
	if err := f.ring.WriteUses(t.Context()); err == nil {
		t.Fatal("written into no table")
	}
	f.exec("ALTER TABLE elsewhere RENAME TO api_keys")
	ended, end := context.WithCancel(t.Context())
	end()
	f.ring.RecordUses(ended, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if f.lastUsed().IsZero() {
		t.Error("the use is lost")
	}
}
