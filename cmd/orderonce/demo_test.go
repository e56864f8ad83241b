package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
)

const demoKey = "oo_live_demo"

// fromHere is a request as a browser of this machine sends it.
func fromHere(t *testing.T, method, path string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:50000", "localhost:8080"
	return r
}

func answerOf(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// The key is in one answer alone, which no other site can read; the page runs no script but its own.
func TestDemoPageHoldsNoKey(t *testing.T) {
	t.Parallel()
	handler := withDemo(http.NotFoundHandler(), demoKey)
	files, err := demoFiles.ReadDir("demo")
	must(t, err)
	paths := []string{"/demo"}
	for _, file := range files {
		if file.Name() != "index.html" {
			paths = append(paths, "/demo/"+file.Name())
		}
	}
	for _, path := range append(paths, "/demo/config.json") {
		w := answerOf(handler, fromHere(t, http.MethodGet, path))
		header := w.Header()
		if w.Code != http.StatusOK || header.Get("Content-Security-Policy") != demoPolicy || header.Get("Cache-Control") != "no-store" ||
			header.Get("Cross-Origin-Resource-Policy") != "same-origin" || header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %v", path, w.Code, header)
		}
		if has := strings.Contains(w.Body.String(), "oo_live_"); has != (path == "/demo/config.json") {
			t.Errorf("%s has the key: %v", path, has)
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			if w := answerOf(handler, fromHere(t, method, path)); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
	page := answerOf(handler, fromHere(t, http.MethodGet, "/demo")).Body.String()
	for _, refused := range []string{"<style", " style=", "<script>", " onclick=", "http://", "https://", `src="//`, `href="//`} {
		if strings.Contains(page, refused) {
			t.Errorf("the page has %s", refused)
		}
	}
	var config map[string]string
	must(t, json.Unmarshal(answerOf(handler, fromHere(t, http.MethodGet, "/demo/config.json")).Body.Bytes(), &config))
	if config["credential"] != demoKey {
		t.Errorf("the page is told %v", config)
	}
}

// Neither another machine nor a foreign site whose name leads here gets the page, its key, or its bad luck.
func TestDemoIsForThisMachine(t *testing.T) {
	t.Parallel()
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	handler := withDemo(next, demoKey)
	for _, from := range []struct {
		remote, host string
		here         bool
	}{
		{"127.0.0.1:50000", "127.0.0.1:8080", true},
		{"[::1]:50000", "[::1]:8080", true},
		{"[::ffff:127.0.0.1]:50000", "LOCALHOST", true},
		{"127.0.0.1:50000", "shop.example:8080", false},
		{"127.0.0.1:50000", "127.0.0.1.shop.example", false},
		{"127.0.0.1:50000", "", false},
		{"192.0.2.1:50000", "localhost:8080", false},
	} {
		for _, path := range []string{"/demo", "/demo/config.json"} {
			r := fromHere(t, http.MethodGet, path)
			r.RemoteAddr, r.Host = from.remote, from.host
			if w := answerOf(handler, r); (w.Code == http.StatusOK) != from.here || (w.Code == http.StatusTeapot) == from.here {
				t.Errorf("%+v: %s is %d", from, path, w.Code)
			}
		}
		if !from.here {
			r := fromHere(t, http.MethodPost, "/orders")
			r.RemoteAddr, r.Host = from.remote, from.host
			r.Header.Set(demoAnswer, "cut")
			if w := answerOf(handler, r); w.Code != http.StatusTeapot {
				t.Errorf("%+v: its answer is %d", from, w.Code)
			}
		}
	}
}

// An answer that is held back is whole when it comes, and nobody's once its client has gone.
func TestDemoHoldsAnAnswerUntilItsClientHasGone(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(done)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "order")
	})
	ctx, cancel := context.WithCancel(t.Context())
	r := fromHere(t, http.MethodPost, "/orders").WithContext(ctx)
	r.Header.Set(demoAnswer, "hold")
	ended := make(chan *httptest.ResponseRecorder)
	go func() { ended <- answerOf(withDemo(next, demoKey), r) }()
	<-done
	select {
	case <-ended:
		t.Error("it was not held back")
	default:
	}
	cancel()
	if w := <-ended; w.Code != http.StatusCreated || w.Body.String() != "order" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// The page is dev's alone, and what it asks to be cut is cut after the commit.
func TestDemoIsDevs(t *testing.T) {
	t.Parallel()
	d := startDev(t, dataDir(t))
	_, server := orderoncetest.StartServer(t, orderoncetest.Command{
		Binary: orderoncetest.Binary(t), Args: []string{"serve", "--drain-delay=0s"}, Env: []string{"ORDERONCE_DATABASE_URL=" + d.DatabaseURL},
	})
	serve := orderoncetest.NewClient(server.BaseURL, d.Keys["acme"])
	for _, path := range []string{"/demo", "/demo/config.json", "/demo/shop.js"} {
		if dev, other := d.acme.Status(t.Context(), path), serve.Status(t.Context(), path); dev != http.StatusOK || other != http.StatusNotFound {
			t.Errorf("%s: %d in dev, %d in serve", path, dev, other)
		}
	}
	if !strings.Contains(d.Stdout.String(), d.BaseURL+"/demo\n") {
		t.Errorf("the welcome does not name it:\n%s", d.Stdout)
	}

	key, body, header := orderoncetest.NewKey(), orderoncetest.Order(nil), http.Header{}
	header.Set(demoAnswer, "cut")
	header.Set("Idempotency-Key", key)
	header.Set("Content-Type", "application/json")
	if a, err := d.acme.Do(t.Context(), http.MethodPost, "orders", body, header); err == nil {
		t.Errorf("the answer came: %d", a.Status)
	}
	if n := d.query(t, countOrders); n != 1 {
		t.Errorf("%d orders after the answer was cut", n)
	}
	if a := d.acme.Place(t, key, body); !a.Replayed() {
		t.Errorf("the retry is no replay: %d %s", a.Status, a.Body)
	}
	if secret := []byte(d.Keys["acme"]); bytes.Contains([]byte(d.Stderr.String()), secret) {
		t.Error("the key is in the log")
	}
}
