package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// key is a public key of the issuer's that may verify tokens.
type key struct {
	id         string
	public     crypto.PublicKey
	algorithms []string
	thumbprint string // SHA-256 of RFC 7638: tells the key itself, whatever its id
}

type keySet []key

// parseKeys reads a JWK set. What cannot verify a token of ours is left out: keys of other kinds and uses, without an
// id, private or symmetric, RSA below 2048 bits.
func parseKeys(text []byte, allowed []string) (keySet, error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("read the key set: %w", err)
	}
	if set.Keys == nil {
		return nil, errNoSet
	}
	keys := keySet{}
	for _, member := range set.Keys {
		var jwk jose.JSONWebKey
		if jwk.UnmarshalJSON(member) != nil || jwk.KeyID == "" || jwk.Use != "" && jwk.Use != "sig" {
			continue
		}
		algorithms := slices.DeleteFunc(algorithmsOf(jwk.Key), func(name string) bool {
			return !slices.Contains(allowed, name) || jwk.Algorithm != "" && jwk.Algorithm != name
		})
		if len(algorithms) == 0 {
			continue
		}
		thumbprint, err := jwk.Thumbprint(crypto.SHA256)
		if err != nil {
			continue
		}
		keys = append(keys, key{id: jwk.KeyID, public: jwk.Key, algorithms: algorithms, thumbprint: string(thumbprint)})
	}
	return keys, nil
}

var errNoSet = errors.New("read the key set: it has no keys member")

// algorithmsOf are those that a key of this kind is for. That a public key is no secret for an HMAC, and a P-256 key
// not one for ES384, follows from this list.
func algorithmsOf(public crypto.PublicKey) []string {
	switch k := public.(type) {
	case *rsa.PublicKey:
		if k.Size() >= 2048/8 {
			return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
		}
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256():
			return []string{"ES256"}
		case elliptic.P384():
			return []string{"ES384"}
		case elliptic.P521():
			return []string{"ES512"}
		}
	case ed25519.PublicKey:
		return []string{"EdDSA"}
	}
	return nil
}

var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// CheckAlgorithms says what is wrong with a list of signature algorithms. Only asymmetric ones may be in it: with
// another, whoever can check a token could make one.
func CheckAlgorithms(names []string) error {
	if len(names) == 0 {
		return errors.New("must name at least one")
	}
	for _, name := range names {
		if !slices.Contains(algorithms, name) {
			return fmt.Errorf("%q is none of %v", name, algorithms)
		}
	}
	return nil
}

// find returns all keys of this id for this algorithm: nothing forbids an issuer to have two.
func (s keySet) find(id, algorithm string) (found keySet) {
	for _, k := range s {
		if k.id == id && slices.Contains(k.algorithms, algorithm) {
			found = append(found, k)
		}
	}
	return found
}

func (s keySet) holds(thumbprint string) bool {
	return slices.ContainsFunc(s, func(k key) bool { return k.thumbprint == thumbprint })
}

func (s keySet) ids() []string {
	ids := make([]string, len(s))
	for i, k := range s {
		ids[i] = k.id
	}
	return ids
}

func (s keySet) same(other keySet) bool {
	return slices.EqualFunc(s, other, func(a, b key) bool { return a.id == b.id && a.thumbprint == b.thumbprint })
}
