// Command bench measures the server against pgbench writing the same rows by hand, and says how the two compare.
//
//	go run ./test/bench -rounds 5 -seconds 6
//
// Only its ratios mean something elsewhere or tomorrow: within each round the contenders take turns on one machine and
// one PostgreSQL, so that whatever disturbs the machine disturbs all of them, and each ratio is taken inside a round.
//
// It owns everything that it uses and ends it all again: a PostgreSQL with durable settings in a temporary directory,
// the servers as processes of their own, and the load generators. It believes no answer: what was answered is counted
// against the rows that are there, and a difference fails the run, because a fast server that loses orders is no fast
// server. Processor times come from /proc; elsewhere than on Linux they stay empty.
//
// A machine that does anything else at the time measures that other thing; the report says how much of it there was.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// loadFlag makes this program a load generator: see generate.
const loadFlag = "-load"

// The kernel ends a child when the thread that started it ends. All children are started by the main goroutine,
// which from here on is the main thread, and that one lives as long as the process.
func init() { runtime.LockOSThread() }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == loadFlag {
		// One thread for all connections: more would only look for work on the processors that the server needs.
		runtime.GOMAXPROCS(1)
		if err := generate(ctx, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "load generator:", err)
			os.Exit(1)
		}
		return
	}
	opts, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2) // parse has said why
	}
	if len(opts.render) > 0 {
		err = render(opts.render, opts.svg)
	} else {
		err = run(ctx, opts)
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted") // everything else that failed, failed for that
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// stage is what all runs stand on.
type stage struct {
	options options
	cluster *cluster
	binary  string
	report  *report

	turnName string // what is being measured, for the names of profiles
}

// run measures what was asked for and reports it. Whatever it started has ended when it returns.
func run(ctx context.Context, opts options) (err error) {
	cluster, err := startCluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.remove(ctx)) }()
	s := &stage{options: opts, cluster: cluster, binary: opts.binary}
	if s.binary == "" {
		if s.binary, err = buildServer(ctx, cluster.dir); err != nil {
			return err
		}
	}
	s.report = &report{Began: time.Now(), Rounds: opts.rounds, Seconds: opts.measure.Seconds(), Serve: opts.serve}
	if s.report.Machine, err = inspectMachine(ctx, cluster); err != nil {
		return err
	}
	if opts.table {
		err = s.table(ctx)
	}
	if err == nil && opts.storm {
		err = s.storm(ctx)
	}
	if err == nil && len(opts.growth) > 0 {
		err = s.growth(ctx)
	}
	if err == nil && opts.worker {
		err = s.dispatch(ctx)
	}
	if err == nil && opts.soak > 0 {
		err = s.soak(ctx)
	}
	if err != nil {
		return err
	}
	s.report.compare()
	fmt.Println(s.report.text())
	if err := s.report.write(opts.out); err != nil {
		return err
	}
	if opts.svg == "" || len(s.report.Ratios) == 0 {
		return nil
	}
	return writeFile(opts.svg, picture(*s.report))
}

// tell lets whoever watches know how far the run is.
func tell(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
