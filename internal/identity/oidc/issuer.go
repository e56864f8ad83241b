// Package oidc tells whether a JWT was signed by the one trusted OpenID Connect issuer, for this service and for now,
// and what it claims. It owns the issuer's public keys: fetched in the background and when a token names one that is
// not known, and kept over an outage. It knows no tenant, principal or scope of ours, and no database: whether a claim
// gives access is the caller's to decide. Without Run it never gets a key, and every token is fault.Unavailable.
package oidc

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"orderonce/internal/fault"
)

const (
	// MaxLifetime bounds a token's time from iat to exp. Keys are kept for as long when the issuer is away: by then no
	// token that it signed before lives any more.
	MaxLifetime = 24 * time.Hour

	refreshEvery = 5 * time.Minute // a key that the issuer withdrew is trusted for this long at most, while it answers
	pause        = 5 * time.Second // between two fetches: what strangers with made-up key ids can cost the issuer
	waiters      = 64              // requests that wait for a fetch at once; more would fill the server while it hangs
)

// Config says whom to trust, and with what.
type Config struct {
	Issuer     string   // the iss of its tokens, to the byte; see CheckIssuer
	Audience   string   // must be among a token's aud
	JWKSURL    string   // where the issuer's keys are; empty for where its discovery document says
	Algorithms []string // of signatures; see CheckAlgorithms

	TenantClaim string        // holds the name of the tenant
	ScopeClaim  string        // holds the scopes: a string with blanks between them, or an array
	Leeway      time.Duration // that the issuer's clock may differ from ours

	Patience time.Duration    // how long a request waits for a fetch of keys
	Now      func() time.Time // nil for time.Now
}

// Issuer is the one that is trusted. Safe for concurrent use.
type Issuer struct {
	config     Config
	algorithms []jose.SignatureAlgorithm
	client     *http.Client
	log        *slog.Logger
	wanted     chan struct{} // tells Run that a request asks for a fetch
	waiting    chan struct{} // holds one for each request that waits

	mu      sync.Mutex
	keys    keySet
	fetched time.Time     // when keys were the issuer's
	tried   time.Time     // when the latest attempt ended
	failed  bool          // and that it failed, or that there was none
	attempt chan struct{} // closed at the end of the attempt that is under way or asked for; nil where none is
}

// New trusts an issuer. Nothing is fetched before Run.
func New(config Config, log *slog.Logger) *Issuer {
	if config.Now == nil {
		config.Now = time.Now
	}
	i := &Issuer{
		config: config, client: newClient(), log: log, failed: true,
		wanted: make(chan struct{}, 1), waiting: make(chan struct{}, waiters),
	}
	for _, name := range config.Algorithms {
		i.algorithms = append(i.algorithms, jose.SignatureAlgorithm(name))
	}
	return i
}

// Run keeps the issuer's keys until ctx ends. It alone fetches, so that never two fetches are under way.
func (i *Issuer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		i.refresh(ctx)
		i.mu.Lock()
		next := refreshEvery
		if i.failed {
			next = pause
		}
		i.mu.Unlock()
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-i.wanted:
		}
		timer.Stop()
	}
}

func (i *Issuer) refresh(ctx context.Context) {
	i.mu.Lock()
	if i.attempt == nil {
		i.attempt = make(chan struct{})
	}
	select {
	case <-i.wanted: // by a request that now gets what it asked for
	default:
	}
	i.mu.Unlock()

	keys, err := i.fetch(ctx)

	i.mu.Lock()
	defer i.mu.Unlock()
	i.tried, i.failed = i.config.Now(), err != nil
	close(i.attempt)
	i.attempt = nil
	switch {
	case ctx.Err() != nil:
	case err != nil:
		i.log.WarnContext(ctx, "fetch the issuer's keys", "error", err.Error(), "keys_kept", len(i.keys))
	default:
		if !keys.same(i.keys) {
			i.log.InfoContext(ctx, "the issuer's keys changed", "key_ids", keys.ids())
		}
		i.keys, i.fetched = keys, i.tried
	}
}

// find returns the issuer's keys of this id that may verify this algorithm. For an id that it does not know it asks
// the issuer, unless that was done just now, and waits for Config.Patience at most.
//
// Where the issuer has no such key now, the error is ErrRefused. Where it did not say, it is fault.Unavailable: the
// token may be a good one.
func (i *Issuer) find(ctx context.Context, id, algorithm string) (keySet, error) {
	found, certain := i.look(id, algorithm)
	if len(found) == 0 {
		i.await(ctx)
		found, certain = i.look(id, algorithm)
	}
	switch {
	case len(found) > 0:
		return found, nil
	case certain:
		return nil, refused("the issuer has no such key for this algorithm")
	}
	f := fault.Wrap(fault.Unavailable, "look for a token's key", errUnfetched)
	f.RetryAfter = pause
	return nil, f
}

var errUnfetched = errors.New("the issuer's keys could not be fetched")

func (i *Issuer) look(id, algorithm string) (found keySet, certain bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.current().find(id, algorithm), !i.failed && i.attempt == nil
}

// current is what is known of the keys; of a time too long ago, nothing. i.mu must be held.
func (i *Issuer) current() keySet {
	if i.config.Now().Sub(i.fetched) > MaxLifetime {
		return nil
	}
	return i.keys
}

// await lets Run fetch the keys, where the pause since the latest fetch is over, and waits for it.
func (i *Issuer) await(ctx context.Context) {
	i.mu.Lock()
	if i.attempt == nil && i.config.Now().Sub(i.tried) >= pause {
		i.attempt = make(chan struct{})
		i.wanted <- struct{}{} // has room: it holds one for each attempt that nobody began
	}
	attempt := i.attempt
	i.mu.Unlock()
	if attempt == nil {
		return
	}
	select {
	case i.waiting <- struct{}{}:
		defer func() { <-i.waiting }()
	default:
		return
	}
	patience := time.NewTimer(i.config.Patience)
	defer patience.Stop()
	select {
	case <-attempt:
	case <-patience.C:
	case <-ctx.Done():
	}
}
