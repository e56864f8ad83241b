package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whoever waits for the file reads all of it or nothing, and nobody else reads the keys in it.
func TestReadyFileIsReplacedAsAWholeAndPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "ready.json")
	must(t, os.WriteFile(path, []byte("of the last start"), 0o644))
	before, err := os.Open(path)
	must(t, err)
	defer before.Close()

	want := ready{BaseURL: "http://127.0.0.1:1", PIDs: map[string]int{"server": 1}, Keys: map[string]string{"acme": "key"}}
	must(t, writeReady(path, want))

	// Written in place, the reader who had it open would see the new text, and could have seen half of it.
	if old, err := io.ReadAll(before); err != nil || string(old) != "of the last start" {
		t.Errorf("the file was written in place: %q %v", old, err)
	}
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %s", info.Mode())
	}
	text, err := os.ReadFile(path)
	must(t, err)
	var got ready
	must(t, json.Unmarshal(text, &got))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	onlyFile(t, dir, "ready.json")
}

func TestReadyFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "taken"), 0o700))
	for name, path := range map[string]string{
		"in no directory": filepath.Join(dir, "missing", "ready.json"), "over a directory": filepath.Join(dir, "taken"),
	} {
		if err := writeReady(path, ready{}); err == nil || !strings.Contains(err.Error(), "ready-file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	onlyFile(t, dir, "taken")
}

func onlyFile(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("left behind: %v", entries)
	}
}

func TestVersionNamesTheBuild(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := run(t, nil, "version")
	fields := strings.Fields(stdout)
	if status != 0 || len(fields) != 4 || fields[0] != "orderonce" || fields[1] == "," ||
		fields[2] != runtime.Version() || fields[3] != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
}

// A command line that means nothing ends with a reason, and starts nothing.
func TestCommandLineIsTakenAtItsWord(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"database-url: must be set":                   {"serve"},
		"unknown command":                             {"sreve"},
		"unknown flag":                                {"serve", "--databse-url=x"},
		`unknown command "now"`:                       {"dev", "now"},
		"drop-responses: must be between 0% and 100%": {"dev", "--drop-responses=half"},
		`required flag(s) "name", "principal", "reason", "tenant" not set`: {"keys", "create"},
		"no-such-file.yaml": {"config", "print", "--config=no-such-file.yaml"},
	} {
		status, _, stderr := run(t, nil, args...)
		if status != 1 || !strings.Contains(stderr, want) || !strings.HasPrefix(stderr, "orderonce: ") {
			t.Errorf("%v: status %d, %q does not say %q", args, status, stderr, want)
		}
	}
}

func TestParseShare(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"0%": 0, "30%": 0.3, "100%": 1, "0.5%": 0.005, "1e1%": 0.1, "-0%": 0,
	} {
		if got, err := parseShare(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "%", "30", "0.3", "-1%", "100.1%", "NaN%", "Inf%", "-Inf%", "30%%", "30 %", "half%", " 30%"} {
		if got, err := parseShare(text); err == nil {
			t.Errorf("%q is %v, and should be refused", text, got)
		}
	}
}
