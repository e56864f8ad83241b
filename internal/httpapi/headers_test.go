package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// unprotected says what an answer lacks of the headers that all have. Every answer that a test gets is asked.
func unprotected(header http.Header) error {
	for name, want := range map[string]string{
		"Content-Security-Policy": contentPolicy, "Cross-Origin-Resource-Policy": "same-origin",
		"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
	} {
		if got := header.Values(name); len(got) != 1 || got[0] != want {
			return fmt.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := header.Values("Cache-Control"); len(got) != 1 || got[0] != "no-store" && got[0] != documentCache {
		return fmt.Errorf("Cache-Control is %q", got)
	}
	if got := header.Get("Strict-Transport-Security"); got != "" {
		return fmt.Errorf("Strict-Transport-Security over plain HTTP: %s", got)
	}
	return nil
}

// Whatever is answered, and to whom: nobody may keep it unless everybody may read it, and no browser makes more of it
// than it is.
func TestEveryAnswerIsProtected(t *testing.T) {
	t.Parallel()
	config := defaultConfig()
	config.MaxBody = 2000
	w := setupWith(t, config)
	check := func(what string, a answer, status int, cache string) {
		t.Helper()
		err := unprotected(a.header)
		if err != nil || a.status != status || a.header.Get("Cache-Control") != cache {
			t.Errorf("%s: %d, %s, %v; want %d, %s", what, a.status, a.header.Get("Cache-Control"), err, status, cache)
		}
	}
	documents := map[string]string{"getSpecification": documentCache, "getProblemType": documentCache, "getReference": documentCache}
	for o, address := range w.addresses() {
		cache := cmp.Or(documents[o.id], "no-store")
		a := w.ask(o, address)
		check(o.id, a, a.status, cache)
		check(o.id+" by another method", w.send("PROPFIND", address, nil), 405, "no-store")
		check(o.id+" with an unknown query", w.ask(o, address+"?unknown=1"), 400, "no-store")
		if o.scope != "" {
			check(o.id+" of a stranger", w.ask(o, address, as("x")), 401, "no-store")
		}
		if o.body != nil {
			bound := int(max(config.MaxBody, o.maxBody))
			large := w.send(o.route.Method, address, strings.NewReader(order(set("metadata", strings.Repeat("x", bound)))),
				as(w.tokenFor(o)), with("Content-Type", "application/json"), with(keyHeader, freshKey()))
			check(o.id+" with a large body", large, 413, "no-store")
		}
	}
	for path, status := range map[string]int{"/": 404, "/nowhere": 404, "//orders": 404, "/problems/no_such_code": 404, "/problems/%00": 400} {
		check(path, w.get(path), status, "no-store")
	}
	w.server.Drain()
	check("a process that drains", w.get("/readyz"), 503, "no-store")
	w.server.config.InFlight = 0
	check("a process under load", w.get("/orders"), 503, "no-store")
}

// The pages for people are shown as they are meant: their style is the one that the policy names, and they have nothing
// that it refuses.
func TestPagesKeepTheirStyle(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, path := range []string{"/problems/busy", "/docs"} {
		a := w.get(path)
		_, rest, _ := strings.Cut(string(a.body), "<style>")
		style, rest, _ := strings.Cut(rest, "</style>")
		if strings.TrimSpace(style) == "" || !strings.Contains(a.header.Get("Content-Security-Policy"), "style-src '"+hashOf(style)+"'") {
			t.Errorf("%s: the policy %s does not let the style be used: %q", path, a.header.Get("Content-Security-Policy"), style)
		}
		for _, source := range []string{"<style", "style=", "<script", "<img", "<link", "<iframe", "src=", "url(", "@import", "<form", "onclick"} {
			if strings.Contains(rest, source) || strings.Contains(style, source) {
				t.Errorf("%s has %s, which the policy refuses", path, source)
			}
		}
	}
}

// These headers belong to one response: what is stored is what the business said.
func TestProtectionIsNotStored(t *testing.T) {
	t.Parallel()
	config := defaultConfig()
	config.Origins = []string{shop}
	w := setupWith(t, config)
	key := freshKey()
	first := w.place(key, order(), with("Origin", shop))
	w.must(unprotected(first.header))
	var header string
	w.must(w.connect().QueryRow(t.Context(), `SELECT string_agg(name, ' ' ORDER BY name)
		FROM idempotency_requests, jsonb_object_keys(response_headers) AS name`).Scan(&header))
	if header != "Content-Type Etag Location" {
		t.Errorf("stored: %s", header)
	}
	replay := w.place(key, order())
	wantReplay(t, first, replay)
	w.must(unprotected(replay.header))
	if got := replay.header.Get(allowOrigin); got != "" {
		t.Errorf("the replay is shared with %s, who asked first", got)
	}
}
