package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// stub answers as the server does: the first time with 201, from then on with the same body as a replay.
type stub struct {
	mu       sync.Mutex
	answers  map[string]string
	checkout map[string]bool
	lose     bool // the replay's body is another
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body struct {
		CheckoutID string           `json:"checkout_id"`
		Items      []map[string]any `json:"items"`
	}
	err := json.NewDecoder(r.Body).Decode(&body)
	if err != nil || r.Header.Get("Authorization") != "Bearer secret" || len(body.Items) != 2 {
		http.Error(w, "not an order", http.StatusBadRequest)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	first, again := s.answers[key]
	if !again {
		if s.checkout[body.CheckoutID] {
			http.Error(w, "this checkout has an order", http.StatusConflict)
			return
		}
		first = "answer to " + key
		s.answers[key], s.checkout[body.CheckoutID] = first, true
		w.Header().Set("Idempotency-Replayed", "false")
	} else {
		w.Header().Set("Idempotency-Replayed", "true")
		if s.lose {
			first = "another " + key
		}
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, first) //nolint:gosec // the generator reads it, no browser; it may be gone
}

// generateAgainst runs a whole generator and returns its two tallies.
func generateAgainst(t *testing.T, s *stub, j job) (warm, measured tally, err error) {
	t.Helper()
	s.answers, s.checkout = map[string]string{}, map[string]bool{}
	server := httptest.NewServer(s)
	defer server.Close()
	j.Address, j.Credential = strings.TrimPrefix(server.URL, "http://"), "secret"
	var in, out bytes.Buffer
	for _, value := range []any{j, struct{}{}} {
		if err := json.NewEncoder(&in).Encode(value); err != nil {
			t.Fatal(err)
		}
	}
	if err := generate(&in, &out); err != nil {
		return tally{}, tally{}, err
	}
	decoder := json.NewDecoder(&out)
	for _, into := range []*tally{&warm, &measured} {
		if err := decoder.Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	return warm, measured, nil
}

func TestTheGeneratorCountsEveryOrder(t *testing.T) {
	t.Parallel()
	s := &stub{}
	warm, measured, err := generateAgainst(t, s, job{
		Connections: 3, Warmup: 20 * time.Millisecond, Measure: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := warm.Answers + measured.Answers; got != int64(len(s.answers)) || measured.Answers == 0 {
		t.Errorf("the generator counted %d and %d orders, the server %d", warm.Answers, measured.Answers, len(s.answers))
	}
	if measured.P50 <= 0 || measured.P99 < measured.P50 || measured.Elapsed < 50*time.Millisecond {
		t.Errorf("times make no sense: %+v", measured)
	}
}

func TestTheGeneratorReplaysWhatItPlaced(t *testing.T) {
	t.Parallel()
	s := &stub{}
	_, measured, err := generateAgainst(t, s, job{
		Connections: 2, Warmup: time.Millisecond, Measure: 50 * time.Millisecond, Replay: 9,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.answers) != 10 || measured.Answers == 0 { // 9, shared evenly
		t.Errorf("%d orders were placed and %d replays counted", len(s.answers), measured.Answers)
	}
}

func TestTheGeneratorBelievesNoOtherReplay(t *testing.T) {
	t.Parallel()
	_, _, err := generateAgainst(t, &stub{lose: true}, job{
		Connections: 1, Warmup: time.Millisecond, Measure: time.Millisecond, Replay: 1,
	})
	if err == nil || !strings.Contains(err.Error(), "a repeated order was answered") {
		t.Errorf("a replay with another body was counted: %v", err)
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
}

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

func TestRatiosAreTakenWithinARound(t *testing.T) {
	t.Parallel()
	r := report{Measurements: []measurement{
		{Round: 1, Leg: naive64, PerSecond: 100},
		{Round: 1, Leg: create64, PerSecond: 200},
		{Round: 2, Leg: naive64, PerSecond: 50},
		{Round: 2, Leg: create64, PerSecond: 200},
	}}
	r.compare()
	if len(r.Ratios) == 0 || r.Ratios[0].Name != create64 || r.Ratios[0].Min != 2 || r.Ratios[0].Max != 4 {
		t.Errorf("got %+v", r.Ratios)
	}
}

func TestTextLiteralHasNoVariables(t *testing.T) {
	t.Parallel()
	if got, want := textLiteral(`{"a":1,"b":"it's \n"}`), `E'{"a"\x3a1,"b"\x3a"it\'s \\n"}'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
