package postgres

import (
	"context"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"orderonce/internal/fault"
)

// gate bounds how many units of one tenant run at once on this pool, so that a tenant whose units all wait for
// something cannot take every connection from the others.
type gate struct {
	share int64 // units of one tenant

	mu      sync.Mutex
	tenants map[uuid.UUID]*turns
}

type turns struct {
	*semaphore.Weighted
	users int // holders and waiters; the last one out removes the entry
}

// enter waits until ctx ends for the tenant's turn, and then returns fault.Busy. The caller must call leave.
func (g *gate) enter(ctx context.Context, tenant uuid.UUID) (leave func(), err error) {
	t := g.use(tenant)
	if err := t.Acquire(ctx, 1); err != nil {
		g.unuse(tenant, t)
		return nil, fault.Later(fault.Busy, "wait for the tenant's turn", err)
	}
	return func() {
		t.Release(1)
		g.unuse(tenant, t)
	}, nil
}

func (g *gate) use(tenant uuid.UUID) *turns {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, ok := g.tenants[tenant]
	if !ok {
		if g.tenants == nil {
			g.tenants = map[uuid.UUID]*turns{}
		}
		t = &turns{Weighted: semaphore.NewWeighted(g.share)}
		g.tenants[tenant] = t
	}
	t.users++
	return t
}

func (g *gate) unuse(tenant uuid.UUID, t *turns) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(g.tenants, tenant)
	}
}
