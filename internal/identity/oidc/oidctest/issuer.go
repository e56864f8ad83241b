// Package oidctest plays an OpenID Connect issuer for tests: a discovery document, keys that can be rotated, and
// tokens, good ones and forged ones. It signs with the standard library alone, so that the product is judged by
// something else than its own library.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Key is one of an issuer's, with what its key set says of it.
type Key struct {
	ID, Algorithm string
	Private       crypto.Signer
	Publish       map[string]any // members that replace those of the JWK; nil removes one

	tb testing.TB
}

// Issuer answers at URL from the start.
type Issuer struct {
	URL string

	mu      sync.Mutex
	keys    []Key // the last one signs
	answer  http.HandlerFunc
	fetches int
}

// New starts an issuer with one ES256 key, named "first".
func New(tb testing.TB) *Issuer {
	tb.Helper()
	i := &Issuer{keys: []Key{ES256(tb, "first")}}
	server := httptest.NewServer(i)
	tb.Cleanup(server.Close)
	i.URL = server.URL
	return i
}

// ES256 makes a key.
func ES256(tb testing.TB, id string) Key {
	tb.Helper()
	return ellipticKey(tb, id, "ES256", elliptic.P256())
}

// ES384 makes a key.
func ES384(tb testing.TB, id string) Key {
	tb.Helper()
	return ellipticKey(tb, id, "ES384", elliptic.P384())
}

func ellipticKey(tb testing.TB, id, algorithm string, curve elliptic.Curve) Key {
	tb.Helper()
	private, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return Key{ID: id, Algorithm: algorithm, Private: private, tb: tb}
}

// EdDSA makes an Ed25519 key.
func EdDSA(tb testing.TB, id string) Key {
	tb.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return Key{ID: id, Algorithm: "EdDSA", Private: private, tb: tb}
}

// RS256 makes a key of so many bits.
func RS256(tb testing.TB, id string, bits int) Key {
	tb.Helper()
	private, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		tb.Fatal(err)
	}
	return Key{ID: id, Algorithm: "RS256", Private: private, tb: tb}
}

// Keys replaces the keys that are published; the last one signs from now on.
func (i *Issuer) Keys(keys ...Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// Answer lets something else answer in the issuer's place; nil ends that.
func (i *Issuer) Answer(answer http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = answer
}

// Down answers as an issuer does that has an outage.
func Down(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "we are working on it", http.StatusBadGateway)
}

// Fetches counts the requests so far for anything but the discovery document.
func (i *Issuer) Fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// Discovery and JWKS are the paths of the documents.
const (
	Discovery = "/.well-known/openid-configuration"
	JWKS      = "/keys"
)

func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	answer := i.answer
	if r.URL.Path != Discovery {
		i.fetches++
	}
	i.mu.Unlock()
	if answer == nil {
		answer = i.Documents
	}
	answer(w, r)
}

// Documents answers as the issuer does by itself.
func (i *Issuer) Documents(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch r.URL.Path {
	case Discovery:
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + JWKS}) // strings
	case JWKS:
		set := []any{}
		for _, key := range i.keys {
			set = append(set, key.jwk())
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": set}) // strings
	default:
		http.NotFound(w, r)
	}
}

func (k Key) jwk() map[string]any {
	jwk := map[string]any{"kid": k.ID, "alg": k.Algorithm, "use": "sig"}
	switch public := k.Private.Public().(type) {
	case *ecdsa.PublicKey:
		point, err := public.Bytes() // 4, x, y
		if err != nil {
			k.tb.Error(err)
			break
		}
		size := len(point) / 2
		jwk["kty"], jwk["crv"] = "EC", public.Params().Name
		jwk["x"], jwk["y"] = encode(point[1:1+size]), encode(point[1+size:])
	case ed25519.PublicKey:
		jwk["kty"], jwk["crv"], jwk["x"] = "OKP", "Ed25519", encode(public)
	case *rsa.PublicKey:
		jwk["kty"], jwk["n"], jwk["e"] = "RSA", encode(public.N.Bytes()), encode(big.NewInt(int64(public.E)).Bytes())
	}
	for name, value := range k.Publish {
		jwk[name] = value
		if value == nil {
			delete(jwk, name)
		}
	}
	return jwk
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Audience is that of the good tokens.
const Audience = "https://orders.example"

// Claims are good ones, at this time, with what the caller changes about them; a nil removes one.
func (i *Issuer) Claims(now time.Time, changes map[string]any) map[string]any {
	claims := map[string]any{
		"iss": i.URL, "aud": Audience, "sub": "user-1", "tenant": "acme", "scope": "orders:create orders:read orders:cancel",
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "jti": fmt.Sprint(now.UnixNano(), rand.Text()),
	}
	for name, value := range changes {
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
	}
	return claims
}

// Token signs good claims with the issuer's newest key.
func (i *Issuer) Token(now time.Time, changes map[string]any) string {
	i.mu.Lock()
	key := i.keys[len(i.keys)-1]
	i.mu.Unlock()
	return key.Sign(i.Claims(now, changes))
}

// Sign makes a token with this key, as an issuer would.
func (k Key) Sign(claims map[string]any) string {
	k.tb.Helper()
	header := map[string]any{"alg": k.Algorithm, "kid": k.ID, "typ": "JWT"}
	return Join(Text(k.tb, header), Text(k.tb, claims), k.Bytes)
}

// Join makes a token of a header and a payload as they stand, which sign then signs.
func Join(header, payload string, sign func(input string) []byte) string {
	input := encode([]byte(header)) + "." + encode([]byte(payload))
	return input + "." + encode(sign(input))
}

// Bytes is the key's signature of input by its own algorithm, whatever a header says.
func (k Key) Bytes(input string) []byte {
	options := crypto.SignerOpts(crypto.SHA256)
	message := []byte(input)
	switch private := k.Private.(type) {
	case ed25519.PrivateKey:
		options = crypto.Hash(0) // takes the message as it is
	case *ecdsa.PrivateKey:
		if private.Curve == elliptic.P384() {
			options = crypto.SHA384
		}
	}
	if hash := options.HashFunc(); hash != 0 {
		h := hash.New()
		_, _ = h.Write(message) // a hash takes everything
		message = h.Sum(nil)
	}
	signature, err := k.Private.Sign(rand.Reader, message, options)
	if err != nil {
		k.tb.Error(err)
	}
	if public, ok := k.Private.Public().(*ecdsa.PublicKey); ok {
		var pair struct{ R, S *big.Int }
		if _, err := asn1.Unmarshal(signature, &pair); err != nil {
			k.tb.Error(err)
			return nil
		}
		size := (public.Params().BitSize + 7) / 8
		return append(pair.R.FillBytes(make([]byte, size)), pair.S.FillBytes(make([]byte, size))...)
	}
	return signature
}

// Text is members as JSON.
func Text(tb testing.TB, members map[string]any) string {
	tb.Helper()
	b, err := json.Marshal(members)
	if err != nil {
		tb.Error(err)
	}
	return string(b)
}
