package oidc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"orderonce/internal/fault"
	"orderonce/internal/identity/oidc"
	"orderonce/internal/identity/oidc/oidctest"
)

// A new key is trusted from its first token on, and one that the issuer withdrew from the next fetch on: tokens that
// were verified before included.
func TestRotationIsFollowed(t *testing.T) {
	t.Parallel()
	f := setup(t)
	old := f.token(nil)
	before := f.accepted(old)
	second, third := oidctest.ES256(t, "second"), oidctest.EdDSA(t, "third")

	f.issuer.Keys(second)
	f.clock.Advance(time.Minute)
	if !f.trusted.Stands(before) {
		t.Error("a token stands no more although nobody asked the issuer")
	}
	after := f.accepted(f.token(nil))
	if f.trusted.Stands(before) || !f.trusted.Stands(after) {
		t.Error("a token stands by the key that signed it")
	}
	f.refused("the withdrawn key", old)

	f.issuer.Keys(second, third)
	f.clock.Advance(time.Minute)
	f.accepted(f.token(nil))
	if !f.trusted.Stands(after) {
		t.Error("a key that is published still is forgotten")
	}
	if n := f.issuer.Fetches(); n != 3 {
		t.Errorf("%d fetches for three sets of keys", n)
	}
}

// Until its exp, to the second: the leeway is for another look at the token.
func TestVerifiedTokenStandsUntilItsEnd(t *testing.T) {
	t.Parallel()
	f := setup(t)
	text := f.token(nil)
	token := f.accepted(text)
	f.clock.Advance(time.Hour - 2*time.Second)
	if !f.trusted.Stands(token) {
		t.Error("it ends early")
	}
	f.clock.Advance(2 * time.Second)
	if f.trusted.Stands(token) {
		t.Error("it outlives its exp")
	}
	f.accepted(text) // within the leeway
	f.clock.Advance(30 * time.Second)
	f.refused("past the leeway", text)
	if f.trusted.Stands(oidc.Token{}) {
		t.Error("no token stands")
	}
}

// Tokens with made-up key ids cost the issuer one fetch in each pause, however many come at once.
func TestUnknownKeyIdsAreAskedForOnceInAWhile(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.accepted(f.token(nil))
	stranger := oidctest.ES256(t, "made up")
	flood := func() {
		begin := make(chan struct{})
		var all sync.WaitGroup
		for n := range 50 {
			all.Go(func() {
				<-begin
				key := stranger
				key.ID = fmt.Sprint("made up ", n)
				if _, err := f.trusted.Verify(t.Context(), key.Sign(f.issuer.Claims(f.clock.Now(), nil))); !errors.Is(err, oidc.ErrRefused) {
					t.Errorf("a stranger's token: %v", err)
				}
			})
		}
		close(begin)
		all.Wait()
	}
	for _, want := range []int{1, 2, 3} {
		flood()
		flood()
		if n := f.issuer.Fetches(); n != want {
			t.Errorf("%d fetches, want %d", n, want)
		}
		f.clock.Advance(5 * time.Second)
	}
}

// A process starts without its issuer. A token is then neither good nor bad.
func TestIssuerMayBeAwayAtStart(t *testing.T) {
	t.Parallel()
	f := &fixture{t: t, issuer: oidctest.New(t), clock: oidctest.NewClock()}
	f.issuer.Answer(oidctest.Down)
	f.start()
	text := f.token(nil)
	f.unavailable("before the first answer", text)
	f.refused("what no key could make good", "a.b.c")
	f.issuer.Answer(nil)
	f.clock.Advance(5 * time.Second)
	f.accepted(text)
}

// Known keys outlive an outage; for a new one nobody can tell. After the time in which every token from before the
// outage has ended, none is trusted.
func TestOutageIsSurvived(t *testing.T) {
	t.Parallel()
	f := setup(t)
	token := f.accepted(f.token(nil))
	f.issuer.Answer(oidctest.Down)
	f.clock.Advance(10 * time.Minute)
	next := oidctest.ES256(t, "next").Sign(f.issuer.Claims(f.clock.Now(), nil))
	f.unavailable("a key that may be new", next)
	f.unavailable("and again", next)
	f.accepted(f.token(nil))
	if !f.trusted.Stands(token) {
		t.Error("a verified token does not stand the outage")
	}
	f.clock.Advance(24 * time.Hour)
	f.unavailable("a key from before a day without the issuer", f.token(nil))
	f.issuer.Answer(nil)
	f.clock.Advance(5 * time.Second)
	f.accepted(f.token(nil))
}

// An issuer that does not answer holds up no request for longer than it was told, and none at all whose key is known.
func TestSlowIssuerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	f := &fixture{t: t, issuer: oidctest.New(t), clock: oidctest.NewClock()}
	release := make(chan struct{})
	hang := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
			f.issuer.Documents(w, r)
		case <-r.Context().Done():
		}
	}
	f.issuer.Answer(hang)
	f.start(func(c *oidc.Config) { c.Patience = time.Millisecond })
	text := f.token(nil)
	f.unavailable("while the issuer hangs", text)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := f.trusted.Verify(gone, text); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a client that left: %v", err)
	}
	close(release)
}

// An emptied key set is the issuer's word: nothing that it signed counts any more.
func TestEmptiedKeySetWithdrawsAll(t *testing.T) {
	t.Parallel()
	f := setup(t)
	text := f.token(nil)
	token := f.accepted(text)
	f.issuer.Keys()
	f.clock.Advance(time.Minute)
	f.refused("a token that asks for a fetch", oidctest.ES256(t, "other").Sign(f.issuer.Claims(f.clock.Now(), nil)))
	f.refused("a token from before", text)
	if f.trusted.Stands(token) {
		t.Error("it stands")
	}
}

// Without any request the keys are fetched every five minutes, and after a failure every five seconds.
func TestKeysAreFetchedInTheBackground(t *testing.T) {
	t.Parallel()
	answering := oidctest.New(t)
	synctest.Test(t, func(t *testing.T) {
		config := answering.Config(oidctest.NewClock())
		config.Now = time.Now // the bubble's
		trusted := oidc.New(config, slog.New(slog.DiscardHandler))
		oidc.Through(trusted, roundTrip(func(r *http.Request) *http.Response {
			recorder := httptest.NewRecorder()
			answering.ServeHTTP(recorder, r)
			return recorder.Result()
		}))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		begun := answering.Fetches()
		fetched := func(after time.Duration, want int) {
			t.Helper()
			timer := time.NewTimer(after)
			<-timer.C
			synctest.Wait()
			if n := answering.Fetches() - begun; n != want {
				t.Errorf("%d fetches, want %d", n, want)
			}
		}
		go trusted.Run(ctx)
		fetched(0, 1)
		fetched(5*time.Minute-time.Second, 1)
		fetched(2*time.Second, 2)
		answering.Answer(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == oidctest.JWKS {
				oidctest.Down(w, r)
				return
			}
			answering.Documents(w, r)
		})
		fetched(5*time.Minute, 3)
		fetched(5*time.Second, 4)
		fetched(5*time.Second, 5)
		answering.Answer(nil)
		fetched(5*time.Second, 6)
		fetched(time.Minute, 6)
	})
}

type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }
