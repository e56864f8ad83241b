package main

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"os"
	"strconv"

	"github.com/knadh/koanf/v2"

	"orderonce/internal/telemetry"
)

// otelEndpoint is the standard's own variable for otlp-endpoint, which every deployment that has a collector sets. What
// else the standard has (OTEL_EXPORTER_OTLP_HEADERS, OTEL_RESOURCE_ATTRIBUTES …) the exporters read for themselves.
const otelEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"

// shortestSecret is in characters: a shorter one could be guessed.
const shortestSecret = 16

func telemetryConfig(k *koanf.Koanf, fail func(name string, err error)) telemetry.Config {
	c := telemetry.Config{
		Version: version(), Endpoint: cmp.Or(k.String("otlp-endpoint"), os.Getenv(otelEndpoint)),
		Metrics: k.String("metrics-listen") != "", Secret: k.String("telemetry-key-secret"),
	}
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			fail("otlp-endpoint", errors.New("must be http or https with a host and a port, such as http://127.0.0.1:4317"))
		}
	}
	if listen := k.String("metrics-listen"); listen != "" {
		_, _, err := net.SplitHostPort(listen)
		fail("metrics-listen", err)
	}
	var err error
	if c.Share, err = strconv.ParseFloat(k.String("trace-sampling"), 64); err == nil && !(c.Share >= 0 && c.Share <= 1) {
		err = errors.New("must be between 0 and 1")
	}
	fail("trace-sampling", err)
	if c.Secret != "" && len(c.Secret) < shortestSecret {
		fail("telemetry-key-secret", errors.New("must have at least 16 characters"))
	}
	return c
}
