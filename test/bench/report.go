package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
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
	MaxMillis  float64 `json:"max_ms,omitempty"`

	// Processor time for each order: of all of PostgreSQL's processes, of the server, of pgbench or the load generator.
	PostgresMicros float64 `json:"postgres_cpu_us"`
	ServerMicros   float64 `json:"server_cpu_us,omitempty"`
	LoadMicros     float64 `json:"load_cpu_us,omitempty"`
	WALBytes       float64 `json:"wal_bytes"`
	// Events that were dispatched meanwhile, and that wait at the end.
	Dispatched int64 `json:"dispatched,omitempty"`
	Waiting    int64 `json:"waiting,omitempty"`
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

type report struct {
	Began        time.Time     `json:"began"`
	Machine      machine       `json:"machine"`
	Rounds       int           `json:"rounds"`
	Seconds      float64       `json:"seconds"` // of each measured leg
	Serve        []string      `json:"serve,omitempty"`
	Remarks      []string      `json:"remarks,omitempty"`
	Ratios       []figure      `json:"ratios"`  // of two legs, round by round
	Figures      []figure      `json:"figures"` // that have a unit
	Measurements []measurement `json:"measurements"`
	Growth       []int         `json:"growth,omitempty"` // the sizes
	Storms       []storm       `json:"storms,omitempty"`
	Soak         *soak         `json:"soak,omitempty"`
}

// remark says something once.
func (r *report) remark(text string) {
	if !slices.Contains(r.Remarks, text) {
		r.Remarks = append(r.Remarks, text)
	}
}

func (r *report) of(leg string, of func(measurement) float64) []float64 {
	var values []float64
	for _, m := range r.Measurements {
		if m.Leg == leg {
			values = append(values, of(m))
		}
	}
	return values
}

// rounds lists what the legs of each round brought, by round.
func (r *report) rounds(leg string, of func(measurement) float64) map[int]float64 {
	values := map[int]float64{}
	for _, m := range r.Measurements {
		if m.Leg == leg {
			values[m.Round] = of(m)
		}
	}
	return values
}

func rate(m measurement) float64       { return m.PerSecond }
func processing(m measurement) float64 { return m.PostgresMicros + m.ServerMicros }
func wal(m measurement) float64        { return m.WALBytes }

// dispatchedEach is how many events were dispatched for each that came in; behind is how many seconds' worth waits.
func dispatchedEach(m measurement) float64 { return float64(m.Dispatched) / float64(max(m.Done, 1)) }
func behind(m measurement) float64         { return float64(m.Waiting) / max(m.PerSecond, 1) }

// disturbed is the share of strangers above which a run is not worth much. The kernel's own work for a leg is less.
const disturbed = 0.10

// write keeps everything as JSON.
func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, string(text)+"\n")
}

func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
