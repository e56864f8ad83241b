package idempotency

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"orderonce/internal/fault"
)

// gate bounds how many units of one tenant run at once in this process, so that a tenant whose units all wait for
// something cannot take every connection from the others.
type gate struct {
	share    int64         // units of one tenant
	patience time.Duration // the wait for a turn

	mu      sync.Mutex
	tenants map[uuid.UUID]*turns
}

type turns struct {
	*semaphore.Weighted
	users int // holders and waiters; the last one out removes the entry
}

// enter waits for the tenant's turn; the caller must call leave after it. It returns fault.Busy past patience.
func (g *gate) enter(ctx context.Context, tenant uuid.UUID) (leave func(), err error) {
	t := g.use(tenant)
	waiting, cancel := context.WithTimeout(ctx, g.patience)
	defer cancel()
	if err := t.Acquire(waiting, 1); err != nil {
		g.unuse(tenant, t)
		busy := fault.Wrap(fault.Busy, "wait for the tenant's turn", err)
		busy.RetryAfter = time.Second
		return nil, busy
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
