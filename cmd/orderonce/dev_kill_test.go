package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
)

// The data outlive dev, and so does every key that it has printed: the client that retries after the crash may hold
// the one of yesterday or the one of now, and both are the same principal.
func TestDevStartedAgainAfterKill9Replays(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	d := startDev(t, data)
	key, body := orderoncetest.NewKey(), orderoncetest.Order(map[string]any{"coupon_code": "WELCOME10"})
	first := d.acme.Place(t, key, body)
	wantFirst(t, first)
	d.Kill()

	again := startDev(t, data)
	if d.Keys["acme"] == again.Keys["acme"] {
		t.Error("each start prints keys of its own")
	}
	old := orderoncetest.NewClient(again.BaseURL, d.Keys["acme"])
	for name, client := range map[string]*orderoncetest.Client{"the old key": old, "the new key": again.acme} {
		t.Log("with", name)
		wantReplay(t, first, client.Place(t, key, body))
		read, err := client.Do(t.Context(), http.MethodGet, "/orders/"+first.OrderID(), "", nil)
		must(t, err)
		if read.Status != http.StatusOK || read.Body != first.Body {
			t.Errorf("the order reads %d %s", read.Status, read.Body)
		}
	}
	if n := again.query(t, countOrders); n != 1 {
		t.Errorf("%d orders", n)
	}
	// The PostgreSQL of the killed dev must not work on the files any more.
	running := orderoncetest.Postgres(data)
	if !slices.Contains(running, again.PIDs["postgres"]) || slices.Contains(running, d.PIDs["postgres"]) {
		t.Errorf("%v run; the new one is %d, the old one was %d", running, again.PIDs["postgres"], d.PIDs["postgres"])
	}
}

func TestDevsPostgresComesBackAfterKill9(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	d := startDev(t, data)
	key, body := orderoncetest.NewKey(), orderoncetest.Order(nil)
	first := d.acme.Place(t, key, body)
	wantFirst(t, first)
	killed := d.PIDs["postgres"]
	must(t, syscall.Kill(killed, syscall.SIGKILL))

	// Until it is back the answer says that nothing happened and when to ask again.
	served := func(key string) (a orderoncetest.Answer) {
		orderoncetest.Poll(t, "an answer that is not 503", func() bool {
			a = d.acme.Place(t, key, body)
			if a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") == "" {
				t.Errorf("503 without Retry-After: %s", a.Body)
			}
			return a.Status != http.StatusServiceUnavailable
		})
		return a
	}
	wantReplay(t, first, served(key))
	// The sessions of the killed one answer until they notice, so that may have been one of them.
	orderoncetest.Poll(t, "another PostgreSQL", func() bool {
		note, err := os.ReadFile(filepath.Join(data, "data", "postmaster.pid"))
		return err == nil && !strings.HasPrefix(string(note), strconv.Itoa(killed)+"\n") && strings.Contains(string(note), "\nready")
	})
	orderoncetest.Poll(t, "/readyz to be true again", func() bool {
		return d.acme.Status(t.Context(), "/readyz") == http.StatusOK
	})
	wantReplay(t, first, served(key))
	wantFirst(t, served(orderoncetest.NewKey()))
}

// The flag that shows what this service is for: the answer is lost after the commit, and the retry finds it.
func TestDevsDroppedResponsesAreCommitted(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	d := startDev(t, data, "--drop-responses=100%")
	key, body := orderoncetest.NewKey(), orderoncetest.Order(nil)
	for range 2 { // the retry is a changing request as well
		if a, err := d.acme.TryPlace(t.Context(), key, body); err == nil {
			t.Fatalf("an answer came: %d %s", a.Status, a.Body)
		}
	}
	if n := d.query(t, countOrders); n != 1 {
		t.Errorf("%d orders", n)
	}
	if status := d.acme.Status(t.Context(), "/orders"); status != http.StatusOK {
		t.Errorf("reading is answered with %d", status)
	}
	if !strings.Contains(d.Stdout.String(), "100% of the changing requests") {
		t.Error("nobody is told")
	}
	d.Signal(t, syscall.SIGTERM)
	if status := d.Wait(t); status != 0 {
		t.Errorf("status %d: %s", status, d.Stderr)
	}

	again := startDev(t, data)
	retried := again.acme.Place(t, key, body)
	if retried.Status != http.StatusCreated || !retried.Replayed() || retried.OrderID() == "" {
		t.Errorf("replayed=%v %d %s", retried.Replayed(), retried.Status, retried.Body)
	}
	if n := again.query(t, countOrders); n != 1 {
		t.Errorf("%d orders", n)
	}
}
