package oidc

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// maxToken bounds a token in bytes, before anything of it is looked at.
const maxToken = 8 << 10

// ErrRefused is the error of every token that gives no access. Its text is for logs: what was wrong with a credential
// helps only those who guess.
var ErrRefused = errors.New("the token is refused")

func refused(reason string) error { return fmt.Errorf("%w: %s", ErrRefused, reason) }

// Token is what a verified token claims.
type Token struct {
	Issuer  string
	Subject string // who asks, by the issuer's name for it: 1 to 255 characters, without NUL
	Tenant  string // without NUL
	Scopes  []string

	expires time.Time
	signer  string // the thumbprint of its key
}

// Verify tells what a token claims that the issuer signed for this service and for now. It returns ErrRefused for
// every other token, and fault.Unavailable for one that cannot be judged while the issuer's keys are not known.
func (i *Issuer) Verify(ctx context.Context, text string) (Token, error) {
	t, err := i.verify(ctx, text)
	if errors.Is(err, ErrRefused) {
		i.log.DebugContext(ctx, "token refused", "reason", err.Error())
	}
	return t, err
}

// Stands says whether a token that was verified before is good without another look at its text: until its exp, to
// the second, and while its key is the issuer's.
func (i *Issuer) Stands(t Token) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.config.Now().Before(t.expires) && i.current().holds(t.signer)
}

func (i *Issuer) verify(ctx context.Context, text string) (Token, error) {
	if !wellFormed(text) {
		return Token{}, refused("it is no signed token of an acceptable length")
	}
	jws, err := jose.ParseSignedCompact(text, i.algorithms)
	if err != nil {
		return Token{}, refused("its header or algorithm is not accepted")
	}
	// The header is the sender's until the signature is checked. It may choose among the issuer's keys; a key that it
	// brings (jwk, x5c) or points at (jku, x5u) is not looked at.
	header := jws.Signatures[0].Protected
	if _, critical := header.ExtraHeaders["crit"]; critical {
		return Token{}, refused("its header has extensions that must be understood")
	}
	if kind, present := header.ExtraHeaders[jose.HeaderType]; present && !acceptable(kind) {
		return Token{}, refused("it is a token of another type")
	}
	if header.KeyID == "" {
		return Token{}, refused("it names no key")
	}
	candidates, err := i.find(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return Token{}, err
	}
	for _, k := range candidates {
		if payload, err := jws.Verify(k.public); err == nil {
			return i.judge(payload, k)
		}
	}
	return Token{}, refused("its signature is not the issuer's")
}

// acceptable tells types that access and identity tokens have from those of tokens for other ends (logout, DPoP).
func acceptable(kind any) bool {
	text, _ := kind.(string)
	switch strings.TrimPrefix(strings.ToLower(text), "application/") {
	case "jwt", "at+jwt":
		return true
	}
	return false
}

var strict = base64.RawURLEncoding.Strict()

// wellFormed wants three parts of base64url, each in its one spelling: the decoder of the library would overlook line
// ends and bits that say nothing, and many texts would be one token.
func wellFormed(text string) bool {
	if len(text) > maxToken || strings.Count(text, ".") != 2 || strings.ContainsAny(text, "\r\n") {
		return false
	}
	for part := range strings.SplitSeq(text, ".") {
		if _, err := strict.DecodeString(part); err != nil || part == "" {
			return false
		}
	}
	return true
}
