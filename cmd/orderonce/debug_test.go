package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
)

// Profiles are for whoever is on the machine, and the API's listener has none.
func TestProfilesAreOnALoopbackListenerOfTheirOwn(t *testing.T) {
	t.Parallel()
	d := startDev(t, dataDir(t), "--debug-listen=127.0.0.1:0")
	debug := orderoncetest.NewClient(d.DebugURL, "")
	for path, want := range map[string]int{
		"/debug/pprof/heap": http.StatusOK, "/debug/pprof/goroutine": http.StatusOK, "/livez": http.StatusNotFound,
	} {
		if got := debug.Status(t.Context(), path); got != want {
			t.Errorf("%s of the debug listener: %d", path, got)
		}
	}
	if got := d.acme.Status(t.Context(), "/debug/pprof/heap"); got != http.StatusNotFound {
		t.Errorf("the API shows profiles: %d", got)
	}
	d.Signal(t, syscall.SIGTERM)
	if status := d.Wait(t); status != 0 {
		t.Errorf("status %d after a stop", status)
	}
}

func TestDebugListenIsOfLoopback(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "127.0.0.1:0", "localhost:6060", "[::1]:6060", "127.1.2.3:1"} {
		if err := debugAddress(address); err != nil {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, address := range []string{":6060", "0.0.0.0:6060", "10.0.0.1:6060", "[::]:6060", "example.org:6060", "127.0.0.1"} {
		if err := debugAddress(address); err == nil {
			t.Errorf("%q was taken", address)
		}
	}
	status, _, stderr := run(t, nil, "serve", "--debug-listen=:6060")
	if status != 1 || !strings.Contains(stderr, "debug-listen: must be an address of loopback") {
		t.Errorf("status %d: %s", status, stderr)
	}
}
