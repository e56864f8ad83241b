package main

import (
	"net/http"
	"testing"
)

func TestParseRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"0": 0, "0.5": 0.5, "100": 100, "1e3": 1000, "0.001": 0.001, "1000000": 1e6, "-0": 0} {
		if got, err := parseRate(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "many", "-1", "0.0001", "1e-300", "1000001", "Inf", "-Inf", "NaN", "1/s", "10 "} {
		if got, err := parseRate(text); err == nil {
			t.Errorf("%q is %v, and should be refused", text, got)
		}
	}
}

// What is set holds in the server that runs.
func TestCallersSettingsReachTheServer(t *testing.T) {
	t.Parallel()
	d := startDev(t, dataDir(t), "--tenant-rate=0.001", "--tenant-burst=2")
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		a, err := d.acme.Do(t.Context(), http.MethodGet, "orders", "", nil)
		must(t, err)
		if a.Status != want {
			t.Errorf("got %d %v, want %d", a.Status, a.Header, want)
		}
	}
}
