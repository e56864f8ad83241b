package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// render draws the reports of earlier runs as one picture. The first one's machine and day stand below it.
func render(paths []string, out string) error {
	var all report
	for i, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var r report
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if i == 0 {
			all = r
		} else {
			all.merge(r)
		}
	}
	if len(all.Ratios) == 0 {
		return errors.New("there is no ratio to draw")
	}
	return writeFile(out, picture(all))
}

// The picture's measures, in its own units.
const (
	width    = 810
	labels   = 300 // the column of names
	figures  = 150 // and that of numbers
	barRow   = 26
	barHigh  = 12
	titleRow = 44
	margin   = 16
)

// panels part the ratios into axes of their own: twenty times pgbench and a tenth of its CPU would not fit on one.
var panels = []struct {
	title string
	holds func(figure) bool
}{
	{"Orders or replays a second ÷ naive pgbench at 64 connections", func(f figure) bool { return f.Base == naive64 && !f.Less }},
	{"A second ÷ the same server otherwise", func(f figure) bool { return f.Base != naive64 && !f.Less }},
	{"Cost per order ÷ naive pgbench at 64 connections (less is better)", func(f figure) bool { return f.Less }},
}

// style follows the reader's light or dark mode; nothing is told by colour alone. It does without variables, which
// viewers other than browsers do not know.
const style = `
    text { font: 13px system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; fill: #1f2328; }
    .title { font-weight: 600; }
    .faint { fill: #59636e; font-size: 11px; }
    .end { text-anchor: end; }
    .middle { text-anchor: middle; }
    .paper { fill: #ffffff; }
    .bar { fill: #2f6fbf; }
    .rule { stroke: #d1d9e0; }
    .whisker { stroke: #1f2328; stroke-width: 1.5; }
    .goal { stroke: #1a7f37; stroke-width: 2.5; }
    .least { stroke: #1a7f37; stroke-width: 2; stroke-dasharray: 3 2; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; }
      .faint { fill: #9198a1; }
      .paper { fill: #0d1117; }
      .bar { fill: #3f7fd0; }
      .rule { stroke: #3d444d; }
      .whisker { stroke: #f0f6fc; }
      .goal, .least { stroke: #56d364; }
    }
`

// picture draws the ratios: a bar to the median, a whisker from the least to the greatest, and what was wanted. Equal
// reports have equal pictures, byte for byte.
func picture(r report) string {
	var b strings.Builder
	y := margin
	for _, panel := range panels {
		var held []figure
		for _, f := range r.Ratios {
			if panel.holds(f) {
				held = append(held, f)
			}
		}
		if len(held) > 0 {
			y = drawPanel(&b, panel.title, held, y)
		}
	}
	fmt.Fprintf(&b, "  <text class=\"faint\" x=\"%d\" y=\"%d\">Bar: median of the rounds. Whisker: least to greatest. "+
		"Green line: the goal; dashed: the least that will do. c64: 64 connections.</text>\n", margin, y+12)
	fmt.Fprintf(&b, "  <text class=\"faint\" x=\"%d\" y=\"%d\">%s</text>\n", margin, y+28, escape(fmt.Sprintf(
		"%d × %s, load included; PostgreSQL %s, %s; rounds: %d, each of %g s a leg; %s",
		r.Machine.Cores, r.Machine.Processor, firstWord(r.Machine.PostgreSQL), r.Machine.Go, r.Rounds, r.Seconds, r.Began.UTC().Format("2 January 2006"))))
	height := y + 28 + margin
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" aria-labelledby="title description">
  <title id="title">OrderOnce in proportion</title>
  <desc id="description">%[3]s</desc>
  <style>%[4]s  </style>
  <rect class="paper" width="%[1]d" height="%[2]d" rx="6"/>
%[5]s</svg>
`, width, height, escape(described(r.Ratios)), style, b.String())
}

// described says in words what the picture shows.
func described(ratios []figure) string {
	var parts []string
	for _, f := range ratios {
		parts = append(parts, fmt.Sprintf("%s ÷ %s: %s", f.Name, f.Base, said(f.Median)))
	}
	return strings.Join(parts, "; ") + "."
}

// drawPanel draws ratios that share an axis and returns where the next panel begins.
func drawPanel(b *strings.Builder, title string, held []figure, y int) int {
	longest := 1.0
	for _, f := range held {
		longest = max(longest, f.Max, f.Goal)
	}
	step := niceStep(longest)
	longest = math.Ceil(longest/step) * step
	left, right := float64(margin+labels), float64(width-margin-figures)
	at := func(value float64) float64 { return left + (right-left)*value/longest }
	fmt.Fprintf(b, "  <text class=\"title\" x=\"%d\" y=\"%d\">%s</text>\n", margin, y+16, escape(title))
	top := y + titleRow
	bottom := top + barRow*len(held)
	for i := 0; float64(i)*step <= longest*1.0001; i++ {
		value := float64(i) * step
		line(b, "rule", at(value), top-4, at(value), bottom)
		fmt.Fprintf(b, "  <text class=\"faint middle\" x=\"%.1f\" y=\"%d\">%s</text>\n", at(value), top-9, number(value))
	}
	for i, f := range held {
		middle := top + barRow*i + barRow/2
		name := f.Name
		if f.Base != naive64 {
			name += " ÷ " + shortBase(f)
		}
		fmt.Fprintf(b, "  <text x=\"%d\" y=\"%d\">%s</text>\n", margin, middle+4, escape(name))
		fmt.Fprintf(b, "  <rect class=\"bar\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>\n",
			left, middle-barHigh/2, at(f.Median)-left, barHigh)
		line(b, "whisker", at(f.Min), middle, at(f.Max), middle)
		line(b, "whisker", at(f.Min), middle-4, at(f.Min), middle+4)
		line(b, "whisker", at(f.Max), middle-4, at(f.Max), middle+4)
		if f.Least != 0 {
			line(b, "least", at(f.Least), middle-9, at(f.Least), middle+9)
		}
		if f.Goal != 0 {
			line(b, "goal", at(f.Goal), middle-9, at(f.Goal), middle+9)
		}
		fmt.Fprintf(b, "  <text class=\"end\" x=\"%d\" y=\"%d\">%s</text>\n", width-margin, middle+4, escape(
			fmt.Sprintf("%s (%s to %s)", said(f.Median), said(f.Min), said(f.Max))))
	}
	return bottom + margin
}

// shortBase names what a ratio is taken to by what is different there.
func shortBase(f figure) string {
	switch f.Base {
	case alone1, alone16:
		return "no sharing"
	case bare64:
		return "without"
	case create64:
		return "without"
	case static64:
		return "/livez"
	}
	return strings.TrimPrefix(f.Base, "create c64 ")
}

func line(b *strings.Builder, class string, x1 float64, y1 int, x2 float64, y2 int) {
	fmt.Fprintf(b, "  <line class=%q x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n", class, x1, y1, x2, y2)
}

// niceStep is 1, 2 or 5 times a power of ten, of which four to ten reach up to the value.
func niceStep(value float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(value/4)))
	for _, times := range []float64{5, 2} {
		if power*times <= value/4 {
			return power * times
		}
	}
	return power
}

// said writes a ratio as one would say it: 12.3, 1.52, 0.16.
func said(value float64) string {
	if value >= 10 {
		return strconv.FormatFloat(value, 'f', 1, 64)
	}
	return strconv.FormatFloat(value, 'f', 2, 64)
}

// number is one on an axis, as short as it gets.
func number(value float64) string { return strconv.FormatFloat(math.Round(value*1e6)/1e6, 'f', -1, 64) }

func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(text)
}
