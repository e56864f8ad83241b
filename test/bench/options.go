package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// options are what one run was asked for.
type options struct {
	// What to run. Rounds are the table of legs; each of the others is a run of its own. With none named it is rounds.
	table  bool
	growth []int // numbers of live records, ascending
	storm  bool
	worker bool
	soak   time.Duration

	rounds  int
	measure time.Duration // of one leg
	warmup  time.Duration // before each leg
	only    *regexp.Regexp
	binary  string   // of the server; built if empty
	serve   []string // further arguments of orderonce serve

	out     string   // the JSON
	svg     string   // the picture; empty for none
	render  []string // JSON files to draw instead of measuring
	profile string   // folder for profiles of the server; empty for none
}

// wholeGrowth are the sizes that the goals speak of.
const wholeGrowth = "100000,1000000,5000000"

func parse(args []string, complaints io.Writer) (options, error) {
	var opts options
	var seconds int
	var serve, only, growth, render string
	var all bool
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(complaints)
	flags.IntVar(&opts.rounds, "rounds", 5, "how often each contender has its turn, 1 to 100")
	flags.IntVar(&seconds, "seconds", 6, "how long one turn is measured, 3 to 600")
	flags.DurationVar(&opts.warmup, "warmup", 1500*time.Millisecond, "how long each turn runs before it is measured")
	flags.StringVar(&only, "only", "", "a pattern of the legs to measure, such as c64; ratios need both their legs")
	flags.StringVar(&growth, "growth", "", "instead of the table: creates beside so many live records, such as "+wholeGrowth)
	flags.BoolVar(&opts.storm, "storm", false, "instead of the table: another tenant's orders beside 256 duplicates of a held key")
	flags.BoolVar(&opts.worker, "dispatch", false, "instead of the table: creates with and without a worker, and what it dispatches")
	flags.DurationVar(&opts.soak, "soak", 0, "instead of the table: creates for so long, with the server's memory, such as 10m")
	flags.BoolVar(&all, "all", false, "the table, the storm, the dispatch and the growth to "+wholeGrowth+": every goal in one report")
	flags.StringVar(&opts.out, "out", "bench-out/bench.json", "where all figures go, as JSON")
	flags.StringVar(&opts.svg, "svg", "bench-out/bench.svg", "where the picture goes; empty for none")
	flags.StringVar(&render, "render", "", "draw these JSON files of earlier runs, separated by commas, and measure nothing")
	flags.StringVar(&opts.profile, "profile", "", "a folder for CPU and allocation profiles of the server, leg by leg; they cost a little")
	flags.StringVar(&opts.binary, "binary", "", "an orderonce binary to measure; by default one is built from this tree")
	flags.StringVar(&serve, "serve", "", "further arguments of orderonce serve, separated by spaces")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	opts.measure = time.Duration(seconds) * time.Second
	opts.serve = strings.Fields(serve)
	if render != "" {
		opts.render = strings.Split(render, ",")
	}
	if all {
		opts.table, opts.storm, opts.worker = true, true, true
		if growth == "" {
			growth = wholeGrowth
		}
	}
	var err error
	opts.only, err = regexp.Compile(only)
	sizes, sizesErr := parseSizes(growth)
	opts.growth = sizes
	opts.table = opts.table || len(sizes) == 0 && !opts.storm && !opts.worker && opts.soak == 0
	if err = errors.Join(err, sizesErr, opts.check(flags.NArg(), seconds)); err != nil {
		fmt.Fprintln(complaints, err)
		return options{}, err
	}
	return opts, nil
}

func (o *options) check(arguments, seconds int) error {
	var wrong []error
	refuse := func(is bool, why string) {
		if is {
			wrong = append(wrong, errors.New(why))
		}
	}
	refuse(arguments > 0, "there are no arguments beside the flags")
	refuse(o.rounds < 1 || o.rounds > 100, "-rounds is 1 to 100")
	// pgbench tells its progress once a second, and two such lines are needed to know what one second cost.
	refuse(seconds < 3 || seconds > 600, "-seconds is 3 to 600")
	refuse(o.warmup < 0 || o.warmup > time.Minute, "-warmup is at most a minute")
	refuse(o.soak < 0 || o.soak > 0 && o.soak < 10*time.Second, "-soak is at least 10s")
	refuse(len(o.render) > 0 && o.svg == "", "-render needs an -svg")
	return errors.Join(wrong...)
}

func parseSizes(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var sizes []int
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1000 || n > 100_000_000 || len(sizes) > 0 && n <= sizes[len(sizes)-1] {
			return nil, fmt.Errorf("-growth is ascending numbers from 1000 on, separated by commas, not %q", text)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}
