package oidc_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"orderonce/internal/identity/oidc"
	"orderonce/internal/identity/oidc/oidctest"
)

// FuzzVerify takes a text as a whole, and as the payload and the header of a token that the issuer did sign, or it
// would never get past the signature. What is accepted is that one token, or a payload that says all it must.
func FuzzVerify(f *testing.F) {
	issuer, clock := oidctest.New(f), oidctest.NewClock()
	key := oidctest.ES256(f, "fuzzed")
	issuer.Keys(key)
	trusted := oidctest.Start(f, issuer.Config(clock))
	good := key.Sign(issuer.Claims(clock.Now(), nil))
	if _, err := trusted.Verify(f.Context(), good); err != nil {
		f.Fatal(err)
	}
	const header = `{"alg":"ES256","kid":"fuzzed"}`
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(good, ".")[1])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[1:])
	f.Add(header)
	f.Add(`{"alg":"none"}`)
	f.Add(`{"alg":"ES256","kid":"fuzzed","crit":["x"]}`)
	f.Add(string(payload))
	f.Add(strings.Replace(string(payload), `"exp":`, `"exp":1e9,"exp":`, 1))
	f.Fuzz(func(t *testing.T, text string) {
		for _, token := range []string{
			text, oidctest.Join(header, text, key.Bytes), oidctest.Join(text, string(payload), key.Bytes),
		} {
			got, err := trusted.Verify(t.Context(), token)
			switch {
			case err == nil && (got.Subject == "" || got.Tenant == "" || got.Issuer != issuer.URL || !trusted.Stands(got)):
				t.Errorf("%q is accepted as %+v", token, got)
			case err == nil && token == text && token != good:
				t.Errorf("%q was not signed", token)
			case err != nil && !errors.Is(err, oidc.ErrRefused):
				t.Errorf("%q: %v", token, err)
			}
		}
	})
}
