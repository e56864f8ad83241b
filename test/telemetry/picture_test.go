package telemetry

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orderonce/test/collector"
)

// picture draws a trace as a tree, with what differs from run to run left out: ids, hashes and times.
func picture(trace []collector.Span) string {
	children := map[string][]collector.Span{}
	known := map[string]bool{}
	for _, span := range trace {
		known[span.ID()] = true
	}
	for _, span := range trace {
		parent := span.Parent()
		if !known[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], span)
	}
	var text strings.Builder
	var draw func(span collector.Span, first, rest string)
	draw = func(span collector.Span, first, rest string) {
		fmt.Fprintf(&text, "%s%s%s\n", first, span.Name, kind(span))
		below := children[span.ID()]
		slices.SortFunc(below, func(a, b collector.Span) int { return int(int64(a.StartTimeUnixNano - b.StartTimeUnixNano)) })
		bar := "    "
		if len(below) > 0 {
			bar = "│   "
		}
		for _, line := range details(span) {
			fmt.Fprintf(&text, "%s%s%s\n", rest, bar, line)
		}
		for i, child := range below {
			if i < len(below)-1 {
				draw(child, rest+"├── ", rest+"│   ")
			} else {
				draw(child, rest+"└── ", rest+"    ")
			}
		}
	}
	for _, root := range children[""] {
		draw(root, "", "")
	}
	return text.String()
}

func kind(span collector.Span) string {
	word := strings.ToLower(strings.TrimPrefix(span.Kind.String(), "SPAN_KIND_"))
	if word == "internal" {
		word = ""
	}
	if span.Status.GetCode() == 2 {
		word = strings.TrimSpace(word + " error")
	}
	if word == "" {
		return ""
	}
	return " (" + word + ")"
}

func details(span collector.Span) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(span.Attributes)) {
		if !strings.HasPrefix(name, "db.") && !strings.HasPrefix(name, "url.") {
			lines = append(lines, name+" = "+settled(name, span.Attributes[name]))
		}
	}
	for _, event := range span.Events {
		line := "event " + event.Name
		for name, value := range collector.Values(event.Attributes) {
			line += fmt.Sprintf(", %s = %v", name, value)
		}
		lines = append(lines, line)
	}
	for range span.Links {
		lines = append(lines, "link to the trace of the first request")
	}
	return lines
}

var varying = regexp.MustCompile(`\.(id|hash)$`)

func settled(name string, value any) string {
	switch {
	case varying.MatchString(name):
		return "…"
	case strings.HasSuffix(name, ".duration") && value != 0.0:
		return "… s"
	}
	return fmt.Sprint(value)
}

const page = "../../docs/observability.md"

// wantPicture holds a trace against the picture of docs/observability.md that has this name.
func wantPicture(t *testing.T, name string, trace []collector.Span) {
	t.Helper()
	golden := filepath.Join("testdata", name+".txt")
	got := picture(trace)
	old, err := os.ReadFile(golden)
	if err != nil && !*update {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		if len(old) > 0 {
			text = bytes.Replace(text, old, []byte(got), 1)
		} else {
			text = bytes.Replace(text, []byte("("+name+")\n"), []byte(got), 1)
		}
		if err := os.WriteFile(page, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(old), got); diff != "" {
		t.Errorf("the trace of %s has changed; go test ./test/telemetry -update draws it anew (-was +is):\n%s", name, diff)
	}
	if !bytes.Contains(text, old) {
		t.Errorf("the picture of %s is not in docs/observability.md", name)
	}
}
