// Command bench measures the server against pgbench writing the same rows by hand, and says how the two compare.
//
//	go run ./test/bench -rounds 5 -seconds 6
//
// Only its ratios mean something elsewhere or tomorrow: within each round the contenders take turns on one machine and
// one PostgreSQL, so that whatever disturbs the machine disturbs all of them, and each ratio is taken inside a round.
//
// It owns everything that it uses and ends it all again: a PostgreSQL with durable settings in a temporary directory,
// the server as a process of its own, and the load generators. It believes no answer: what was answered is counted
// against the rows that are there, and a difference fails the run, because a fast server that loses orders is no fast
// server. Processor times come from /proc; elsewhere than on Linux they stay empty.
//
// A machine that does anything else at the time measures that other thing; the report says how much of it there was.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

type options struct {
	rounds  int
	measure time.Duration // of one leg
	warmup  time.Duration // before each leg
	out     string
	only    *regexp.Regexp // the legs to measure
	binary  string         // of the server; built if empty
	serve   []string       // further arguments of orderonce serve
}

// loadFlag makes this program a load generator: see generate.
const loadFlag = "-load"

// The kernel ends a child when the thread that started it ends. All children are started by the main goroutine,
// which from here on is the main thread, and that one lives as long as the process.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) == 2 && os.Args[1] == loadFlag {
		// One thread for all connections: more would only look for work on the processors that the server needs.
		runtime.GOMAXPROCS(1)
		if err := generate(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "load generator:", err)
			os.Exit(1)
		}
		return
	}
	opts, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2) // flag has said why
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, opts)
	interrupted := ctx.Err() != nil
	stop()
	if interrupted {
		err = errors.New("interrupted") // everything else that failed, failed for that
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var opts options
	var seconds int
	var serve, only string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&opts.rounds, "rounds", 5, "how often each contender has its turn, 1 to 100")
	flags.IntVar(&seconds, "seconds", 6, "how long one turn is measured, 3 to 600")
	flags.DurationVar(&opts.warmup, "warmup", 1500*time.Millisecond, "how long each turn runs before it is measured")
	flags.StringVar(&opts.out, "out", "bench-out/bench.json", "where all figures go, as JSON")
	flags.StringVar(&only, "only", "", "a pattern of the legs to measure, such as c64; without naive c64 there are no ratios")
	flags.StringVar(&opts.binary, "binary", "", "an orderonce binary to measure; by default one is built from this tree")
	flags.StringVar(&serve, "serve", "", "further arguments of orderonce serve, separated by spaces")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	var err error
	if opts.only, err = regexp.Compile(only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return options{}, err
	}
	opts.measure = time.Duration(seconds) * time.Second
	opts.serve = strings.Fields(serve)
	// pgbench tells its progress once a second, and two such lines are needed to know what one second cost.
	if opts.rounds < 1 || opts.rounds > 100 || seconds < 3 || seconds > 600 || opts.warmup < 0 || opts.warmup > time.Minute {
		err := errors.New("rounds, seconds or warmup is out of range")
		fmt.Fprintln(os.Stderr, err)
		flags.Usage()
		return options{}, err
	}
	return opts, nil
}

// run measures all rounds and reports them. Whatever it started has ended when it returns.
func run(ctx context.Context, opts options) (err error) {
	cluster, err := startCluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.remove(ctx)) }()
	server, err := startServer(ctx, cluster, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop(ctx)) }()
	sample, err := server.sample(ctx)
	if err != nil {
		return err
	}
	naive, err := prepareNaive(ctx, cluster, sample, opts)
	if err != nil {
		return err
	}
	defer naive.close(ctx)

	result := report{Began: time.Now(), Rounds: opts.rounds, Seconds: opts.measure.Seconds(), Serve: opts.serve}
	if result.Machine, err = inspectMachine(ctx, cluster); err != nil {
		return err
	}
	legs := []leg{
		{naive16, naive.with(16)},
		{naive64, naive.with(64)},
		{create1, server.create(1)},
		{create16, server.create(16)},
		{create64, server.create(64)},
		{create256, server.create(256)},
		{replay64, server.replay(64)},
		{purging64, server.purging(64)},
	}
	for round := 1; round <= opts.rounds; round++ {
		// Each round begins with empty tables: the last one must not be slower than the first for its size.
		if err := errors.Join(naive.empty(ctx), server.empty(ctx)); err != nil {
			return fmt.Errorf("empty the tables: %w", err)
		}
		for _, leg := range legs {
			if !opts.only.MatchString(leg.name) {
				continue
			}
			m, err := leg.measure(ctx)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round, leg.name, err)
			}
			m.Round, m.Leg = round, leg.name
			result.Measurements = append(result.Measurements, m)
			fmt.Fprintf(os.Stderr, "round %d of %d  %-11s %8.0f a second\n", round, opts.rounds, leg.name, m.PerSecond)
		}
	}
	result.compare()
	fmt.Println(result.table())
	return result.write(opts.out)
}

// The legs of a round.
const (
	naive16   = "naive c16"
	naive64   = "naive c64"
	create1   = "create c1"
	create16  = "create c16"
	create64  = "create c64"
	create256 = "create c256"
	replay64  = "replay c64"
	purging64 = "purging c64"
)

type leg struct {
	name    string
	measure func(context.Context) (measurement, error)
}
