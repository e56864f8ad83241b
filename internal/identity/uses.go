package identity

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/identity/internal/identitydb"
	"orderonce/internal/postgres"
)

const (
	// useResolution is how far api_keys.last_used_at may lie behind: one statement a minute, and not one a request.
	useResolution = time.Minute
	// usesLockTimeout is short: whoever holds the row of a key is ending it.
	usesLockTimeout = time.Second
)

// uses is when each key was shown last, until that is written. The zero value is empty.
type uses struct {
	mu     sync.Mutex
	latest map[usedKey]time.Time
}

type usedKey struct{ tenant, id uuid.UUID }

// note is on the path of every request: it asks nobody.
func (u *uses) note(p Principal) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.add(usedKey{p.Tenant, p.credential.id}, now)
}

func (u *uses) add(key usedKey, at time.Time) {
	if u.latest == nil {
		u.latest = map[usedKey]time.Time{}
	}
	if u.latest[key].Before(at) {
		u.latest[key] = at
	}
}

// take empties it, for a write.
func (u *uses) take() map[usedKey]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.latest
	u.latest = nil
	return taken
}

// putBack keeps what could not be written for the next write.
func (u *uses) putBack(taken map[usedKey]time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, at := range taken {
		u.add(key, at)
	}
}

// RecordUses writes once a minute, and once more when ctx ends, when the keys were last used. A process that is killed
// loses its last minute. An error is logged and the next write brings what this one could not.
func (k *Keyring) RecordUses(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(useResolution)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			running = false
		}
		if err := k.WriteUses(ctx); err != nil {
			log.WarnContext(ctx, "recording the last use of API keys failed", "error", err)
		}
	}
}

// WriteUses writes the uses that are not written yet, in one statement, whether or not ctx has ended. Times only grow,
// so that servers may write in any order.
func (k *Keyring) WriteUses(ctx context.Context) error {
	taken := k.uses.take()
	if len(taken) == 0 {
		return nil
	}
	var params identitydb.RecordUsesParams
	for key, at := range taken {
		params.TenantIds = append(params.TenantIds, key.tenant)
		params.Ids = append(params.Ids, key.id)
		params.UsedAt = append(params.UsedAt, at)
	}
	unit := postgres.Unit{LockTimeout: usesLockTimeout}
	err := k.db.Run(ctx, unit, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		return queries.RecordUses(ctx, db, params)
	})
	if err != nil {
		k.uses.putBack(taken)
		return fmt.Errorf("record the uses of keys: %w", err)
	}
	return nil
}
