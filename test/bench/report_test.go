package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"orderonce/internal/load"
)

var update = flag.Bool("update", false, "write the golden files")

func TestSpread(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values           []float64
		min, median, max float64
	}{
		{[]float64{3, 1, 2}, 1, 2, 3},
		{[]float64{4, 1, 2, 3}, 1, 2.5, 4},
		{[]float64{7}, 7, 7, 7},
		{nil, 0, 0, 0},
	} {
		if s := spreadOf(c.values); s.Min != c.min || s.Median != c.median || s.Max != c.max {
			t.Errorf("%v: %+v", c.values, s)
		}
	}
}

// A ratio is taken inside a round; a round without one of the two has none.
func TestRatiosAreTakenWithinARound(t *testing.T) {
	t.Parallel()
	r := report{Rounds: 3, Measurements: []measurement{
		{Round: 1, Leg: naive64, PerSecond: 100},
		{Round: 1, Leg: create64, PerSecond: 200},
		{Round: 2, Leg: create64, PerSecond: 900},
		{Round: 3, Leg: naive64, PerSecond: 50},
		{Round: 3, Leg: create64, PerSecond: 200},
	}}
	r.compare()
	if len(r.Ratios) != 1 || r.Ratios[0].Name != "create c64" || r.Ratios[0].Min != 2 || r.Ratios[0].Max != 4 || r.Ratios[0].verdict() != "enough" {
		t.Errorf("got %+v", r.Ratios)
	}
}

func TestEveryLegOfARatioIsMeasured(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, name := range slices.Concat(legNames, dispatchLegs) {
		known[name] = true
	}
	for _, c := range compared {
		if !known[c.leg] || !known[c.base] {
			t.Errorf("%s is a ratio of %q and %q", c.name, c.leg, c.base)
		}
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for want, fs := range map[string][]figure{
		"":       {{spread: spread{Median: 1}}},
		"goal":   {{Goal: 2, spread: spread{Median: 2}}, {Goal: 2, Less: true, spread: spread{Median: 1}}},
		"enough": {{Goal: 2, Least: 1, spread: spread{Median: 1}}, {Goal: 1, Least: 2, Less: true, spread: spread{Median: 2}}},
		"missed": {{Goal: 2, Least: 1, spread: spread{Median: 0.9}}, {Goal: 1, Less: true, spread: spread{Median: 1.1}}},
	} {
		for _, f := range fs {
			if got := f.verdict(); got != want {
				t.Errorf("%+v is %q, want %q", f, got, want)
			}
		}
	}
}

// Equal reports have equal pictures, and what is drawn is well-formed and keeps its text as text.
func TestPictureIsGolden(t *testing.T) {
	t.Parallel()
	r := readReport(t)
	got := picture(r)
	golden := filepath.Join("testdata", "report.svg")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the picture is another: go test ./test/bench -run TestPictureIsGolden -update, and look at it")
	}
	var texts []string
	for decoder := xml.NewDecoder(strings.NewReader(got)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		if text, ok := token.(xml.CharData); ok {
			texts = append(texts, string(text))
		}
	}
	for _, f := range r.Ratios {
		if !strings.Contains(strings.Join(texts, "\n"), f.Name) {
			t.Errorf("%s is not in the picture", f.Name)
		}
	}
}

func TestRenderMergesReports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, r report) string {
		path := filepath.Join(dir, name)
		if err := r.write(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := write("one.json", report{Ratios: []figure{{Name: "create c64", Base: naive64, spread: spreadOf([]float64{1.5})}}})
	two := write("two.json", report{Ratios: []figure{
		{Name: "create c64", Base: naive64, spread: spreadOf([]float64{9.25})}, {Name: "grown", Base: "small", spread: spreadOf([]float64{0.75})},
	}})
	out := filepath.Join(dir, "new", "picture.svg")
	if err := render([]string{one, two}, out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.Contains(s, "1.50") || !strings.Contains(s, "0.75") || strings.Contains(s, "9.25") {
		t.Errorf("the first report's figure counts, and what it lacks is the second's:\n%s", s)
	}
	if err := render([]string{write("empty.json", report{})}, out); err == nil {
		t.Error("a report without ratios was drawn")
	}
}

func TestAxesHaveRoundNumbers(t *testing.T) {
	t.Parallel()
	for longest, want := range map[float64]float64{20: 5, 24.8: 5, 1: 0.2, 1.9: 0.2, 4: 1, 0.3: 0.05, 9: 2} {
		if got := niceStep(longest); got != want {
			t.Errorf("up to %v in steps of %v, want %v", longest, got, want)
		}
	}
}

func TestTheTextSaysAll(t *testing.T) {
	t.Parallel()
	r := readReport(t)
	r.Measurements = []measurement{
		{Round: 1, Leg: naive64, PerSecond: 1000}, {Round: 1, Leg: create64, PerSecond: 1520, WALBytes: 2700, Strangers: 0.5},
	}
	r.Ratios = nil
	r.Storms = []storm{{
		Calm: load.Tally{Max: 20 * time.Millisecond}, Stormy: load.Tally{Max: 250 * time.Millisecond}, Locks: 1,
		Repeated: load.Tally{Answers: 512, Outcomes: map[string]int64{"409 idempotency_in_progress": 512}, Max: 2 * time.Second},
		Released: load.Tally{Outcomes: map[string]int64{load.Created: 1, load.Replayed: 255}},
	}}
	r.Soak = &soak{Seconds: 600, Load: load.Tally{Answers: 1_000_000}, Rows: added(1_000_000).String(), Samples: []vitals{{RSS: 50, Heap: 5, Goroutines: 139}}}
	r.remark("a remark")
	r.remark("a remark")
	r.compare()
	got := r.text()
	for _, want := range []string{
		"create c64 ÷ naive c64", "1.52", "missed", "WAL per order, create c64, B", "enough (less is better)",
		"other tenant's slowest order in the storm, s", "0.25", "512 × 409 idempotency_in_progress", "1 × created, 255 × replayed",
		"1000000 orders, 1000000 idempotency records and 1000000 events", "live heap, MiB", "no ratio or verdict of such a leg", "50 % in round 1, create c64",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Count(got, "a remark") != 1 {
		t.Error("a remark is made once")
	}
}
