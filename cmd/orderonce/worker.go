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
	"orderonce/internal/tasks"
	"orderonce/internal/telemetry"
)

func workerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Do the background's work: effects and tasks, on a database of yours",
		Long: `Worker dispatches the events of orders, sends what they ask of each destination (payment-url, inventory-url,
notification-url …), lets the orders follow what became of it, works on the tasks that were accepted (imports of
orders), and removes events, effects and results that have outlived their retention. Any number of workers may run
beside any number of servers.

It listens to nobody. With SIGINT or SIGTERM it takes nothing more and gives calls under way --stop-timeout to end;
what was possibly sent is looked into by the next worker. A task is let go of after the step under way, and the next
worker goes on with it at once.`,
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
	growHeap()
	log.InfoContext(ctx, "ready", "destinations", len(w.destinations.all))
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
	destinations *destinations
	dispatcher   *outbox.Dispatcher
	worker       *effects.Worker
	reconciler   *effects.Reconciler
	tasks        *tasks.Worker
	results      *tasks.Purger
	pruning      []*postgres.Sweep
	log          *slog.Logger
}

func newBackground(ctx context.Context, c config, log *slog.Logger, tells *telemetry.Telemetry) (*background, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name of this machine: %w", err)
	}
	owner := fmt.Sprintf("%s/%d", host, os.Getpid())
	db, err := openWorkers(ctx, c, tells)
	if err != nil {
		return nil, err
	}
	open, err := c.Effects.open(db, log)
	if err != nil {
		db.Close()
		return nil, err
	}
	b := &background{db: db, destinations: open, log: log}
	b.worker, err = effects.NewWorker(db, open.all, effects.Options{
		Owner: owner, Lease: c.Effects.Lease, Finish: finishBound, Stop: c.StopTimeout,
		MaxAttempts: c.Effects.Attempts, Ended: orders.Follow, Log: log,
	})
	if err != nil {
		b.close()
		return nil, err
	}
	b.worker.Watch(db)
	planner := effects.NewPlanner(orders.Follow, open.all...)
	b.dispatcher = outbox.NewDispatcher(db, planner.FanOut, log)
	kinds, err := taskKinds(ctx, c, planner)
	if err != nil {
		b.close()
		return nil, err
	}
	b.tasks = tasks.NewWorker(db, kinds, tasks.Options{Name: owner, Concurrency: c.TaskConcurrency, Log: log})
	b.results = tasks.NewPurger(db, kinds, log)
	b.reconciler = effects.NewReconciler(db, open.all, effects.Windows{}, log)
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
	all.Go(func() { b.tasks.Run(ctx) })
	all.Go(func() { b.results.Run(ctx) })
	all.Go(func() {
		measure(ctx, b.log, b.db.Telemetry(), func(ctx context.Context) error {
			return errors.Join(outbox.Measure(ctx, b.db), effects.Measure(ctx, b.db, b.destinations.all), tasks.Measure(ctx, b.db))
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

func (b *background) close() {
	b.destinations.end()
	b.db.Close()
}
