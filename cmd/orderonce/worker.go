package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"orderonce/internal/effects"
	"orderonce/internal/orders"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
	"orderonce/internal/telemetry"
)

func workerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Send what orders ask of others, on a database of yours",
		Long: `Worker dispatches the events of orders, sends what they ask of each destination (payment-url, inventory-url,
notification-url …), lets the orders follow what became of it, and removes events and effects that have outlived
their retention. Any number of workers may run beside any number of servers.

It listens to nobody. With SIGINT or SIGTERM it takes nothing more and gives calls under way --stop-timeout to end;
what was possibly sent is looked into by the next worker.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			return runWorker(cmd, c)
		},
	}
	addSettings(cmd)
	return cmd
}

func runWorker(cmd *cobra.Command, c config) error {
	ctx, log := cmd.Context(), newLogger(cmd, c)
	debugging, err := listenAside(ctx, "debug-listen", c.DebugListen, profiles())
	if err != nil {
		return err
	}
	defer debugging.close() //nolint:errcheck // whoever was profiling knows
	tells, err := startTelemetry(ctx, c, log)
	if err != nil {
		return err
	}
	defer closeTelemetry(ctx, tells, log)
	scraped, err := listenAside(ctx, "metrics-listen", c.MetricsListen, scrapes(tells))
	if err != nil {
		return err
	}
	defer scraped.close() //nolint:errcheck // whoever was scraping knows
	w, err := newBackground(ctx, c, log, tells)
	if err != nil {
		return err
	}
	defer w.close()
	log.InfoContext(ctx, "ready", "destinations", len(w.destinations))
	if err := writeReady(c.ReadyFile, ready{
		MetricsURL: scraped.path(metricsPath), DebugURL: debugging.path(""), PIDs: map[string]int{"worker": os.Getpid()},
	}); err != nil {
		return err
	}
	w.run(ctx)
	log.InfoContext(ctx, "stopped")
	return nil
}

// background is what is done about events, on a pool of its own.
type background struct {
	db           *postgres.DB
	destinations []effects.Destination
	dispatcher   *outbox.Dispatcher
	worker       *effects.Worker
	reconciler   *effects.Reconciler
	pruning      []*postgres.Sweep
	log          *slog.Logger
}

func newBackground(ctx context.Context, c config, log *slog.Logger, tells *telemetry.Telemetry) (*background, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name of this machine: %w", err)
	}
	destinations, err := c.Effects.destinations()
	if err != nil {
		return nil, err
	}
	db, err := openWorkers(ctx, c, tells)
	if err != nil {
		return nil, err
	}
	b := &background{db: db, destinations: destinations, log: log}
	b.worker, err = effects.NewWorker(db, destinations, effects.Options{
		Owner: fmt.Sprintf("%s/%d", host, os.Getpid()), Lease: c.Effects.Lease, Finish: finishBound, Stop: c.StopTimeout,
		MaxAttempts: c.Effects.Attempts, Ended: orders.Follow, Log: log,
	})
	if err != nil {
		db.Close()
		return nil, err
	}
	b.worker.Watch(db)
	b.dispatcher = outbox.NewDispatcher(db, effects.NewPlanner(orders.Follow, destinations...).FanOut, log)
	b.reconciler = effects.NewReconciler(db, destinations, effects.Windows{}, log)
	b.pruning = []*postgres.Sweep{
		outbox.Pruning(db, c.Effects.EventRetention, log), effects.Pruning(db, c.Effects.EffectRetention, log),
	}
	return b, nil
}

// run works until ctx ends, and returns when what was begun has ended or was given up.
func (b *background) run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { b.dispatcher.Run(ctx) })
	all.Go(func() { b.worker.Run(ctx) })
	all.Go(func() { b.reconciler.Run(ctx) })
	all.Go(func() {
		measure(ctx, b.log, b.db.Telemetry(), func(ctx context.Context) error {
			return errors.Join(outbox.Measure(ctx, b.db), effects.Measure(ctx, b.db, b.destinations))
		})
	})
	for _, sweep := range b.pruning {
		all.Go(func() { sweep.Run(ctx) })
	}
	all.Wait()
}

// start runs it until stop is called.
func (b *background) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (b *background) close() { b.db.Close() }
