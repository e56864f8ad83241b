package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// measurement is one leg of one round. What is not measured for its contender is 0.
type measurement struct {
	Round     int     `json:"round"`
	Leg       string  `json:"leg"`
	Done      int64   `json:"done"` // orders that are in the tables, or answers of a replay
	PerSecond float64 `json:"per_second"`

	MeanMillis float64 `json:"mean_ms,omitempty"` // pgbench gives no percentiles
	P50Millis  float64 `json:"p50_ms,omitempty"`
	P95Millis  float64 `json:"p95_ms,omitempty"`
	P99Millis  float64 `json:"p99_ms,omitempty"`

	// Processor time for each order: of all of PostgreSQL's processes, of the server, of pgbench or the load generator.
	PostgresMicros float64 `json:"postgres_cpu_us"`
	ServerMicros   float64 `json:"server_cpu_us,omitempty"`
	LoadMicros     float64 `json:"load_cpu_us,omitempty"`
	WALBytes       float64 `json:"wal_bytes"`
	// Strangers is the share of the machine's processors that went to processes of neither side.
	Strangers float64 `json:"strangers"`
}

// spread is a figure over all rounds.
type spread struct {
	Min    float64   `json:"min"`
	Median float64   `json:"median"`
	Max    float64   `json:"max"`
	Values []float64 `json:"values"` // round by round
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{Min: sorted[0], Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Max: sorted[n-1], Values: values}
}

// ratio is a figure of one leg over a figure of naive c64, taken round by round.
type ratio struct {
	Name string `json:"name"`
	spread
}

type report struct {
	Began        time.Time     `json:"began"`
	Machine      machine       `json:"machine"`
	Rounds       int           `json:"rounds"`
	Seconds      float64       `json:"seconds"` // of each measured leg
	Serve        []string      `json:"serve,omitempty"`
	Ratios       []ratio       `json:"ratios"`
	Measurements []measurement `json:"measurements"`
}

func (r *report) of(leg string, figure func(measurement) float64) []float64 {
	var values []float64
	for _, m := range r.Measurements {
		if m.Leg == leg {
			values = append(values, figure(m))
		}
	}
	return values
}

func rate(m measurement) float64       { return m.PerSecond }
func processing(m measurement) float64 { return m.PostgresMicros + m.ServerMicros }
func wal(m measurement) float64        { return m.WALBytes }

// compare takes the ratios.
func (r *report) compare() {
	over := func(name, leg, base string, figure func(measurement) float64) {
		ours, theirs := r.of(leg, figure), r.of(base, figure)
		var values []float64
		for i := range min(len(ours), len(theirs)) {
			if theirs[i] > 0 {
				values = append(values, ours[i]/theirs[i])
			}
		}
		if len(values) > 0 {
			r.Ratios = append(r.Ratios, ratio{name, spreadOf(values)})
		}
	}
	add := func(name, leg string, figure func(measurement) float64) { over(name, leg, naive64, figure) }
	for _, leg := range []string{create1, create16, create64, create256, replay64} {
		add(leg, leg, rate)
	}
	over("purging c64 ÷ create c64", purging64, create64, rate)
	for _, leg := range []string{create64, create256} {
		add("CPU per order, "+leg, leg, processing)
		add("WAL per order, "+leg, leg, wal)
	}
}

// disturbed is the share of strangers above which a run is not worth much. The kernel's own work for a leg is less.
const disturbed = 0.10

// table is the report for people.
func (r *report) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n\n", r.Machine)
	t := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(name string, cells ...string) {
		fmt.Fprintf(t, "%-30s\t%s\t\n", name, strings.Join(cells, "\t"))
	}
	row("a second", "min", "median", "max", "p50 ms", "p95 ms", "p99 ms",
		"PostgreSQL µs", "server µs", "load µs", "WAL bytes")
	for _, leg := range []string{naive16, naive64, create1, create16, create64, create256, replay64, purging64} {
		rates := spreadOf(r.of(leg, rate))
		if len(rates.Values) == 0 {
			continue
		}
		cells := []string{whole.format(rates.Min), whole.format(rates.Median), whole.format(rates.Max)}
		for _, c := range columns {
			cells = append(cells, c.format(spreadOf(r.of(leg, c.figure)).Median))
		}
		row(leg, cells...)
	}
	_ = t.Flush() // into memory
	b.WriteString("\n")
	t = tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	if len(r.Ratios) > 0 {
		row("÷ naive c64 of the same round", "min", "median", "max")
	}
	for _, ratio := range r.Ratios {
		row(ratio.Name, hundredths.format(ratio.Min), hundredths.format(ratio.Median), hundredths.format(ratio.Max))
	}
	_ = t.Flush()
	b.WriteString("\nTimes and bytes are medians, for each order or replay. CPU is that of PostgreSQL and the server.\n")
	for _, m := range r.Measurements {
		if m.Strangers > disturbed {
			fmt.Fprintf(&b, "Something else took %.0f %% of this machine in round %d, %s.\n", m.Strangers*100, m.Round, m.Leg)
		}
	}
	return b.String()
}

// decimals is a way to print a figure.
type decimals int

const (
	whole      decimals = 0
	tenths     decimals = 1
	hundredths decimals = 2
)

// format leaves a dash where nothing was measured.
func (d decimals) format(value float64) string {
	if value == 0 {
		return "–"
	}
	return fmt.Sprintf("%.*f", int(d), value)
}

type column struct {
	figure func(measurement) float64
	decimals
}

var columns = []column{
	{func(m measurement) float64 { return m.P50Millis }, tenths},
	{func(m measurement) float64 { return m.P95Millis }, tenths},
	{func(m measurement) float64 { return m.P99Millis }, tenths},
	{func(m measurement) float64 { return m.PostgresMicros }, whole},
	{func(m measurement) float64 { return m.ServerMicros }, whole},
	{func(m measurement) float64 { return m.LoadMicros }, whole},
	{wal, whole},
}

// write keeps everything as JSON.
func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
