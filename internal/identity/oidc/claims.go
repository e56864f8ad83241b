package oidc

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// claims are the members of a token's payload, each as its JSON text. Names count to the letter.
type claims map[string]jsontext.Value

// judge reads the payload of a token that was signed with a key of the issuer's.
func (i *Issuer) judge(payload []byte, signer key) (Token, error) {
	var c claims
	// Refuses duplicate members at any depth and invalid UTF-8: what two readers could read in two ways.
	if err := json.Unmarshal(payload, &c); err != nil {
		return Token{}, refused("its payload is no JSON object")
	}
	if issuer, _ := c.text("iss"); issuer != i.config.Issuer {
		return Token{}, refused("it is of another issuer")
	}
	if audiences, _ := c.texts("aud"); !slices.Contains(audiences, i.config.Audience) {
		return Token{}, refused("it is for another audience")
	}
	if _, bound := c["cnf"]; bound {
		return Token{}, refused("it is bound to a key of its owner, which a bearer does not prove")
	}
	expires, err := i.judgeTimes(c)
	if err != nil {
		return Token{}, err
	}
	t := Token{Issuer: i.config.Issuer, expires: expires, signer: signer.thumbprint}
	if t.Subject, _ = c.text("sub"); t.Subject == "" || utf8.RuneCountInString(t.Subject) > 255 || strings.Contains(t.Subject, "\x00") {
		return Token{}, refused("it has no sub of 1 to 255 characters")
	}
	if t.Tenant, _ = c.text(i.config.TenantClaim); t.Tenant == "" || strings.Contains(t.Tenant, "\x00") {
		return Token{}, refused("it has no claim that names the tenant")
	}
	if value, present := c[i.config.ScopeClaim]; present {
		scopes, ok := c.texts(i.config.ScopeClaim)
		if !ok {
			return Token{}, refused("its claim of scopes is neither a string nor an array of strings")
		}
		if value.Kind() == '"' {
			scopes = strings.Fields(scopes[0])
		}
		t.Scopes = scopes
	}
	return t, nil
}

func (i *Issuer) judgeTimes(c claims) (expires time.Time, err error) {
	now, leeway := i.config.Now(), i.config.Leeway
	expires, hasEnd := c.instant("exp")
	issued, hasBegin := c.instant("iat")
	switch {
	case !hasEnd || !hasBegin:
		return time.Time{}, refused("it has no exp and iat in seconds")
	case !now.Before(expires.Add(leeway)):
		return time.Time{}, refused("it has expired")
	case issued.After(now.Add(leeway)):
		return time.Time{}, refused("it was issued in the future")
	case expires.Sub(issued) > MaxLifetime:
		return time.Time{}, refused("it is to live for more than " + MaxLifetime.String())
	}
	if _, present := c["nbf"]; present {
		if begins, ok := c.instant("nbf"); !ok || begins.After(now.Add(leeway)) {
			return time.Time{}, refused("it is not valid yet")
		}
	}
	return expires, nil
}

func (c claims) text(name string) (text string, ok bool) {
	value := c[name]
	if value.Kind() != '"' || json.Unmarshal(value, &text) != nil {
		return "", false
	}
	return text, true
}

// texts are the elements of an array of strings, or the one string in its place.
func (c claims) texts(name string) (texts []string, ok bool) {
	if text, ok := c.text(name); ok {
		return []string{text}, true
	}
	value := c[name]
	if value.Kind() != '[' || json.Unmarshal(value, &texts) != nil {
		return nil, false // and not the elements before the one that is no string
	}
	return texts, true
}

// instant reads seconds since 1970, fractions cut off. A time past the year 5000 is no time: it would overflow.
func (c claims) instant(name string) (instant time.Time, ok bool) {
	var seconds float64
	value := c[name]
	if value.Kind() != '0' || json.Unmarshal(value, &seconds) != nil || seconds < 0 || seconds > 1e11 {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0), true
}
