package main

import (
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/v2"

	"orderonce/internal/effects"
	"orderonce/internal/effects/downstream"
	"orderonce/internal/effects/kafka"
	"orderonce/internal/effects/natsjs"
)

// effectsConfig is what the background does about events, and how.
type effectsConfig struct {
	Payment, Inventory, Notification *downstream.Config // nil where there is none
	NATS                             natsjs.Config      // without a URL there is none
	Kafka                            kafka.Config       // without brokers there is none
	Source                           string             // of the CloudEvents
	WebhookPrivate                   bool
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
	c.Source = k.String("event-source")
	boolean := func(name string) bool {
		value, err := strconv.ParseBool(k.String(name))
		if err != nil {
			fail(name, errors.New("must be true or false"))
		}
		return value
	}
	c.WebhookPrivate = boolean("webhook-allow-private")
	c.NATS = natsjs.Config{
		URL: k.String("nats-url"), Credentials: k.String("nats-credentials"), Stream: k.String("nats-stream"),
		Prefix: k.String("nats-prefix"), Source: c.Source, Timeout: c.Timeout, Concurrency: c.Concurrency,
	}
	c.Kafka = kafkaConfig(k, boolean("kafka-tls"), fail)
	c.Kafka.Source, c.Kafka.Timeout, c.Kafka.Concurrency = c.Source, c.Timeout, c.Concurrency
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

// kafkaConfig reads how the brokers are reached.
func kafkaConfig(k *koanf.Koanf, encrypted bool, fail func(name string, err error)) kafka.Config {
	c := kafka.Config{Topic: k.String("kafka-topic")}
	if brokers := k.String("kafka-brokers"); brokers != "" {
		for broker := range strings.SplitSeq(brokers, ",") {
			_, _, err := net.SplitHostPort(broker)
			fail("kafka-brokers", err)
			c.Brokers = append(c.Brokers, broker)
		}
	}
	if encrypted {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	mechanism, user, password := k.String("kafka-sasl"), k.String("kafka-user"), k.String("kafka-password")
	switch {
	case mechanism == "" && user+password != "":
		fail("kafka-sasl", errors.New("must be set where there is a user or a password"))
	case mechanism == "plain" && !encrypted:
		fail("kafka-sasl", errors.New("plain sends the password as it is: set kafka-tls"))
	case mechanism != "" && (user == "" || password == ""):
		fail("kafka-sasl", errors.New("needs kafka-user and kafka-password"))
	case mechanism != "":
		var err error
		c.SASL, err = kafka.Mechanism(mechanism, user, password)
		fail("kafka-sasl", err)
	}
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
