package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// text is the report for people.
func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", r.Machine)
	r.legTable(&b)
	r.figureTable(&b)
	r.stormText(&b)
	r.soakText(&b)
	r.strangerText(&b)
	for _, remark := range r.Remarks {
		b.WriteString(remark + "\n")
	}
	return b.String()
}

// strangerText tells of what else ran: a contender that was disturbed alone makes the others look fast.
func (r *report) strangerText(b *strings.Builder) {
	var lines []string
	for _, m := range r.Measurements {
		if m.Strangers > disturbed {
			lines = append(lines, fmt.Sprintf("  %3.0f %% in round %d, %s\n", m.Strangers*100, m.Round, m.Leg))
		}
	}
	if len(lines) > 0 {
		b.WriteString("\nSomething else had a part of this machine, and no ratio or verdict of such a leg means much:\n" + strings.Join(lines, ""))
	}
}

func newTable(b *strings.Builder) (row func(name string, cells ...string), end func()) {
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 0, 3, ' ', tabwriter.AlignRight)
	row = func(name string, cells ...string) { fmt.Fprintf(t, "%-50s\t%s\t\n", name, strings.Join(cells, "\t")) }
	return row, func() { _ = t.Flush() } // into memory
}

func (r *report) legTable(b *strings.Builder) {
	names := slices.Clone(legNames)
	names = append(names, dispatchLegs...)
	for _, size := range r.Growth {
		names = append(names, growthLeg(size))
	}
	if len(r.Measurements) == 0 {
		return
	}
	row, end := newTable(b)
	row("a second", "min", "median", "max", "p50 ms", "p95 ms", "p99 ms", "max ms",
		"PostgreSQL µs", "server µs", "load µs", "WAL bytes")
	for _, leg := range names {
		rates := spreadOf(r.of(leg, rate))
		if len(rates.Values) == 0 {
			continue
		}
		cells := []string{whole.format(rates.Min), whole.format(rates.Median), whole.format(rates.Max)}
		for _, c := range columns {
			cells = append(cells, c.format(spreadOf(r.of(leg, c.of)).Median))
		}
		row(leg, cells...)
	}
	end()
	b.WriteString("\nTimes and bytes are medians, for each order or replay. CPU is that of PostgreSQL and the server.\n")
}

func (r *report) figureTable(b *strings.Builder) {
	row, end := newTable(b)
	row("within each round", "min", "median", "max", "goal", "at least", "")
	for _, f := range slices.Concat(r.Ratios, r.Figures) {
		verdict := f.verdict()
		if f.Less && verdict != "" {
			verdict += " (less is better)"
		}
		digits := hundredths
		if f.Unit == "B" {
			digits = whole
		}
		name := f.Name
		if f.Unit != "" {
			name += ", " + f.Unit
		} else {
			name += " ÷ " + f.Base
		}
		row(name, digits.format(f.Min), digits.format(f.Median), digits.format(f.Max),
			digits.format(f.Goal), digits.format(f.Least), verdict)
	}
	end()
}

func (r *report) stormText(b *strings.Builder) {
	for i, turn := range r.Storms {
		fmt.Fprintf(b, "\nStorm %d: %d duplicates of a held key on %d connections, %d of the server's sessions waiting for a lock.\n",
			i+1, turn.Repeated.Answers, duplicates, turn.Locks)
		fmt.Fprintf(b, "  while it was held: %s; the longest took %.2f s\n", outcomes(turn.Repeated.Outcomes), turn.Repeated.Max.Seconds())
		fmt.Fprintf(b, "  once it was let go: %s\n", outcomes(turn.Released.Outcomes))
		fmt.Fprintf(b, "  another tenant on %d connections: %.0f orders a second, p99 %.0f ms, slowest %.0f ms; without the storm %.0f, %.0f and %.0f\n",
			bystanders, turn.Stormy.PerSecond(), millis(turn.Stormy.P99), millis(turn.Stormy.Max),
			turn.Calm.PerSecond(), millis(turn.Calm.P99), millis(turn.Calm.Max))
	}
}

// outcomes lists how often each was seen, in the order of their names.
func outcomes(seen map[string]int64) string {
	var parts []string
	for _, outcome := range slices.Sorted(maps.Keys(seen)) {
		parts = append(parts, fmt.Sprintf("%d × %s", seen[outcome], outcome))
	}
	return strings.Join(parts, ", ")
}

func (r *report) soakText(b *strings.Builder) {
	if r.Soak == nil {
		return
	}
	fmt.Fprintf(b, "\nSoak: %d orders in %.0f s, %.0f a second, p99 %.1f ms, slowest %.0f ms; in the tables are %s.\n",
		r.Soak.Load.Answers, r.Soak.Seconds, r.Soak.Load.PerSecond(), millis(r.Soak.Load.P99), millis(r.Soak.Load.Max), r.Soak.Rows)
	row, end := newTable(b)
	row("held by the server", "first", "last", "min", "max", "slope an hour")
	for _, kind := range []struct {
		name string
		of   func(vitals) float64
	}{
		{"resident memory, MiB", func(v vitals) float64 { return v.RSS }},
		{"live heap, MiB", func(v vitals) float64 { return v.Heap }},
		{"goroutines", func(v vitals) float64 { return v.Goroutines }},
	} {
		t := trendOf(r.Soak.Samples, kind.of)
		row(kind.name, tenths.format(t.first), tenths.format(t.last), tenths.format(t.min), tenths.format(t.max),
			fmt.Sprintf("%+.1f", t.slope))
	}
	end()
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
	of func(measurement) float64
	decimals
}

var columns = []column{
	{func(m measurement) float64 { return m.P50Millis }, tenths},
	{func(m measurement) float64 { return m.P95Millis }, tenths},
	{func(m measurement) float64 { return m.P99Millis }, tenths},
	{func(m measurement) float64 { return m.MaxMillis }, tenths},
	{func(m measurement) float64 { return m.PostgresMicros }, whole},
	{func(m measurement) float64 { return m.ServerMicros }, whole},
	{func(m measurement) float64 { return m.LoadMicros }, whole},
	{wal, whole},
}
