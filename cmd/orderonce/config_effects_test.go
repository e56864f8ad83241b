package main

import (
	"strings"
	"testing"
	"time"

	"orderonce/internal/effects"
)

func TestParseCapability(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		capability effects.Capability
		retention  time.Duration
		asked      bool
	}{
		"idempotent:24h":           {effects.Idempotent, 24 * time.Hour, false},
		"idempotent:90m,queryable": {effects.Idempotent, 90 * time.Minute, true},
		"queryable, idempotent:1h": {effects.Idempotent, time.Hour, true},
		"queryable":                {effects.Queryable, 0, false},
		"none":                     {effects.None, 0, false},
	} {
		capability, retention, asked, err := parseCapability(text)
		if err != nil || capability != want.capability || retention != want.retention || asked != want.asked {
			t.Errorf("%q is %v %v %v, %v; want %v", text, capability, retention, asked, err, want)
		}
	}
	for _, text := range []string{
		"", "idempotent", "idempotent:", "idempotent:0s", "idempotent:-1h", "idempotent:1", "both", "queryable,queryable",
		"idempotent:1h,idempotent:2h", "none,queryable", "queryable,none", "idempotent:1h,none", ",",
	} {
		if capability, _, _, err := parseCapability(text); err == nil {
			t.Errorf("%q is %v, and should be refused", text, capability)
		}
	}
}

// Whoever sets destinations wrongly is told each mistake by the setting's name, before anything is sent.
func TestMistakesAboutDestinationsAreNamed(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := run(t, []string{"ORDERONCE_PAYMENT_AUTHORIZATION=Bearer s3cret"}, "worker",
		"--payment-url=https://user:s3cret@payments.example", "--inventory-capability=perhaps", "--kafka-brokers=kafka",
		"--kafka-tls=maybe", "--webhook-allow-private=a bit", "--effect-lease=15s", "--event-retention=3000h", "--effect-attempts=0")
	if status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	for _, want := range []string{
		"payment: url", "inventory-capability", "kafka-brokers", "kafka-tls", "webhook-allow-private",
		"effect-attempts", "destination-timeout and 10s to write the outcome (20s) must be shorter than effect-lease (15s)",
		"event-retention (3000h0m0s) must be shorter than effect-retention (2160h0m0s)",
	} {
		if !strings.Contains(stderr, "orderonce: "+want) {
			t.Errorf("%q is not said in\n%s", want, stderr)
		}
	}
	if strings.Contains(stdout+stderr, "s3cret") {
		t.Errorf("a secret is shown:\n%s", stderr)
	}
	_, stdout, _ = run(t, []string{"ORDERONCE_PAYMENT_AUTHORIZATION=Bearer s3cret", "ORDERONCE_NATS_URL=nats://u:s3cret@nats", "ORDERONCE_KAFKA_PASSWORD=s3cret"}, "config", "print")
	if strings.Contains(stdout, "s3cret") || strings.Count(stdout, `"(set)"`) != 3 {
		t.Errorf("printed:\n%s", stdout)
	}
}

// A password that would go over the wire as it is, or to nobody, is a mistake that is told at the start.
func TestMistakesAboutKafkaUsersAreNamed(t *testing.T) {
	t.Parallel()
	load := func(set string) (effectsConfig, error) {
		cmd := workerCommand()
		must(t, cmd.ParseFlags(strings.Fields(set)))
		c, err := loadConfig(cmd.Flags())
		return c.Effects, err
	}
	const user = " --kafka-user=orderonce --kafka-password=s3cret"
	for set, want := range map[string]string{
		"--kafka-sasl=plain" + user:  "plain sends the password as it is: set kafka-tls",
		"--kafka-sasl=scram-sha-256": "needs kafka-user and kafka-password",
		"--kafka-sasl=gssapi" + user: "must be plain, scram-sha-256 or scram-sha-512",
		"--kafka-tls=true" + user:    "must be set where there is a user or a password",
	} {
		if _, err := load(set); err == nil || !strings.Contains(err.Error(), "kafka-sasl: "+want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", set, err)
		}
	}
	if c, err := load("--kafka-tls=true --kafka-sasl=plain" + user); err != nil || c.Kafka.SASL == nil || c.Kafka.SASL.Name() != "PLAIN" {
		t.Errorf("%+v, %v", c.Kafka, err)
	}
}

// In dev each service that has no URL is played, and one that has is asked.
func TestServicesWithoutAURLArePlayed(t *testing.T) {
	t.Parallel()
	cmd := devCommand()
	must(t, cmd.ParseFlags([]string{"--payment-url=https://payments.example", "--payment-capability=none"}))
	c, err := loadConfig(cmd.Flags())
	must(t, err)
	played := c.Effects.played("http://127.0.0.1:1")
	if played.Payment.URL != "https://payments.example" || played.Payment.Capability != effects.None ||
		played.Inventory.URL != "http://127.0.0.1:1" || played.Notification.URL != "http://127.0.0.1:1" {
		t.Errorf("%+v %+v %+v", played.Payment, played.Inventory, played.Notification)
	}
	if c.Effects.Inventory != nil {
		t.Error("a service is set that nobody has set")
	}
}
