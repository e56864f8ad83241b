package main

import (
	"errors"
	"strings"
	"time"

	"github.com/knadh/koanf/v2"

	"orderonce/internal/identity/oidc"
)

// oidcPatience is how long a request waits for the issuer's keys, where its token names one that is not known.
const oidcPatience = 2 * time.Second

// oidcConfig reads and checks the settings of the issuer whose tokens count; without one it is zero.
func oidcConfig(k *koanf.Koanf, leeway time.Duration, fail func(name string, err error)) oidc.Config {
	issuer, jwks := k.String("oidc-issuer"), k.String("oidc-jwks-url")
	if issuer == "" {
		for _, name := range []string{"oidc-audience", "oidc-jwks-url"} {
			if k.String(name) != "" {
				fail(name, errors.New("means nothing without oidc-issuer"))
			}
		}
		return oidc.Config{}
	}
	c := oidc.Config{
		Issuer: issuer, Audience: k.String("oidc-audience"), JWKSURL: jwks, Leeway: leeway, Patience: oidcPatience,
		TenantClaim: k.String("oidc-tenant-claim"), ScopeClaim: k.String("oidc-scope-claim"),
	}
	for name := range strings.SplitSeq(k.String("oidc-algorithms"), ",") {
		c.Algorithms = append(c.Algorithms, strings.TrimSpace(name))
	}
	fail("oidc-issuer", oidc.CheckIssuer(issuer))
	if jwks != "" {
		fail("oidc-jwks-url", oidc.CheckURL(jwks))
	}
	fail("oidc-algorithms", oidc.CheckAlgorithms(c.Algorithms))
	for _, name := range []string{"oidc-audience", "oidc-tenant-claim", "oidc-scope-claim"} {
		if k.String(name) == "" {
			fail(name, errors.New("must be set where oidc-issuer is"))
		}
	}
	if leeway > maxLeeway {
		fail("oidc-leeway", errors.New("must be at most "+maxLeeway.String()+": an expired token lives as much longer"))
	}
	return c
}

const maxLeeway = 5 * time.Minute
