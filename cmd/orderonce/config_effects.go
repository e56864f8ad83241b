package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/knadh/koanf/v2"

	"orderonce/internal/effects"
	"orderonce/internal/effects/downstream"
	"orderonce/internal/sandbox"
)

// effectsConfig is what the background does about events, and how.
type effectsConfig struct {
	Payment, Inventory, Notification *downstream.Config // nil where there is none
	Timeout, Lease                   time.Duration
	Attempts                         int32
	Concurrency                      int
	EventRetention, EffectRetention  time.Duration
}

// finishBound is how long the outcome of a call may take to be written.
const finishBound = 10 * time.Second

// effectsConfigOf reads and checks the settings of destinations.
func effectsConfigOf(
	k *koanf.Koanf, duration func(string) time.Duration, number func(string, int64, int64) int64, fail func(name string, err error),
) effectsConfig {
	c := effectsConfig{
		Timeout: duration("destination-timeout"), Lease: duration("effect-lease"),
		Attempts:       int32(number("effect-attempts", 1, 1000)), //nolint:gosec // in bounds
		Concurrency:    int(number("effect-concurrency", 1, 1000)),
		EventRetention: duration("event-retention"), EffectRetention: duration("effect-retention"),
	}
	service := func(name string) *downstream.Config {
		capability, retention, asked, err := parseCapability(k.String(name + "-capability"))
		fail(name+"-capability", err)
		if k.String(name+"-url") == "" {
			return nil
		}
		s := &downstream.Config{
			URL: k.String(name + "-url"), Authorization: k.String(name + "-authorization"), Capability: capability,
			Retention: retention, Asked: asked, Timeout: c.Timeout, Concurrency: c.Concurrency,
		}
		if err == nil {
			for _, err := range unjoin(s.Check()) {
				fail(name, err)
			}
		}
		return s
	}
	c.Payment, c.Inventory, c.Notification = service("payment"), service("inventory"), service("notification")
	return c
}

// bounds are what must fit into what, of those that are settings.
func (c effectsConfig) bounds() (wrong []error) {
	wrong = append(wrong, nested([]bound{
		{"destination-timeout and " + finishBound.String() + " to write the outcome", c.Timeout + finishBound},
		{"effect-lease", c.Lease},
	})...)
	// An event that were delivered again after its effects are gone would make them again.
	return append(wrong, nested([]bound{{"event-retention", c.EventRetention}, {"effect-retention", c.EffectRetention}})...)
}

// parseCapability reads what a service can do, such as idempotent:24h,queryable.
func parseCapability(text string) (capability effects.Capability, retention time.Duration, asked bool, err error) {
	wrong := errors.New("must be idempotent:RETENTION such as idempotent:24h, queryable, both with a comma between, or none")
	for one := range strings.SplitSeq(text, ",") {
		remembers, found := strings.CutPrefix(strings.TrimSpace(one), string(effects.Idempotent)+":")
		switch {
		case found && capability != effects.Idempotent:
			if retention, err = time.ParseDuration(remembers); err != nil || retention <= 0 {
				return "", 0, false, wrong
			}
			asked = capability == effects.Queryable
			capability = effects.Idempotent
		case !found && strings.TrimSpace(one) == string(effects.Queryable) && capability == "":
			capability = effects.Queryable
		case !found && strings.TrimSpace(one) == string(effects.Queryable) && capability == effects.Idempotent && !asked:
			asked = true
		case text == string(effects.None):
			capability = effects.None
		default:
			return "", 0, false, wrong
		}
	}
	return capability, retention, asked, nil
}

// played are the settings where the services are played at a URL, for those that have none of their own.
func (c effectsConfig) played(url string) effectsConfig {
	for _, service := range []**downstream.Config{&c.Payment, &c.Inventory, &c.Notification} {
		if *service == nil {
			*service = &downstream.Config{
				URL: url, Capability: effects.Idempotent, Retention: time.Duration(sandbox.Default().Retention), Asked: true,
				Timeout: c.Timeout, Concurrency: c.Concurrency,
			}
		}
	}
	return c
}

// destinations are those that there are.
func (c effectsConfig) destinations() (all []effects.Destination, err error) {
	for _, service := range []struct {
		config *downstream.Config
		open   func(downstream.Config) effects.Destination
	}{{c.Payment, downstream.Payment}, {c.Inventory, downstream.Inventory}, {c.Notification, downstream.Notification}} {
		if service.config == nil {
			continue
		}
		if err := service.config.Check(); err != nil {
			return nil, fmt.Errorf("destination: %w", err)
		}
		all = append(all, service.open(*service.config))
	}
	return all, nil
}
