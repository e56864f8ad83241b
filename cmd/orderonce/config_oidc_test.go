package main

import (
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/identity/oidc/oidctest"
)

// An issuer decides who gets in: whatever could mean another trust than was meant does not start.
func TestIssuerSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args  []string
		wrong []string
	}{
		"none":                       {nil, nil},
		"an issuer":                  {[]string{"--oidc-issuer=https://id.example", "--oidc-audience=orders"}, nil},
		"a test's issuer":            {[]string{"--oidc-issuer=http://127.0.0.1:8081", "--oidc-audience=orders"}, nil},
		"keys elsewhere":             {[]string{"--oidc-issuer=https://id.example", "--oidc-audience=orders", "--oidc-jwks-url=https://keys.example/?t=1"}, nil},
		"no audience":                {[]string{"--oidc-issuer=https://id.example"}, []string{"oidc-audience"}},
		"an audience alone":          {[]string{"--oidc-audience=orders"}, []string{"oidc-audience"}},
		"keys alone":                 {[]string{"--oidc-jwks-url=https://keys.example"}, []string{"oidc-jwks-url"}},
		"an issuer that all can be":  {[]string{"--oidc-issuer=http://id.example", "--oidc-audience=orders"}, []string{"oidc-issuer"}},
		"keys that all can replace":  {[]string{"--oidc-issuer=https://id.example", "--oidc-audience=orders", "--oidc-jwks-url=http://keys.example"}, []string{"oidc-jwks-url"}},
		"a shared secret":            {[]string{"--oidc-issuer=https://id.example", "--oidc-audience=orders", "--oidc-algorithms=RS256,HS256"}, []string{"oidc-algorithms"}},
		"no signature":               {[]string{"--oidc-issuer=https://id.example", "--oidc-audience=orders", "--oidc-algorithms=none"}, []string{"oidc-algorithms"}},
		"no algorithm":               {[]string{"--oidc-issuer=https://id.example", "--oidc-audience=orders", "--oidc-algorithms="}, []string{"oidc-algorithms"}},
		"no claims, and much leeway": {[]string{"--oidc-issuer=https://id.example", "--oidc-audience=orders", "--oidc-tenant-claim=", "--oidc-scope-claim=", "--oidc-leeway=6m"}, []string{"oidc-leeway", "oidc-scope-claim", "oidc-tenant-claim"}},
		"a leeway that is no time":   {[]string{"--oidc-leeway=30"}, []string{"oidc-leeway"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := serveCommand()
			must(t, cmd.ParseFlags(c.args))
			_, err := loadConfig(cmd.Flags())
			var wrong []string
			if err != nil {
				for line := range strings.SplitSeq(err.Error(), "\n") {
					setting, _, _ := strings.Cut(line, ":")
					wrong = append(wrong, setting)
				}
			}
			slices.Sort(wrong)
			if !slices.Equal(wrong, c.wrong) {
				t.Errorf("wrong is %v, want %v: %v", wrong, c.wrong, err)
			}
		})
	}
}

func TestAlgorithmsMayStandApart(t *testing.T) {
	t.Parallel()
	cmd := serveCommand()
	must(t, cmd.ParseFlags([]string{"--oidc-issuer=https://id.example", "--oidc-audience=orders", "--oidc-algorithms=PS256, ES384"}))
	c, err := loadConfig(cmd.Flags())
	must(t, err)
	if !slices.Equal(c.OIDC.Algorithms, []string{"PS256", "ES384"}) || c.OIDC.Leeway != 30*time.Second {
		t.Errorf("%+v", c.OIDC)
	}
}

// The whole server, told by its settings alone, lets a token in beside its API keys, and stops while it trusts.
func TestServerTrustsItsIssuer(t *testing.T) {
	t.Parallel()
	issuer := oidctest.New(t)
	process, ready := orderoncetest.StartServer(t, orderoncetest.Command{Binary: orderoncetest.Binary(t), Args: []string{
		"dev", "--database-url=" + databaseOfTest(t), "--oidc-issuer=" + issuer.URL, "--oidc-audience=" + oidctest.Audience,
	}})
	key, now := orderoncetest.NewKey(), time.Now()
	client := orderoncetest.NewClient(ready.BaseURL, issuer.Token(now, nil))
	orderoncetest.Poll(t, "the issuer's keys", func() bool {
		a, err := client.TryPlace(t.Context(), key, orderoncetest.Order(nil))
		must(t, err)
		if a.Status != http.StatusServiceUnavailable && a.Status != http.StatusCreated {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		return a.Status == http.StatusCreated
	})
	refreshed := orderoncetest.NewClient(ready.BaseURL, issuer.Token(now, nil))
	if a := refreshed.Place(t, key, orderoncetest.Order(nil)); !a.Replayed() {
		t.Errorf("the refreshed token does not get the replay: %d %s", a.Status, a.Body)
	}
	stranger := orderoncetest.NewClient(ready.BaseURL, oidctest.ES256(t, "first").Sign(issuer.Claims(now, nil)))
	if a, err := stranger.TryPlace(t.Context(), key, orderoncetest.Order(nil)); err != nil || a.Status != http.StatusUnauthorized {
		t.Errorf("a stranger's token: %d %s, %v", a.Status, a.Body, err)
	}
	process.Signal(t, syscall.SIGTERM)
	if status := process.Wait(t); status != 0 {
		t.Errorf("it ends with status %d", status)
	}
}
