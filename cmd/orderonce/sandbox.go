package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orderonce/internal/postgres"
	"orderonce/internal/postgres/localpg"
	"orderonce/internal/sandbox"
)

func sandboxCommand() *cobra.Command {
	var o sandboxOptions
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "Play the services that orders need: payment, inventory, notification",
		Long: `Sandbox plays the payment, inventory and notification services over HTTP, with a durable store of its own, and
counts how often it has really executed each key. It is for tests: whoever reaches it may break it on purpose.

  curl URL/                                         all that can be seen and set
  curl URL/executions?idempotency_key=KEY           how often a key was executed, and asked for
  curl URL/payment/operations/KEY                   what became of it, as a payment service would tell
  curl -d '{"service":"payment","kind":"timeout_after_work","rate":0.2}' URL/faults
  curl -X DELETE URL/faults
  curl -X PUT -d '{"idempotent":false}' URL/services/payment
  curl -d '{"advance":"48h"}' URL/clock             keys grow old without waiting

What can go wrong: timeout_before_work, timeout_after_work, cut_before_work, cut_after_work, cut_mid_response,
too_many_requests, unavailable (503 with Retry-After), overloaded (503 without), error_before_work, error_after_work,
slow, duplicate, decline; none spares a request in a script. A rule fits by service, operation, idempotency_key and
order_id, and happens by rate and up to count times; of several the first one that draws the request takes it. A
request asks for a fault of its own with the header Sandbox-Fault.

Of items whose SKU begins with SOLD-OUT there are never any left.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			return runSandbox(cmd, c, o)
		},
	}
	addSettings(cmd, "listen", "ready-file", "log-level")
	listen := cmd.Flags().Lookup("listen")
	listen.DefValue = "127.0.0.1:8090"
	_ = listen.Value.Set(listen.DefValue) // any string will do
	o.flags(cmd)
	return cmd
}

// sandboxOptions are the sandbox's flags.
type sandboxOptions struct {
	data, faults string
	sync         bool
	abilities    map[string]*string
	retention    time.Duration
	declineOver  int64
}

func (o *sandboxOptions) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.data, "data", "", "directory of its store (required)")
	flags.StringVar(&o.faults, "faults", "", "JSON file with a list of faults, as POST /faults takes it")
	flags.BoolVar(&o.sync, "fsync", true, "let what was done survive the machine; without, it survives the process")
	flags.DurationVar(&o.retention, "retention", 24*time.Hour, "how long an idempotent service remembers a key")
	flags.Int64Var(&o.declineOver, "decline-over", 0, "amount in minor units above which a payment is declined; 0 for none")
	o.abilities = map[string]*string{}
	for _, name := range []string{"payment", "inventory", "notification"} {
		o.abilities[name] = flags.String(name, "idempotent,queryable", "what the "+name+" service can do: idempotent, queryable, both or none")
	}
	require(cmd, "data")
}

// config is what the flags say.
func (o *sandboxOptions) config(log *slog.Logger) (sandbox.Config, error) {
	c := sandbox.Config{Dir: o.data, NoSync: !o.sync, Services: map[string]sandbox.Settings{}, Log: log}
	var wrong []error
	for name, abilities := range o.abilities {
		settings := sandbox.Settings{Retention: sandbox.Duration(o.retention)}
		for ability := range strings.SplitSeq(*abilities, ",") {
			switch ability {
			case "idempotent":
				settings.Idempotent = true
			case "queryable":
				settings.Queryable = true
			case "none":
			default:
				wrong = append(wrong, fmt.Errorf("%s: %q is neither idempotent, queryable nor none", name, ability))
			}
		}
		if name == "payment" {
			settings.DeclineOver = o.declineOver
		}
		c.Services[name] = settings
	}
	if o.faults != "" {
		text, err := os.ReadFile(o.faults)
		if err == nil {
			strict := json.NewDecoder(bytes.NewReader(text))
			strict.DisallowUnknownFields()
			err = strict.Decode(&c.Faults)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("faults: %w", err))
		}
	}
	return c, errors.Join(wrong...)
}

func runSandbox(cmd *cobra.Command, c config, o sandboxOptions) error {
	ctx, log := cmd.Context(), newLogger(cmd, c)
	settings, err := o.config(log)
	if err != nil {
		return err
	}
	p, err := startPlay(ctx, c.Listen, settings)
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "ready", "sandbox_url", p.url)
	if err := writeReady(c.ReadyFile, ready{SandboxURL: p.url, PIDs: map[string]int{"sandbox": os.Getpid()}}); err != nil {
		return errors.Join(err, p.close(ctx))
	}
	select {
	case err := <-p.served:
		return errors.Join(fmt.Errorf("serve: %w", err), p.sandbox.Close())
	case <-ctx.Done():
		return p.close(ctx)
	}
}

// play is a sandbox that is served.
type play struct {
	url     string
	sandbox *sandbox.Sandbox
	server  *http.Server
	served  chan error
}

func startPlay(ctx context.Context, listen string, c sandbox.Config) (*play, error) {
	services, err := sandbox.Open(c)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), services.Close())
	}
	p := &play{
		url: "http://" + listener.Addr().String(), sandbox: services, served: make(chan error, 1),
		server: &http.Server{
			Handler: services, ReadHeaderTimeout: 5 * time.Second,
			ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
		},
	}
	go func() { p.served <- p.server.Serve(listener) }()
	return p, nil
}

// playStop is how long requests that are being answered have at the end.
const playStop = 5 * time.Second

func (p *play) close(ctx context.Context) error {
	p.sandbox.Release()
	stopping, cancel := postgres.Detach(ctx, playStop)
	defer cancel()
	err := p.server.Shutdown(stopping)
	if err != nil {
		err = errors.Join(err, p.server.Close())
	}
	return errors.Join(err, ignoreClosed(<-p.served), p.sandbox.Close())
}

// playServices plays dev's services, on a store below data; each database of one's own has its own.
func playServices(ctx context.Context, c config, data string, own bool, log *slog.Logger) (*play, error) {
	if data == "" {
		dir, err := localpg.DefaultDir()
		if err != nil {
			return nil, err
		}
		data = dir
	}
	name := "sandbox"
	if !own {
		hash := sha256.Sum256([]byte(c.DatabaseURL))
		name += "-" + hex.EncodeToString(hash[:8])
	}
	p, err := startPlay(ctx, "127.0.0.1:0", sandbox.Config{Dir: filepath.Join(data, name), Log: log})
	if err != nil {
		return nil, fmt.Errorf("play the services: %w", err)
	}
	return p, nil
}
