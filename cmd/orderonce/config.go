package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"orderonce/internal/effects/cloudevents"
	"orderonce/internal/identity/oidc"
	"orderonce/internal/telemetry"
)

const envPrefix = "ORDERONCE_"

// setting is one thing that can be configured. Its name is the flag's; the variable and the line of the file
// follow from it.
type setting struct{ name, value, help string }

// settings is the one list of what a server can be told.
var settings = []setting{
	{"database-url", "", "PostgreSQL connection string"},
	{"listen", "127.0.0.1:8080", "address to listen on"},
	{"ready-file", "", "file to write JSON to once requests are answered: base_url, pids and, in dev, keys"},
	{"log-level", "info", "debug, info, warn or error"},
	{"max-connections", "16", "connections to the database for requests, at most"},
	{"worker-connections", "4", "further connections, for authentication, operators and background work"},
	{"shared-commits", "2", "commits that units which only write share, under way at once; 0 on a cluster sharded by tenant"},
	{"replay-cache", "10000", "outcomes kept in memory for replays; 0 reads each from the database"},
	{"max-in-flight", "1024", "requests under way at once before 503 busy"},
	{"tenant-rate", "0", "requests per second of one tenant, in this process, before 429 rate_limited; 0 for no limit"},
	{"tenant-burst", "0", "requests that one tenant may send at once after a pause; 0 for as many as in a second"},
	{"cors-origins", "", "origins whose pages may ask from a browser, such as https://shop.example, with commas between; none for none"},
	{"acquire-timeout", "3s", "wait for a connection of the pool before 503 busy"},
	{"statement-timeout", "5s", "PostgreSQL's statement_timeout; longer than any operation's wait"},
	{"idle-in-transaction-timeout", "8s", "PostgreSQL's idle_in_transaction_session_timeout"},
	{"unit-deadline", "10s", "a keyed request from its first claim to its answer, whatever the client does"},
	{"request-timeout", "15s", "one request from its head to its answer"},
	{"body-timeout", "10s", "wait for a request's body before 408"},
	{"max-body", "262144", "bytes of a request's body before 413"},
	{"oidc-issuer", "", "OpenID Connect issuer whose tokens count beside API keys, as their iss says it; none where empty"},
	{"oidc-audience", "", "what a token's aud must name"},
	{"oidc-jwks-url", "", "address of the issuer's keys (default: what its discovery document says)"},
	{"oidc-algorithms", "RS256,ES256,EdDSA", "signature algorithms of tokens, asymmetric ones only"},
	{"oidc-tenant-claim", "tenant", "a token's claim that holds the name of the tenant"},
	{"oidc-scope-claim", "scope", "a token's claim that holds the scopes: a string with blanks between them, or an array"},
	{"oidc-leeway", "30s", "difference to the issuer's clock that a token's times are forgiven"},
	{"payment-url", "", "payment service that each order waits for; none where empty"},
	{"payment-capability", "idempotent:24h", "what it can do about a call whose outcome nobody heard: idempotent:RETENTION, queryable, both, or none"},
	{"payment-authorization", "", "the Authorization header that it wants"},
	{"inventory-url", "", "inventory service that each order waits for; none where empty"},
	{"inventory-capability", "idempotent:24h", "like payment-capability"},
	{"inventory-authorization", "", "the Authorization header that it wants"},
	{"notification-url", "", "notification service that hears what became of an order; none where empty"},
	{"notification-capability", "idempotent:24h", "like payment-capability"},
	{"notification-authorization", "", "the Authorization header that it wants"},
	{"webhook-allow-private", "false", "whether webhooks may lead to private addresses, and be plain HTTP"},
	{"nats-url", "", "NATS servers to publish events to, with commas between; none where empty"},
	{"nats-credentials", "", "file with a NATS user's JWT and seed; none where empty"},
	{"nats-stream", "orderonce", "JetStream stream that has to take the subjects"},
	{"nats-prefix", "orderonce", "beginning of the subjects, before the tenant and the kind of event"},
	{"kafka-brokers", "", "Kafka brokers to publish events to, as host:port with commas between; none where empty"},
	{"kafka-topic", "orderonce", "topic that has to be there"},
	{"kafka-tls", "false", "whether connections to the brokers are encrypted"},
	{"kafka-sasl", "", "how the brokers are told who publishes: plain, scram-sha-256 or scram-sha-512; not at all where empty"},
	{"kafka-user", "", "who publishes"},
	{"kafka-password", "", "the user's password"},
	{"event-source", cloudevents.DefaultSource, "source of the CloudEvents that leave"},
	{"destination-timeout", "10s", "one call to a destination"},
	{"effect-lease", "1m", "time after which another worker looks into a call that nobody has finished"},
	{"effect-attempts", "12", "times that a call is taken up before it needs a person"},
	{"effect-concurrency", "8", "calls to one destination under way at once, in one worker"},
	{"task-concurrency", "2", "tasks that one worker works on at once, such as imports"},
	{"event-retention", "168h", "how long events are kept after they were dispatched"},
	{"effect-retention", "2160h", "how long effects are kept after their end, but for those that an order waited for"},
	{"drain-delay", "2s", "time between /readyz turning false and the listener closing"},
	{"stop-timeout", "20s", "time for the requests under way when stopping"},
	{"metrics-listen", "", "address for Prometheus to scrape, a listener of its own that asks for no credential; empty for none"},
	{"otlp-endpoint", "", "where traces and metrics go by OTLP over gRPC, such as http://127.0.0.1:4317 (default: OTEL_EXPORTER_OTLP_ENDPOINT)"},
	{"trace-sampling", "0.01", "share of the traces that are kept, 0 to 1; those of conflicts, time-outs and failures always are"},
	{"telemetry-key-secret", "", "secret of the hashes that stand for idempotency keys in telemetry; a random one at each start where empty"},
	{"debug-listen", "", "address of loopback for net/http/pprof; empty for none"},
}

// secret says whether its value is shown to nobody.
func (s setting) secret() bool {
	return strings.HasSuffix(s.name, "-authorization") ||
		slices.Contains([]string{"nats-url", "kafka-password", "telemetry-key-secret"}, s.name)
}

// config is the settings, checked.
type config struct {
	DatabaseURL                                  string
	Listen                                       string
	ReadyFile                                    string
	LogLevel                                     slog.Level
	MaxConnections, WorkerConnections            int32
	Acquire, Statement, IdleInTransaction        time.Duration
	Unit, Request, Body, DrainDelay, StopTimeout time.Duration
	MaxBody, MaxInFlight                         int64
	SharedCommits, ReplayCache, TenantBurst      int
	TaskConcurrency                              int
	TenantRate                                   float64
	Origins                                      []string
	DebugListen, MetricsListen                   string
	OIDC                                         oidc.Config // Issuer is empty where none is trusted
	Telemetry                                    telemetry.Config
	Effects                                      effectsConfig
}

// addSettings gives a command the flags of these settings, of all where none is named.
func addSettings(cmd *cobra.Command, names ...string) {
	for _, s := range settings {
		if len(names) == 0 || slices.Contains(names, s.name) {
			cmd.Flags().String(s.name, s.value, s.help)
		}
	}
	cmd.Flags().String("config", "", "YAML file of settings")
	_ = cmd.Flags().MarkHidden("debug-listen") // refuses only where the command has no such flag
}

// loadSettings merges defaults, file, environment and flags, later ones winning.
func loadSettings(flags *pflag.FlagSet) (*koanf.Koanf, error) {
	k := koanf.New(".")
	if path, _ := flags.GetString("config"); path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		var unknown []error
		for _, name := range k.Keys() {
			if !isSetting(name) {
				unknown = append(unknown, fmt.Errorf("%s: there is no setting %q", path, name))
			}
		}
		if err := errors.Join(unknown...); err != nil {
			return nil, err
		}
	}
	fromEnv := env.Provider(".", env.Opt{Prefix: envPrefix, EnvironFunc: os.Environ, TransformFunc: func(name, value string) (string, any) {
		name = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, envPrefix)), "_", "-")
		if !isSetting(name) {
			return "", nil // another program's, such as the tests' own
		}
		return name, value
	}})
	if err := k.Load(fromEnv, nil); err != nil {
		return nil, err
	}
	// A flag that was not given brings its command's default where nothing else has spoken.
	if err := k.Load(posflag.Provider(flags, ".", k), nil); err != nil {
		return nil, err
	}
	for _, s := range settings {
		if !k.Exists(s.name) {
			_ = k.Set(s.name, s.value) // a map in memory takes any key
		}
	}
	return k, nil
}

func isSetting(name string) bool {
	return slices.ContainsFunc(settings, func(s setting) bool { return s.name == name })
}

// mostConnections is more than any PostgreSQL should be asked for, and a mistake.
const mostConnections = 10_000

// loadConfig reads and checks the settings; its error joins all that is wrong with them.
func loadConfig(flags *pflag.FlagSet) (config, error) {
	k, err := loadSettings(flags)
	if err != nil {
		return config{}, err
	}
	var wrong []error
	fail := func(name string, err error) {
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
		}
	}
	duration := func(name string) time.Duration {
		d, err := time.ParseDuration(k.String(name))
		if err == nil && d < 0 {
			err = errors.New("must not be negative")
		}
		fail(name, err)
		return d
	}
	number := func(name string, least, most int64) int64 {
		n, err := strconv.ParseInt(k.String(name), 10, 64)
		if err == nil && (n < least || n > most) {
			err = fmt.Errorf("must be between %d and %d", least, most)
		}
		fail(name, err)
		return n
	}
	c := config{
		DatabaseURL: k.String("database-url"), Listen: k.String("listen"), ReadyFile: k.String("ready-file"),
		DebugListen: k.String("debug-listen"), MetricsListen: k.String("metrics-listen"),
		MaxConnections:    int32(number("max-connections", 1, mostConnections)),    //nolint:gosec // in bounds
		WorkerConnections: int32(number("worker-connections", 1, mostConnections)), //nolint:gosec // in bounds
		TaskConcurrency:   int(number("task-concurrency", 1, 1000)),
		SharedCommits:     int(number("shared-commits", 0, 8)), // each one more makes the others smaller
		ReplayCache:       int(number("replay-cache", 0, 10_000_000)),
		TenantBurst:       int(number("tenant-burst", 0, 1_000_000)),
		MaxBody:           number("max-body", 1, 1<<30), MaxInFlight: number("max-in-flight", 1, 1_000_000),
		Acquire: duration("acquire-timeout"), Statement: duration("statement-timeout"),
		IdleInTransaction: duration("idle-in-transaction-timeout"), Unit: duration("unit-deadline"),
		Request: duration("request-timeout"), Body: duration("body-timeout"),
		DrainDelay: duration("drain-delay"), StopTimeout: duration("stop-timeout"),
	}
	c.TenantRate, err = parseRate(k.String("tenant-rate"))
	fail("tenant-rate", err)
	c.Origins, err = parseOrigins(k.String("cors-origins"))
	for _, err := range unjoin(err) {
		fail("cors-origins", err)
	}
	fail("debug-listen", debugAddress(c.DebugListen))
	c.Telemetry = telemetryConfig(k, fail)
	c.OIDC = oidcConfig(k, duration("oidc-leeway"), fail)
	c.Effects = effectsConfigOf(k, duration, number, fail)
	fail("log-level", c.LogLevel.UnmarshalText([]byte(k.String("log-level"))))
	wrong = append(wrong, nested([]bound{
		{"acquire-timeout", c.Acquire},
		{"statement-timeout", c.Statement},
		{"idle-in-transaction-timeout", c.IdleInTransaction},
		{"unit-deadline", c.Unit},
		{"request-timeout", c.Request},
	})...)
	wrong = append(wrong, nested([]bound{{"body-timeout", c.Body}, {"request-timeout", c.Request}})...)
	wrong = append(wrong, nested([]bound{
		{"acquire-timeout and statement-timeout together", c.Acquire + c.Statement}, {"unit-deadline", c.Unit},
	})...)
	wrong = append(wrong, c.Effects.bounds()...)
	return c, errors.Join(wrong...)
}

type bound struct {
	name string
	time time.Duration
}

// nested wants each bound to be shorter than the one outside it: an outer bound that fires first would hide which
// wait was too long, and leave the inner one holding what the outer one gave up.
func nested(bounds []bound) (wrong []error) {
	for i := 1; i < len(bounds); i++ {
		inner, outer := bounds[i-1], bounds[i]
		if inner.time >= outer.time {
			wrong = append(wrong, fmt.Errorf("%s (%s) must be shorter than %s (%s)", inner.name, inner.time, outer.name, outer.time))
		}
	}
	return wrong
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Look at the settings"}
	show := &cobra.Command{
		Use:   "print",
		Short: "Print every setting as a YAML file, secrets left out",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := loadSettings(cmd.Flags())
			if err != nil {
				return err
			}
			for _, s := range settings {
				value := k.String(s.name)
				switch {
				case s.name == "database-url":
					value = redacted(value)
				case s.secret() && value != "":
					value = "(set)"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "# %s\n%s: %q\n", s.help, s.name, value)
			}
			_, err = loadConfig(cmd.Flags())
			return err
		},
	}
	addSettings(show)
	cmd.AddCommand(show)
	return cmd
}

// redacted is a connection string without its passwords. One that is no whole URL may hold them anywhere: behind a
// scheme that was forgotten, or in a path that begins in the middle of a password.
func redacted(connection string) string {
	if connection == "" {
		return ""
	}
	u, err := url.Parse(connection)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Opaque != "" ||
		strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return "(set)"
	}
	query := u.Query()
	for _, secret := range []string{"password", "sslpassword"} {
		if query.Has(secret) {
			query.Set(secret, "xxxxx")
			u.RawQuery = query.Encode()
		}
	}
	return u.Redacted()
}
