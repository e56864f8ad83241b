package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orderonce/internal/load"
)

// benchKeyEnv brings the API key where others must not see it in the list of processes.
const benchKeyEnv = envPrefix + "BENCH_KEY"

// benchmark is what `orderonce bench` was asked for.
type benchmark struct {
	URL         string
	Key         string
	Connections []int
	Duration    time.Duration
	Warmup      time.Duration
	Replays     string
	Sample      int
	Out         string
	Confirmed   bool
}

func benchCommand() *cobra.Command {
	var b benchmark
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a deployment of yours over HTTP; it places real orders",
		Long: `Bench places orders on a deployment and repeats some of them, on several numbers of connections in turn, each
for --duration. It places REAL orders: they stay, and their events reach whoever listens. They are of customers
` + load.CustomerPrefix + `… and carry the metadata "source": "` + benchSource + `".
Bench asks before it begins; --yes-create-orders answers for a script.

It believes no answer. Every repetition must bring the first answer byte for byte, no two keys may have one order, and
in the end a sample is repeated once more and read with GET. A request that gets no answer, or is told to come later, is
sent again under its key. The exit status is 1 where anything is wrong.

The key needs the scope orders:create, and orders:read for the sample. Take one for it, of a tenant of its own:

  orderonce keys create --tenant bench --principal bench --scopes orders:create,orders:read --expires 1h`,
		Example: `  ` + benchKeyEnv + `=oo_live_… orderonce bench --url https://orders.example.org
  orderonce bench --url http://127.0.0.1:8080 --key oo_live_… --connections 1,16,64 --duration 30s --replays 20%`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&b.URL, "url", "", "base URL of the deployment")
	flags.StringVar(&b.Key, "key", "", "API key; "+benchKeyEnv+" keeps it out of the list of processes")
	flags.IntSliceVar(&b.Connections, "connections", []int{1, 16, 64}, "how many clients at once, one number after the other")
	flags.DurationVar(&b.Duration, "duration", 10*time.Second, "how long each number is measured")
	flags.DurationVar(&b.Warmup, "warmup", 2*time.Second, "how long it runs before it is measured")
	flags.StringVar(&b.Replays, "replays", "20%", "share of the requests that repeat an earlier one")
	flags.IntVar(&b.Sample, "sample", 100, "how many orders to repeat and to read in the end, for each number")
	flags.StringVar(&b.Out, "out", "orderonce-bench.json", "file for all figures, as JSON; empty for none")
	flags.BoolVar(&b.Confirmed, "yes-create-orders", false, "place real orders without asking")
	_ = cmd.MarkFlagRequired("url") // fails only for a flag that does not exist
	return cmd
}

// benchSource is metadata.source of the orders.
const benchSource = "orderonce-bench"

// benchResult is the JSON.
type benchResult struct {
	Began   time.Time  `json:"began"`
	URL     string     `json:"url"`
	Seconds float64    `json:"seconds"` // of each measured turn
	Replays float64    `json:"replay_share"`
	Turns   []benchRun `json:"turns"`
}

type benchRun struct {
	Connections int        `json:"connections"`
	PerSecond   float64    `json:"per_second"`
	Warm        load.Tally `json:"warmup"`
	Measured    load.Tally `json:"measured"`
	Audit       load.Audit `json:"audit"`
}

func (r benchRun) wrong() int64 { return r.Warm.Wrong + r.Measured.Wrong + r.Audit.Wrong }

func (b *benchmark) run(cmd *cobra.Command) error {
	job, err := b.job()
	if err != nil {
		return err
	}
	if err := b.confirm(cmd.InOrStdin(), cmd.ErrOrStderr()); err != nil {
		return err
	}
	if err := probe(cmd.Context(), job); err != nil {
		return err
	}
	result := benchResult{Began: time.Now(), URL: b.URL, Seconds: b.Duration.Seconds(), Replays: job.Share}
	for _, job.Connections = range b.Connections {
		turn, err := b.turn(cmd.Context(), job)
		if err != nil {
			return fmt.Errorf("%d connections: %w", job.Connections, err)
		}
		result.Turns = append(result.Turns, turn)
		fmt.Fprintf(cmd.ErrOrStderr(), "%d connections: %.0f a second\n", turn.Connections, turn.PerSecond)
	}
	printBench(cmd.OutOrStdout(), result)
	if b.Out != "" {
		text, err := json.MarshalIndent(result, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(b.Out, append(text, '\n'), 0o644); err != nil { //nolint:gosec // figures, for everyone
			return fmt.Errorf("out: %w", err)
		}
	}
	return result.err()
}

// err says that a promise was broken; the table has said which.
func (r benchResult) err() error {
	var wrong int64
	for _, turn := range r.Turns {
		wrong += turn.wrong()
	}
	if wrong > 0 {
		return fmt.Errorf("%d answers are not what they should be", wrong)
	}
	return nil
}

// job checks what was asked for; its error joins all that is wrong with it.
func (b *benchmark) job() (load.Job, error) {
	if b.Key == "" {
		b.Key = os.Getenv(benchKeyEnv)
	}
	target, err := load.ParseTarget(b.URL, b.Key)
	wrong := []error{err}
	refuse := func(is bool, why string) {
		if is {
			wrong = append(wrong, errors.New(why))
		}
	}
	share, err := parseShare(b.Replays)
	if err != nil {
		wrong = append(wrong, fmt.Errorf("replays: %w", err))
	}
	refuse(b.Key == "", "key: must be set, as a flag or as "+benchKeyEnv)
	refuse(len(b.Connections) == 0, "connections: must be at least one number")
	for _, n := range b.Connections {
		refuse(n < 1 || n > 10_000, "connections: each must be between 1 and 10000")
	}
	refuse(b.Duration <= 0, "duration: must be positive")
	refuse(b.Warmup < 0, "warmup: must not be negative")
	refuse(b.Sample < 0, "sample: must not be negative")
	return load.Job{Target: target, Work: load.Place, Share: share, Source: benchSource, Audit: true}, errors.Join(wrong...)
}

// confirm warns, and wants a person's word where no flag has given it.
func (b *benchmark) confirm(in io.Reader, out io.Writer) error {
	fmt.Fprintf(out, "This places real orders at %s, as many as it can take for %s, and they stay.\n", b.URL,
		time.Duration(len(b.Connections))*(b.Warmup+b.Duration))
	if b.Confirmed {
		return nil
	}
	errUnasked := errors.New("nothing was placed: say yes, or --yes-create-orders")
	if file, ok := in.(*os.File); ok {
		if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
			return errUnasked // nobody is there to ask, and the pipe may never end
		}
	}
	fmt.Fprint(out, "Place them? Type yes: ")
	line, _ := bufio.NewReader(in).ReadString('\n') // the end of input is no yes
	if strings.TrimSpace(line) != "yes" {
		return errUnasked
	}
	return nil
}

// probe places one order: where that is refused, so would be all the others.
func probe(ctx context.Context, j load.Job) error {
	j.Connections = 1
	crew, err := load.Gather(ctx, j)
	if err != nil {
		return err
	}
	defer crew.Leave()
	first, err := crew.Phase(ctx, 0)
	if err == nil && first.Wrong > 0 {
		err = fmt.Errorf("nothing was measured: %s", strings.Join(first.Examples, "; "))
	}
	return err
}

// turn measures one number of connections.
func (b *benchmark) turn(ctx context.Context, j load.Job) (benchRun, error) {
	crew, err := load.Gather(ctx, j)
	if err != nil {
		return benchRun{}, err
	}
	defer crew.Leave()
	turn := benchRun{Connections: j.Connections}
	if turn.Warm, err = crew.Phase(ctx, b.Warmup); err != nil {
		return benchRun{}, err
	}
	if turn.Measured, err = crew.Phase(ctx, b.Duration); err != nil {
		return benchRun{}, err
	}
	turn.PerSecond = turn.Measured.PerSecond()
	turn.Audit, err = crew.Audit(ctx, b.Sample)
	return turn, err
}
