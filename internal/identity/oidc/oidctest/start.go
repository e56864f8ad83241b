package oidctest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"orderonce/internal/identity/oidc"
)

// Clock is a time that only the test moves.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock begins at the present time.
func NewClock() *Clock { return &Clock{now: time.Now()} }

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Config trusts the issuer as a server does by default, at the clock's time, and waits for it as long as a slow
// machine may need.
func (i *Issuer) Config(clock *Clock) oidc.Config {
	return oidc.Config{
		Issuer: i.URL, Audience: Audience, Algorithms: []string{"RS256", "ES256", "EdDSA"},
		TenantClaim: "tenant", ScopeClaim: "scope", Leeway: 30 * time.Second,
		Patience: 30 * time.Second, Now: clock.Now,
	}
}

// Start runs what trusts an issuer until the test ends.
func Start(tb testing.TB, config oidc.Config) *oidc.Issuer {
	tb.Helper()
	trusted := oidc.New(config, slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})))
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	var running sync.WaitGroup
	running.Go(func() { trusted.Run(ctx) })
	tb.Cleanup(func() {
		stop()
		running.Wait()
	})
	return trusted
}
