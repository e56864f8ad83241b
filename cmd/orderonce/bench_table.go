package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// printBench is the result for people. Rates and times are of answers; what is wrong stands below, with examples.
func printBench(out io.Writer, r benchResult) {
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "connections\ta second\tp50 ms\tp95 ms\tp99 ms\tmax ms\twrong\t")
	for _, turn := range r.Turns {
		m := turn.Measured
		fmt.Fprintf(t, "%d\t%.0f\t%s\t%s\t%s\t%s\t%d\t\n", turn.Connections, turn.PerSecond,
			inMillis(m.P50), inMillis(m.P95), inMillis(m.P99), inMillis(m.Max), turn.wrong())
	}
	_ = t.Flush() // nowhere left to say that the terminal is gone
	fmt.Fprintln(out)
	for _, turn := range r.Turns {
		fmt.Fprintf(out, "%d connections: %s\n", turn.Connections, counted(turn.Measured.Outcomes))
		fmt.Fprintf(out, "  of %d orders, warm-up included, no two keys may have one; %d were repeated once more and read\n",
			turn.Audit.Orders, turn.Audit.Sampled)
		if turn.Audit.Unread != "" {
			fmt.Fprintf(out, "  the sample was not read: %s\n", turn.Audit.Unread)
		}
		for _, example := range slices.Concat(turn.Warm.Examples, turn.Measured.Examples, turn.Audit.Examples) {
			fmt.Fprintf(out, "  wrong: %s\n", example)
		}
	}
}

func inMillis(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()*1e3) }

// counted lists how often each outcome was seen.
func counted(outcomes map[string]int64) string {
	var parts []string
	for _, outcome := range slices.Sorted(maps.Keys(outcomes)) {
		parts = append(parts, fmt.Sprintf("%d %s", outcomes[outcome], outcome))
	}
	return strings.Join(parts, ", ")
}
