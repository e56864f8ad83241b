package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"orderonce/internal/identity"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/localpg"
	"orderonce/internal/telemetry/tracepage"
)

func devCommand() *cobra.Command {
	var data, drop string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process, on an own PostgreSQL",
		Long: `Dev starts a PostgreSQL of its own (or takes --database-url), migrates it, makes two demo tenants (acme and
globex) with a fresh API key each and two coupons (WELCOME10 is valid, EXPIRED10 is not), an operators' tenant with a
key for /ops, and prints a curl to paste. The services that orders need (payment, inventory, notification) are played
in the same process (see orderonce sandbox), unless their URL is set, and so is the worker's part. /demo is a small shop
that shows what the TypeScript client does about lost answers, reloads and second clicks, to this machine's browsers
alone.

Its data stay in --data over restarts and kill -9. With --drop-responses 30% that share of the answers to changing
requests is cut after the commit, as a bad network would: the retry gets the first answer.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			share, err := parseShare(drop)
			if err != nil {
				return fmt.Errorf("drop-responses: %w", err)
			}
			return dev(cmd, c, data, share)
		},
	}
	addSettings(cmd)
	for name, value := range map[string]string{
		"drain-delay": "0s", "log-level": "warn", "webhook-allow-private": "true", "metrics-listen": "127.0.0.1:0", "trace-sampling": "1",
	} {
		flag := cmd.Flags().Lookup(name)
		flag.DefValue = value
		_ = flag.Value.Set(value) // any string will do
	}
	cmd.Flags().StringVar(&data, "data", "", "directory of the own PostgreSQL and of the played services (default: below the user's cache directory)")
	cmd.Flags().StringVar(&drop, "drop-responses", "0%", "share of the changing requests whose answer is cut")
	return cmd
}

func dev(cmd *cobra.Command, c config, data string, drop float64) (err error) {
	ctx := cmd.Context()
	log := newLogger(cmd, c)
	pids := map[string]int{"server": os.Getpid()}
	var failed <-chan struct{}
	if c.DatabaseURL == "" {
		own, err := startPostgres(ctx, data, log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, own.Err(), stopPostgres(ctx, own)) }()
		c.DatabaseURL, failed, pids["postgres"] = own.URL(localpg.Database), own.Done(), own.PID()
	}
	if err := postgres.MigrateUp(ctx, c.DatabaseURL); err != nil {
		return err
	}
	traces := tracepage.NewStore()
	c.Telemetry.Spans = traces.Add
	tells, err := startTelemetry(ctx, c, log)
	if err != nil {
		return err
	}
	defer closeTelemetry(ctx, tells, log)
	play, err := playServices(ctx, c, data, failed != nil, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, play.close(ctx)) }()
	a, err := newApp(ctx, c, log, tells)
	if err != nil {
		return err
	}
	keys, err := seed(ctx, a.workers)
	if err != nil {
		a.close()
		return fmt.Errorf("make the demo tenants: %w", err)
	}
	c.Effects = c.Effects.played(play.url)
	beside, err := newBackground(ctx, c, log, tells)
	if err != nil {
		a.close()
		return err
	}
	defer beside.close()
	beside.dispatcher.Watch(a.db)
	defer beside.start(ctx)()
	handler := withTraces(withDemo(dropResponses(a.server, drop), keys["acme"]), traces)
	return a.run(ctx, handler, failed, func(r ready) error {
		r.SandboxURL, r.DatabaseURL, r.PIDs, r.Keys = play.url, c.DatabaseURL, pids, keys
		printWelcome(cmd.OutOrStdout(), r, drop)
		return writeReady(c.ReadyFile, r)
	})
}

func startPostgres(ctx context.Context, data string, log *slog.Logger) (*localpg.Server, error) {
	own, err := localpg.Start(ctx, localpg.Options{Dir: data, Restart: true, Log: log})
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return own, nil
}

func stopPostgres(ctx context.Context, own *localpg.Server) error {
	stopping, cancel := postgres.Detach(ctx, 10*time.Second)
	defer cancel()
	return own.Stop(stopping)
}

// keyLifetime is how long a printed demo key works; each start prints new ones for the same principals.
const keyLifetime = 7 * 24 * time.Hour

// demo is a tenant of dev with its one principal.
type demo struct {
	tenant, principal string
	operator          bool
	scopes            []string
}

// seed makes the demo tenants; what is there already stays. The keys are by tenant, the operators' is ops.
func seed(ctx context.Context, db *postgres.DB) (keys map[string]string, err error) {
	keys = map[string]string{}
	operations := demo{"operations", "ops", true, []string{identity.OpsRead, identity.OpsWrite}}
	if keys["ops"], _, err = mintKey(ctx, db, operations); err != nil {
		return nil, err
	}
	for _, name := range []string{"acme", "globex"} {
		key, tenant, err := mintKey(ctx, db, demo{name, "shop", false, identity.TenantScopes()})
		if err != nil {
			return nil, err
		}
		keys[name] = key
		begin := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
		coupons := []orders.Coupon{
			{TenantID: tenant, Code: "WELCOME10", Percent: 10, ValidFrom: begin, ValidUntil: begin.AddDate(100, 0, 0)},
			{TenantID: tenant, Code: "EXPIRED10", Percent: 10, ValidFrom: begin, ValidUntil: begin.AddDate(1, 0, 0)},
		}
		err = db.InTx(ctx, postgres.Unit{LockTimeout: adminLockTimeout}, func(ctx context.Context, tx *postgres.Tx) error {
			for _, c := range coupons {
				if err := orders.PutCoupon(ctx, tx, c); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// mintKey gives the demo's principal one more key, and makes, or opens again, what that needs.
func mintKey(ctx context.Context, db *postgres.DB, d demo) (key string, tenant uuid.UUID, err error) {
	by := identity.Change{Actor: actor(), Reason: "orderonce dev"}
	expires := time.Now().Add(keyLifetime)
	plan := identity.KeyPlan{Name: "dev-" + uuid.Must(uuid.NewV7()).String(), Scopes: d.scopes, Expires: &expires}
	err = db.InTx(ctx, postgres.Unit{LockTimeout: adminLockTimeout}, func(ctx context.Context, tx *postgres.Tx) error {
		t, _, err := identity.CreateTenant(ctx, tx, by, d.tenant, d.operator)
		if err != nil {
			return err
		}
		tenant = t.ID
		if _, err := identity.SetTenantActive(ctx, tx, by, tenant, true); err != nil {
			return err
		}
		p, _, err := identity.CreatePrincipal(ctx, tx, by, tenant, d.principal)
		if err != nil {
			return err
		}
		if _, err := identity.SetPrincipalActive(ctx, tx, by, tenant, p.ID, true); err != nil {
			return err
		}
		_, key, err = identity.CreateKey(ctx, tx, by, tenant, p.ID, plan)
		return err
	})
	return key, tenant, err
}

// dropResponses cuts the answers to a share of the changing requests.
func dropResponses(next http.Handler, share float64) http.Handler {
	if share == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead || !drawn(share) {
			next.ServeHTTP(w, r)
			return
		}
		cutAnswer(next, w, r)
	})
}

// cutAnswer lets a request be done and cuts its connection before the first byte of the answer. A browser that has used
// the connection before sends such a request once more by itself, and is cut again.
func cutAnswer(next http.Handler, w http.ResponseWriter, r *http.Request) {
	next.ServeHTTP(unheard{w}, r)
	panic(http.ErrAbortHandler)
}
