package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"orderonce/internal/httpapi"
	"orderonce/internal/idempotency"
	"orderonce/internal/identity"
	"orderonce/internal/identity/oidc"
	"orderonce/internal/postgres"
)

// app is a server with all that it stands on, ready to listen.
type app struct {
	config  config
	log     *slog.Logger
	db      *postgres.DB // of requests
	workers *postgres.DB // of what belongs to no single tenant; a pool of its own, so that neither starves the other
	issuer  *oidc.Issuer // nil where none is trusted
	keyring *identity.Keyring
	server  *httpapi.Server
}

func newLogger(cmd *cobra.Command, c config) *slog.Logger {
	return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: c.LogLevel}))
}

func openDB(ctx context.Context, c config, role postgres.Role) (*postgres.DB, error) {
	connections := c.MaxConnections
	if role == postgres.Worker {
		connections = c.WorkerConnections
	}
	return postgres.Open(ctx, postgres.Config{
		URL: c.DatabaseURL, Role: role, MaxConns: connections, TenantShare: max(connections*3/4, 1),
		SharedCommits: c.SharedCommits, Acquire: c.Acquire, Statement: c.Statement,
		IdleInTransaction: c.IdleInTransaction, Deadline: c.Unit,
	})
}

func newApp(ctx context.Context, c config, log *slog.Logger) (*app, error) {
	a := &app{config: c, log: log}
	var err error
	if a.workers, err = openWorkers(ctx, c); err != nil {
		return nil, err
	}
	if a.db, err = openDB(ctx, c, postgres.Request); err != nil {
		a.close()
		return nil, err
	}
	a.keyring = identity.NewKeyring(a.workers)
	if c.OIDC.Issuer != "" {
		a.issuer = oidc.New(c.OIDC, log)
		a.keyring.Trust(a.issuer)
	}
	a.server, err = httpapi.New(
		ctx, httpapi.Config{
			MaxBody: c.MaxBody, BodyRead: c.Body, Request: c.Request, InFlight: c.MaxInFlight,
			TenantRate: c.TenantRate, TenantBurst: c.TenantBurst, Origins: c.Origins,
		}, httpapi.Modules{
			Tenants:   httpapi.Side{DB: a.db, Keys: idempotency.New(a.db, c.Unit, c.ReplayCache)},
			Operators: httpapi.Side{DB: a.workers, Keys: idempotency.New(a.workers, c.Unit, 0)},
			Keyring:   a.keyring,
		}, log,
	)
	if err == nil {
		err = errors.Join(nested([]bound{
			{"the longest x-idempotency wait in openapi.yaml", a.server.LongestWait()}, {"statement-timeout", c.Statement},
		})...)
	}
	if err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// openWorkers opens the database for work that belongs to no single tenant, once it is known that this binary can work
// on it.
func openWorkers(ctx context.Context, c config) (*postgres.DB, error) {
	if c.DatabaseURL == "" {
		return nil, errors.New("database-url: must be set, as a flag or as ORDERONCE_DATABASE_URL")
	}
	if err := checkSchema(ctx, c); err != nil {
		return nil, err
	}
	return openDB(ctx, c, postgres.Worker)
}

func (a *app) close() {
	for _, db := range []*postgres.DB{a.db, a.workers} {
		if db != nil {
			db.Close()
		}
	}
}

// checkSchema refuses a database that this binary cannot work on: it would answer, and fail every request. A newer
// schema is no reason: migrations are backwards compatible, so that a deploy can begin with them.
func checkSchema(ctx context.Context, c config) error {
	state, err := postgres.MigrationStatus(ctx, c.DatabaseURL)
	if err != nil || !state.Dirty && state.Version > state.Newest {
		return err
	}
	return state.Err()
}

// ready is what --ready-file holds.
type ready struct {
	BaseURL     string            `json:"base_url,omitempty"`
	SandboxURL  string            `json:"sandbox_url,omitempty"`  // of the sandbox, and of dev's
	DatabaseURL string            `json:"database_url,omitempty"` // in dev; the owner's, who sees every tenant
	DebugURL    string            `json:"debug_url,omitempty"`    // of net/http/pprof, where it was asked for
	PIDs        map[string]int    `json:"pids"`
	Keys        map[string]string `json:"keys,omitempty"` // in dev; an API key of each demo tenant, and ops: of an operator
}

// run answers requests until ctx ends or failed does, and then stops in order: readiness turns false, new traffic
// gets time to go elsewhere, the requests under way end, the pool closes.
func (a *app) run(ctx context.Context, handler http.Handler, failed <-chan struct{}, started func(r ready) error) (err error) {
	defer a.close()
	growHeap()
	debugging, err := listenDebug(ctx, a.config.DebugListen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, debugging.close()) }()
	purging, stopPurging := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { idempotency.NewPurger(a.workers, a.log).Run(purging) })
	// Requests that come while the server drains need the issuer's keys too, and are uses of their own.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	if a.issuer != nil {
		background.Go(func() { a.issuer.Run(serving) })
	}
	background.Go(func() { a.keyring.RecordUses(serving, a.log) })
	defer background.Wait()
	defer stopPurging()
	defer stopServing()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.config.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      a.config.Request + 5*time.Second, // room to write the answer of a request that used its time
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if err := started(ready{BaseURL: "http://" + listener.Addr().String(), DebugURL: debugging.address()}); err != nil {
		return errors.Join(err, server.Close(), <-served)
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-failed:
		return errors.Join(server.Close(), ignoreClosed(<-served))
	case <-ctx.Done():
	}
	a.log.InfoContext(ctx, "stopping", "drain_delay", a.config.DrainDelay.String())
	a.server.Drain()
	drained := time.NewTimer(a.config.DrainDelay)
	defer drained.Stop()
	<-drained.C
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.config.StopTimeout)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		return errors.Join(fmt.Errorf("requests still under way after %s: %w", a.config.StopTimeout, err), server.Close())
	}
	return ignoreClosed(<-served)
}

// gcPercent lets the heap, a few MiB of requests under way, grow to some tens of MiB between collections: at Go's own
// pace they took 10 to 20 % of a busy server's CPU.
const gcPercent = 400

func growHeap() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// writeReady writes the file whole or not at all, for the reader waits for its appearance. Keys are in it: only the
// owner may read it.
func writeReady(path string, r ready) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".ready-*")
	if err != nil {
		return fmt.Errorf("ready-file: %w", err)
	}
	_, err = temp.Write(append(text, '\n'))
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("ready-file: %w", errors.Join(err, os.Remove(temp.Name())))
	}
	return nil
}
