package oidc_test

import (
	"errors"
	"reflect"
	"testing"

	"go.uber.org/goleak"

	"orderonce/internal/fault"
	"orderonce/internal/identity/oidc"
	"orderonce/internal/identity/oidc/oidctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is an issuer, one that trusts it, and the time of both.
type fixture struct {
	t       *testing.T
	issuer  *oidctest.Issuer
	clock   *oidctest.Clock
	trusted *oidc.Issuer
}

func setup(t *testing.T, changes ...func(*oidc.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, issuer: oidctest.New(t), clock: oidctest.NewClock()}
	f.start(changes...)
	// The first fetch is over now: what the test does to the keys or the clock cannot overtake it.
	if _, err := f.trusted.Verify(t.Context(), f.token(nil)); fault.KindOf(err) == fault.Unavailable {
		t.Fatal(err)
	}
	return f
}

// start runs what trusts the issuer, as a new process would.
func (f *fixture) start(changes ...func(*oidc.Config)) {
	f.t.Helper()
	config := f.issuer.Config(f.clock)
	for _, change := range changes {
		change(&config)
	}
	f.trusted = oidctest.Start(f.t, config)
}

// token is a good one but for the changes.
func (f *fixture) token(changes map[string]any) string {
	f.t.Helper()
	return f.issuer.Token(f.clock.Now(), changes)
}

func (f *fixture) accepted(text string) oidc.Token {
	f.t.Helper()
	token, err := f.trusted.Verify(f.t.Context(), text)
	if err != nil {
		f.t.Fatalf("a good token: %v", err)
	}
	return token
}

func (f *fixture) refused(what, text string) {
	f.t.Helper()
	token, err := f.trusted.Verify(f.t.Context(), text)
	if !errors.Is(err, oidc.ErrRefused) || !reflect.ValueOf(token).IsZero() {
		f.t.Errorf("%s: %+v, %v", what, token, err)
	}
}

func (f *fixture) unavailable(what, text string) {
	f.t.Helper()
	_, err := f.trusted.Verify(f.t.Context(), text)
	var unavailable *fault.Error
	if !errors.As(err, &unavailable) || unavailable.Kind != fault.Unavailable || unavailable.RetryAfter == 0 {
		f.t.Errorf("%s: %v, want it to be unavailable for now", what, err)
	}
}
