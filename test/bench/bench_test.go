package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orderonce/internal/load"
)

// A generator reads a job and then lengths, and writes what each phase has brought.
func TestTheGeneratorWorksInPhases(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	defer server.Close()
	target, err := load.ParseTarget(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	var in, out bytes.Buffer
	say := json.NewEncoder(&in)
	for _, value := range []any{load.Job{Target: target, Connections: 3, Work: load.Get, Path: "/livez"}, time.Duration(0), time.Millisecond} {
		if err := say.Encode(value); err != nil {
			t.Fatal(err)
		}
	}
	if err := generate(t.Context(), &in, &out); err != nil {
		t.Fatal(err)
	}
	said := json.NewDecoder(&out)
	var first, second phase
	if err := said.Decode(&first); err != nil || first.Answers != 3 {
		t.Errorf("the first phase: %+v, %v", first, err)
	}
	if err := said.Decode(&second); err != nil || second.Answers < 3 || second.Elapsed < time.Millisecond {
		t.Errorf("the second phase: %+v, %v", second, err)
	}
	if said.More() {
		t.Error("there were only two phases")
	}
}

func TestPgbenchIsRead(t *testing.T) {
	t.Parallel()
	const out = `transaction type: naive.pgbench
number of transactions actually processed: 21017
number of failed transactions: 0 (0.000%)
latency average = 18.249 ms
latency stddev = 7.031 ms
initial connection time = 152.340 ms
tps = 3504.215687 (without initial connection time)
`
	got, err := parsePgbench(out)
	if want := (pgbenchResult{done: 21017, perSecond: 3504.215687, meanMillis: 18.249}); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := parsePgbench(strings.Replace(out, "transactions: 0", "transactions: 3", 1)); err == nil {
		t.Error("failed transactions went unseen")
	}
	if _, err := parsePgbench("pgbench: error"); err == nil {
		t.Error("a missing figure went unseen")
	}
	const idle = "number of transactions actually processed: 0\nnumber of failed transactions: 0 (NaN%)\n"
	if got, err := parsePgbench(idle); err != nil || got != (pgbenchResult{}) {
		t.Errorf("of a busy machine: %+v, %v", got, err)
	}
}

func TestTextLiteralHasNoVariables(t *testing.T) {
	t.Parallel()
	if got, want := textLiteral(`{"a":1,"b":"it's \n"}`), `E'{"a"\x3a1,"b"\x3a"it\'s \\n"}'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]options{
		"":                                {table: true},
		"-storm":                          {storm: true},
		"-dispatch":                       {worker: true},
		"-growth 1000,2000":               {growth: []int{1000, 2000}},
		"-soak 10m":                       {soak: 10 * time.Minute},
		"-all":                            {table: true, storm: true, worker: true, growth: []int{100_000, 1_000_000, 5_000_000}},
		"-all -growth 1000":               {table: true, storm: true, worker: true, growth: []int{1000}},
		"-render a.json,b.json -svg c":    {table: true, render: []string{"a.json", "b.json"}, svg: "c"},
		"-serve --shared-commits=1":       {table: true, serve: []string{"--shared-commits=1"}},
		"-profile p -rounds 1 -seconds 3": {table: true, profile: "p", rounds: 1, measure: 3 * time.Second},
	} {
		var complaints strings.Builder
		got, err := parse(strings.Fields(args), &complaints)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		want.rounds, want.measure = or(want.rounds, 5), or(want.measure, 6*time.Second)
		want.svg = or(want.svg, "bench-out/bench.svg")
		want.warmup, want.out, want.only = 1500*time.Millisecond, "bench-out/bench.json", got.only
		if len(want.serve) == 0 {
			want.serve = []string{}
		}
		same := cmp.Comparer(func(a, b *regexp.Regexp) bool { return a == b })
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(options{}), same); diff != "" {
			t.Errorf("%s (-want +got)\n%s", args, diff)
		}
	}
	for _, args := range []string{
		"-rounds 0", "-seconds 2", "-warmup 2m", "-only (", "-soak 1s", "-growth many", "-growth 2000,1000", "-growth 10",
		"-render a.json -svg=", "now", "-unknown",
	} {
		var complaints strings.Builder
		if _, err := parse(strings.Fields(args), &complaints); err == nil || complaints.Len() == 0 {
			t.Errorf("%s was taken, or refused without a word: %v", args, err)
		}
	}
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

func TestDebugPagesAreRead(t *testing.T) {
	t.Parallel()
	const page = "heap profile: 1: 2\n# HeapAlloc = 4718592\n# HeapSys = 9\n"
	if got, err := numberAfter(page, "# HeapAlloc = "); err != nil || got != 4718592 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := numberAfter("VmPeak:\t 1 kB\nVmRSS:\t   50176 kB\n", "VmRSS:"); err != nil || got != 50176 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := numberAfter(page, "# Absent = "); err == nil {
		t.Error("a line that is not there went unseen")
	}
	if got := fileName("create c64 beside 1 M, round 2"); got != "create-c64-beside-1-M-round-2" {
		t.Errorf("a file's name is %s", got)
	}
}

func TestTrend(t *testing.T) {
	t.Parallel()
	heap := func(v vitals) float64 { return v.Heap }
	got := trendOf([]vitals{{At: 0, Heap: 5}, {At: 1800, Heap: 9}, {At: 3600, Heap: 7}}, heap)
	if want := (trend{first: 5, last: 7, min: 5, max: 9, slope: 2}); got != want {
		t.Errorf("%+v", got)
	}
	if got := trendOf([]vitals{{At: 3, Heap: 5}}, heap); got != (trend{5, 5, 5, 5, 0}) {
		t.Errorf("of one: %+v", got)
	}
	if got := trendOf(nil, heap); got != (trend{}) {
		t.Errorf("of none: %+v", got)
	}
}

// readReport reads the report that the pictures and tables of the tests are of.
func readReport(t *testing.T) report {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}
