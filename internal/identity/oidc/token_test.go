package oidc_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"orderonce/internal/identity/oidc"
	"orderonce/internal/identity/oidc/oidctest"
)

func TestEveryAllowedAlgorithmIsVerified(t *testing.T) {
	t.Parallel()
	f := setup(t, func(c *oidc.Config) { c.Algorithms = append(c.Algorithms, "ES384") })
	keys := []oidctest.Key{
		oidctest.RS256(t, "rsa", 2048), oidctest.ES256(t, "p256"), oidctest.ES384(t, "p384"), oidctest.EdDSA(t, "ed"),
		oidctest.ES256(t, "p256"), // two keys of one id and kind: nothing forbids it
	}
	f.issuer.Keys(keys...)
	f.clock.Advance(time.Minute)
	for _, key := range keys {
		token := f.accepted(key.Sign(f.issuer.Claims(f.clock.Now(), nil)))
		if token.Issuer != f.issuer.URL || token.Subject != "user-1" || token.Tenant != "acme" ||
			!slices.Equal(token.Scopes, []string{"orders:create", "orders:read", "orders:cancel"}) {
			t.Errorf("%s: %+v", key.Algorithm, token)
		}
	}
}

// Whoever is not the issuer cannot make a token, and the issuer's own for somebody else is none of ours.
func TestForgedTokensAreRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	rsa, ec, ed := oidctest.RS256(t, "rsa", 2048), oidctest.ES256(t, "ec"), oidctest.EdDSA(t, "ed")
	p384, weak := oidctest.ES384(t, "p384"), oidctest.RS256(t, "weak", 1024)
	encrypts, bound := oidctest.ES256(t, "encrypts"), oidctest.RS256(t, "bound", 2048)
	encrypts.Publish = map[string]any{"use": "enc"}
	bound.Publish = map[string]any{"alg": "RS512"}
	private := oidctest.ES256(t, "private")
	private.Publish = map[string]any{"d": strings.Repeat("A", 43)}
	nameless := oidctest.ES256(t, "")
	f.issuer.Keys(rsa, ed, p384, weak, encrypts, bound, private, nameless, ec)
	f.clock.Advance(time.Minute)

	now := f.clock.Now()
	payload := oidctest.Text(t, f.issuer.Claims(now, nil))
	f.accepted(oidctest.Join(`{"alg":"ES256","kid":"ec"}`, payload, ec.Bytes)) // typ is optional
	f.accepted(oidctest.Join(`{"alg":"ES256","kid":"ec","typ":"application/at+JWT"}`, payload, ec.Bytes))
	good := oidctest.Join(`{"alg":"ES256","kid":"ec"}`, payload, ec.Bytes)
	stranger := oidctest.ES256(t, "ec")
	strangersJWK := `{"kty":"EC","crv":"P-256","x":"` + coordinate(t, stranger, 0) + `","y":"` + coordinate(t, stranger, 1) + `","kid":"ec"}`
	der, err := x509.MarshalPKIXPublicKey(rsa.Private.Public())
	if err != nil {
		t.Fatal(err)
	}
	hs256 := func(secret []byte) func(string) []byte {
		return func(input string) []byte {
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(input))
			return mac.Sum(nil)
		}
	}
	nothing := func(string) []byte { return nil }
	for name, text := range map[string]string{
		"nothing":                         "",
		"dots":                            "..",
		"an encrypted token":              good + ".AA.AA",
		"JSON serialization":              `{"protected":"e30","payload":"e30","signature":"AA"}`,
		"no signature":                    good[:strings.LastIndexByte(good, '.')+1],
		"none":                            oidctest.Join(`{"alg":"none","kid":"ec"}`, payload, nothing),
		"none, signed":                    oidctest.Join(`{"alg":"none","kid":"ec"}`, payload, ec.Bytes),
		"None":                            oidctest.Join(`{"alg":"nOnE","kid":"ec"}`, payload, ec.Bytes),
		"no alg":                          oidctest.Join(`{"kid":"ec"}`, payload, ec.Bytes),
		"alg is null":                     oidctest.Join(`{"alg":null,"kid":"ec"}`, payload, ec.Bytes),
		"two algs":                        oidctest.Join(`{"alg":"ES256","alg":"none","kid":"ec"}`, payload, ec.Bytes),
		"HMAC with the public key as DER": oidctest.Join(`{"alg":"HS256","kid":"rsa"}`, payload, hs256(der)),
		"HMAC with the public key as PEM": oidctest.Join(`{"alg":"HS256","kid":"rsa"}`, payload,
			hs256(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))),
		"an algorithm that is not allowed":  oidctest.Join(`{"alg":"ES384","kid":"p384"}`, payload, p384.Bytes),
		"a key of another kind":             oidctest.Join(`{"alg":"RS256","kid":"ec"}`, payload, rsa.Bytes),
		"a key of another curve":            oidctest.Join(`{"alg":"ES256","kid":"p384"}`, payload, ec.Bytes),
		"a key for another algorithm":       oidctest.Join(`{"alg":"RS256","kid":"bound"}`, payload, bound.Bytes),
		"a key for encryption":              oidctest.Join(`{"alg":"ES256","kid":"encrypts"}`, payload, encrypts.Bytes),
		"a key that is public no more":      oidctest.Join(`{"alg":"ES256","kid":"private"}`, payload, private.Bytes),
		"a short RSA key":                   oidctest.Join(`{"alg":"RS256","kid":"weak"}`, payload, weak.Bytes),
		"another of its keys":               oidctest.Join(`{"alg":"EdDSA","kid":"ed"}`, payload, ec.Bytes),
		"a stranger's key":                  oidctest.Join(`{"alg":"ES256","kid":"ec"}`, payload, stranger.Bytes),
		"a stranger's key, brought along":   oidctest.Join(`{"alg":"ES256","kid":"ec","jwk":`+strangersJWK+`}`, payload, stranger.Bytes),
		"a stranger's key, brought unnamed": oidctest.Join(`{"alg":"ES256","jwk":`+strangersJWK+`}`, payload, stranger.Bytes),
		"a stranger's key, pointed at":      oidctest.Join(`{"alg":"ES256","kid":"ec","jku":"https://127.0.0.1:1/keys"}`, payload, stranger.Bytes),
		"no kid":                            oidctest.Join(`{"alg":"ES256"}`, payload, nameless.Bytes),
		"an empty kid":                      oidctest.Join(`{"alg":"ES256","kid":""}`, payload, nameless.Bytes),
		"an unknown kid":                    oidctest.Join(`{"alg":"ES256","kid":"other"}`, payload, ec.Bytes),
		"a kid of another case":             oidctest.Join(`{"alg":"ES256","kid":"EC"}`, payload, ec.Bytes),
		"a path for a kid":                  oidctest.Join(`{"alg":"ES256","kid":"../../dev/null"}`, payload, ec.Bytes),
		"two kids":                          oidctest.Join(`{"alg":"ES256","kid":"ed","kid":"ec"}`, payload, ec.Bytes),
		"a number for a kid":                oidctest.Join(`{"alg":"ES256","kid":1}`, payload, ec.Bytes),
		"critical extensions":               oidctest.Join(`{"alg":"ES256","kid":"ec","crit":["exp"],"exp":1}`, payload, ec.Bytes),
		"critical b64":                      oidctest.Join(`{"alg":"ES256","kid":"ec","crit":["b64"],"b64":true}`, payload, ec.Bytes),
		"a logout token":                    oidctest.Join(`{"alg":"ES256","kid":"ec","typ":"logout+jwt"}`, payload, ec.Bytes),
		"a proof of possession":             oidctest.Join(`{"alg":"ES256","kid":"ec","typ":"dpop+jwt"}`, payload, ec.Bytes),
		"a type that is no string":          oidctest.Join(`{"alg":"ES256","kid":"ec","typ":["JWT"]}`, payload, ec.Bytes),
		"a header that is no object":        oidctest.Join(`["ES256"]`, payload, ec.Bytes),
		"a token in a token":                oidctest.Join(`{"alg":"ES256","kid":"ec","cty":"JWT"}`, good, ec.Bytes),
		"a blank before":                    " " + good,
		"a line end within":                 good[:9] + "\n" + good[9:],
		"padding":                           good + "==",
		"a whole token more":                good + "." + good,
		"too long":                          oidctest.Join(`{"alg":"ES256","kid":"ec"}`, oidctest.Text(t, f.issuer.Claims(now, map[string]any{"x": strings.Repeat("x", 8<<10)})), ec.Bytes),
		"enormous":                          strings.Repeat("A", 10<<20),
	} {
		f.refused(name, text)
	}
	f.accepted(good)
}

// Not one character of a token can be changed, the bits past the last byte of a part included: one token, one text.
func TestTamperedTokenIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	good := f.token(nil)
	f.accepted(good)
	for i := range len(good) {
		for _, other := range "AB_-9." {
			if changed := good[:i] + string(other) + good[i+1:]; changed != good {
				f.refused("a changed character", changed)
			}
		}
		f.refused("a missing character", good[:i]+good[i+1:])
	}
}

// Claims are the issuer's words; what they do not say, or say in two ways, is not guessed.
func TestClaimsThatAreRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	now := f.clock.Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for name, changes := range map[string]map[string]any{
		"no iss":                       {"iss": nil},
		"another issuer":               {"iss": "https://elsewhere.example"},
		"a longer issuer":              {"iss": f.issuer.URL + "/"},
		"two issuers":                  {"iss": []string{f.issuer.URL}},
		"no aud":                       {"aud": nil},
		"another audience":             {"aud": "https://payments.example"},
		"a longer audience":            {"aud": oidctest.Audience + "/"},
		"audiences in a string":        {"aud": oidctest.Audience + " https://payments.example"},
		"other audiences":              {"aud": []string{"a", "b"}},
		"no audience in a list":        {"aud": []string{}},
		"an audience that is a number": {"aud": []any{oidctest.Audience, 1}},
		"no exp":                       {"exp": nil},
		"exp as a string":              {"exp": "4102444800"},
		"a negative exp":               {"exp": -1},
		"an endless exp":               {"exp": 1e300},
		"expired past the leeway":      {"exp": at(-30 * time.Second)},
		"no iat":                       {"iat": nil},
		"issued in the future":         {"iat": at(32 * time.Second)},
		"a long life":                  {"exp": at(24*time.Hour + time.Second)},
		"not valid yet":                {"nbf": at(32 * time.Second)},
		"nbf as a string":              {"nbf": "0"},
		"no sub":                       {"sub": nil},
		"an empty sub":                 {"sub": ""},
		"a number for a sub":           {"sub": 7},
		"a long sub":                   {"sub": strings.Repeat("é", 256)},
		"NUL in the sub":               {"sub": "user\x00"},
		"no tenant":                    {"tenant": nil},
		"an empty tenant":              {"tenant": ""},
		"tenants":                      {"tenant": []string{"acme"}},
		"NUL in the tenant":            {"tenant": "acme\x00"},
		"scopes that are a number":     {"scope": 7},
		"a scope that is a number":     {"scope": []any{"orders:read", 7}},
		"scopes that are an object":    {"scope": map[string]any{"orders:read": true}},
		"bound to a key":               {"cnf": map[string]any{"jkt": "x"}},
	} {
		f.refused(name, f.token(changes))
	}
	key := oidctest.ES256(t, "raw")
	f.issuer.Keys(key)
	f.clock.Advance(time.Minute)
	good := oidctest.Text(t, f.issuer.Claims(now, nil))
	header := `{"alg":"ES256","kid":"raw"}`
	f.accepted(oidctest.Join(header, good, key.Bytes))
	for name, payload := range map[string]string{
		"no payload":              "",
		"null":                    "null",
		"an array":                "[" + good + "]",
		"two tenants":             good[:len(good)-1] + `,"tenant":"globex"}`,
		"two tenants, one hidden": good[:len(good)-1] + `,"\u0074enant":"globex"}`,
		"two of anything":         good[:len(good)-1] + `,"x":{"y":1,"y":2}}`,
		"names of another case":   strings.ReplaceAll(good, `"tenant"`, `"Tenant"`),
		"bytes after it":          good + " {}",
		"invalid UTF-8":           strings.ReplaceAll(good, "user-1", "user-\xff"),
		"a lone surrogate":        strings.ReplaceAll(good, "user-1", `user-\ud800`),
	} {
		f.refused(name, oidctest.Join(header, payload, key.Bytes))
	}
}

func TestClaimsThatAreAccepted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	now := f.clock.Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for name, c := range map[string]struct {
		changes map[string]any
		want    []string
	}{
		"a list of audiences":       {map[string]any{"aud": []string{"a", oidctest.Audience}}, nil},
		"a clock that is behind":    {map[string]any{"exp": at(-28 * time.Second)}, nil},
		"a clock that is ahead":     {map[string]any{"iat": at(28 * time.Second), "nbf": at(28 * time.Second)}, nil},
		"fractions of a second":     {map[string]any{"exp": float64(at(time.Hour)) + 0.5}, nil},
		"the longest life":          {map[string]any{"iat": at(0), "exp": at(24 * time.Hour)}, nil},
		"the longest sub":           {map[string]any{"sub": strings.Repeat("é", 255)}, nil},
		"no scopes":                 {map[string]any{"scope": nil}, []string{}},
		"empty scopes":              {map[string]any{"scope": ""}, []string{}},
		"scopes in a list":          {map[string]any{"scope": []string{"orders:read", "openid"}}, []string{"orders:read", "openid"}},
		"scopes with blanks enough": {map[string]any{"scope": " orders:read  openid "}, []string{"orders:read", "openid"}},
		"claims that say nothing":   {map[string]any{"azp": "web", "roles": []any{1, nil}}, nil},
	} {
		token, err := f.trusted.Verify(t.Context(), f.token(c.changes))
		if err != nil || c.want != nil && !slices.Equal(token.Scopes, c.want) {
			t.Errorf("%s: %+v, %v", name, token, err)
		}
	}
}

// The names of the two claims are the operator's to choose: providers put them where they can.
func TestClaimsOfOtherNames(t *testing.T) {
	t.Parallel()
	f := setup(t, func(c *oidc.Config) { c.TenantClaim, c.ScopeClaim = "https://orders.example/tenant", "permissions" })
	token := f.accepted(f.token(map[string]any{
		"https://orders.example/tenant": "globex", "permissions": []string{"orders:read"}, "tenant": "acme",
	}))
	if token.Tenant != "globex" || !slices.Equal(token.Scopes, []string{"orders:read"}) {
		t.Errorf("%+v", token)
	}
}

func TestOnlyAsymmetricAlgorithmsMayBeAllowed(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{nil, {"none"}, {"HS256"}, {"RS256", "HS512"}, {"rs256"}, {""}, {"RSA-OAEP"}} {
		if oidc.CheckAlgorithms(names) == nil {
			t.Errorf("%v are allowed", names)
		}
	}
	if err := oidc.CheckAlgorithms([]string{"RS256", "PS512", "ES384", "EdDSA"}); err != nil {
		t.Error(err)
	}
}

func TestAddressesOfTrustAreChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"https://id.example": true, "https://id.example/realms/shop": true, "https://id.example:8443/": true,
		"http://127.0.0.1:8080": true, "http://[::1]/x": true, "http://localhost": true,
		"": false, "id.example": false, "https://": false, "https:///x": false, "http://id.example": false,
		"http://127.0.0.1.example": false, "http://10.0.0.1": false, "file:///etc/passwd": false, "HTTPS://id.example": true,
		"https://user:secret@id.example": false, "https://id.example#x": false, "https://id.example/?x=1": false,
		"https://id.example/?": false, "https://id.example\x00": false,
	} {
		if err := oidc.CheckIssuer(text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := oidc.CheckURL("https://id.example/keys?tenant=1"); err != nil {
		t.Errorf("a key set behind a query: %v", err)
	}
}

// coordinate is x or y of a P-256 key.
func coordinate(t *testing.T, k oidctest.Key, i int) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(k.Private.Public())
	if err != nil {
		t.Fatal(err)
	}
	point := der[len(der)-64:]
	return base64.RawURLEncoding.EncodeToString(point[32*i : 32*i+32])
}
