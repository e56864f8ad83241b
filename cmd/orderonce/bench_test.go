package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orderonce/internal/load"
)

// benchOf runs the command and returns what it wrote, as a table and as JSON.
func benchOf(t *testing.T, url, key string, args ...string) (status int, stdout, stderr string, result benchResult) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "bench.json")
	args = append([]string{
		"bench", "--url=" + url, "--connections=1,4", "--duration=300ms", "--warmup=50ms", "--out=" + out, "--yes-create-orders",
	}, args...)
	status, stdout, stderr = run(t, []string{benchKeyEnv + "=" + key}, args...)
	if text, err := os.ReadFile(out); err == nil {
		must(t, json.Unmarshal(text, &result))
	}
	return status, stdout, stderr, result
}

// What bench says that it placed is in the tables, though a part of the answers never came.
func TestBenchCountsWhatItPlaced(t *testing.T) {
	t.Parallel()
	d := startDev(t, dataDir(t), "--drop-responses=10%")
	status, stdout, stderr, result := benchOf(t, d.BaseURL, d.Keys["acme"], "--replays=30%", "--sample=10")
	if status != 0 || len(result.Turns) != 2 || !strings.Contains(stderr, "This places real orders at "+d.BaseURL) {
		t.Fatalf("status %d:\n%s%s", status, stdout, stderr)
	}
	placed, repeated := 1, int64(0) // one before all others
	for _, turn := range result.Turns {
		placed += turn.Audit.Orders
		repeated += turn.Measured.Outcomes[load.Replayed]
		if turn.wrong() != 0 || turn.Audit.Sampled == 0 || turn.PerSecond <= 0 || turn.Measured.P99 < turn.Measured.P50 {
			t.Errorf("%+v", turn)
		}
	}
	if got := d.query(t, countOrders+` WHERE metadata->>'source' = '`+benchSource+`'`); got != placed || repeated == 0 {
		t.Errorf("%d orders are there, %d were answered for, %d repeated", got, placed, repeated)
	}
	for _, want := range []string{"p99 ms", "\n1 connections: ", "\n4 connections: ", "no two keys may have one"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
}

// A server that forgets what it answered is caught, and told of.
func TestBenchCatchesALiar(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"0198d0a6-0000-7000-8000-000000000000"}`)
	}))
	defer server.Close()
	status, stdout, stderr, result := benchOf(t, server.URL, "key")
	if status != 1 || !strings.Contains(stderr, "answers are not what they should be") {
		t.Errorf("status %d: %s", status, stderr)
	}
	for _, want := range []string{"wrong: a repeated order was answered with status 201, replayed false", "wrong: two keys have one order"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	if len(result.Turns) != 2 || result.Turns[0].Audit.Wrong == 0 {
		t.Errorf("the JSON does not say so: %+v", result)
	}
}

// Nothing is placed that was not asked for, and a refused key is not hammered with.
func TestBenchPlacesNothingUnasked(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.Path
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"code":"unauthenticated"}`)
	}))
	defer server.Close()
	for _, c := range []struct {
		args     []string
		want     string
		requests int
	}{
		{[]string{"bench", "--url=" + server.URL, "--key=k"}, "nothing was placed: say yes, or --yes-create-orders", 0},
		{[]string{"bench", "--url=" + server.URL, "--yes-create-orders"}, "key: must be set, as a flag or as ORDERONCE_BENCH_KEY", 0},
		{[]string{"bench", "--key=k", "--yes-create-orders"}, `required flag(s) "url" not set`, 0},
		{[]string{"bench", "--url=shop", "--key=k", "--yes-create-orders", "--replays=half", "--connections=0", "--duration=0s"}, "connections: each must be between 1 and 10000", 0},
		{[]string{"bench", "--url=" + server.URL, "--key=k", "--yes-create-orders", "--out="}, "nothing was measured: a new order was answered with status 401", 1},
	} {
		status, _, stderr := run(t, nil, c.args...)
		if status != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: status %d, %q does not say %q", c.args, status, stderr, c.want)
		}
		if len(asked) != c.requests {
			t.Errorf("%v: %d requests came", c.args, len(asked))
		}
	}
}

func TestBenchTakesOnlyAYes(t *testing.T) {
	t.Parallel()
	for typed, placed := range map[string]bool{"yes\n": true, " yes \n": true, "yes": true, "y\n": false, "no\n": false, "\n": false, "": false} {
		err := (&benchmark{}).confirm(strings.NewReader(typed), io.Discard)
		if (err == nil) != placed {
			t.Errorf("%q: %v", typed, err)
		}
	}
}
