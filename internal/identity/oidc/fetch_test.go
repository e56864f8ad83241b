package oidc_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"orderonce/internal/identity/oidc"
	"orderonce/internal/identity/oidc/oidctest"
)

// What an issuer in trouble, or somebody in its place, may answer. None of it gives a key, and the keys from before
// stay.
func TestBadAnswersLeaveTheKeysAlone(t *testing.T) {
	t.Parallel()
	stranger := oidctest.New(t) // whose keys must not be trusted
	stranger.Keys(oidctest.ES256(t, "the stranger's"))
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to+r.URL.Path, http.StatusFound) } //nolint:gosec // what the test is about
	}
	huge := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"keys":[],"x":"`, strings.Repeat("x", 300<<10), `"}`)
	}
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, text) }
	}
	answers := map[string]http.HandlerFunc{
		"an outage": oidctest.Down, "a redirect to another host": redirect(stranger.URL), "too large": huge,
		"no JSON": says("<html>"), "nothing": says(""), "no document": says("{}"), "null": says("null"),
		"keys that are no list": says(`{"keys":{}}`), "two key sets": says(`{"keys":[],"keys":[]}`),
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = fmt.Fprint(w, `{"keys":`)
		},
	}
	for name, answer := range answers {
		for _, path := range []string{oidctest.Discovery, oidctest.JWKS} {
			t.Run(name+" at "+path, func(t *testing.T) {
				t.Parallel()
				f := setup(t)
				f.accepted(f.token(nil))
				f.issuer.Answer(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == path {
						answer(w, r)
						return
					}
					f.issuer.Documents(w, r)
				})
				f.clock.Advance(time.Minute)
				f.unavailable("a token of the stranger's", stranger.Token(f.clock.Now(), map[string]any{"iss": f.issuer.URL}))
				f.accepted(f.token(nil))
			})
		}
	}
}

// The discovery document is of the issuer that was asked, and leads to keys that nobody on the way can replace.
func TestDiscoveryIsNotMisled(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]string{
		"of another issuer":  `{"issuer":"https://elsewhere.example","jwks_uri":"%s/keys"}`,
		"without an issuer":  `{"jwks_uri":"%s/keys"}`,
		"keys over http":     `{"issuer":"%[1]s","jwks_uri":"http://elsewhere.example/keys"}`,
		"keys in a file":     `{"issuer":"%[1]s","jwks_uri":"file:///etc/passwd"}`,
		"keys without a URL": `{"issuer":"%[1]s"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fixture{t: t, issuer: oidctest.New(t), clock: oidctest.NewClock()}
			f.issuer.Answer(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == oidctest.Discovery {
					_, _ = fmt.Fprintf(w, document+"%.0s", f.issuer.URL)
					return
				}
				f.issuer.Documents(w, r)
			})
			f.start()
			f.unavailable("a token", f.token(nil))
		})
	}
}

// A redirect inside the issuer's own host is followed, and a fixed address of the keys needs no discovery.
func TestKeysAreFoundWhereTheIssuerMovesThem(t *testing.T) {
	t.Parallel()
	f := &fixture{t: t, issuer: oidctest.New(t), clock: oidctest.NewClock()}
	f.issuer.Answer(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, oidctest.JWKS, http.StatusMovedPermanently)
		case oidctest.Discovery:
			oidctest.Down(w, r)
		default:
			f.issuer.Documents(w, r)
		}
	})
	f.start(func(c *oidc.Config) { c.JWKSURL = f.issuer.URL + "/moved" })
	f.accepted(f.token(nil))
}
