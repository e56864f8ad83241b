package main

import (
	"embed"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// demoFiles is the shop page of dev. shop.js is clients/typescript/demo with the client in it; make gen writes it.
//
//go:embed demo
var demoFiles embed.FS

// demoPolicy lets the page run its own script and ask its own server, and nothing else.
const demoPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// demoAnswer is the header with which the page asks for bad luck: the answer to this request is cut after the commit,
// or held back for demoHold.
const demoAnswer = "Demo-Answer"

const demoHold = 8 * time.Second // the page's client waits longer, and so does the server's WriteTimeout

// withDemo serves the shop page at /demo and hands it the demo tenant's key. Only who sits at this machine gets either;
// for anyone else there is no such page.
func withDemo(next http.Handler, key string) http.Handler {
	page := http.NewServeMux()
	for path, file := range map[string]string{
		"/demo": "index.html", "/demo/style.css": "style.css", "/demo/shop.js": "shop.js", "/demo/icon.svg": "icon.svg",
	} {
		page.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, demoFiles, "demo/"+file)
		})
	}
	page.Handle("GET /demo/{$}", http.RedirectHandler("/demo", http.StatusPermanentRedirect))
	page.HandleFunc("GET /demo/config.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"credential": key}) // an error: nobody is there to get it
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !atThisMachine(r):
			next.ServeHTTP(w, r)
		case r.URL.Path == "/demo" || strings.HasPrefix(r.URL.Path, "/demo/"):
			header := w.Header()
			header.Set("Cache-Control", "no-store")
			header.Set("Content-Security-Policy", demoPolicy)
			header.Set("Cross-Origin-Opener-Policy", "same-origin")
			header.Set("Cross-Origin-Resource-Policy", "same-origin")
			header.Set("Referrer-Policy", "no-referrer")
			header.Set("X-Content-Type-Options", "nosniff")
			page.ServeHTTP(w, r)
		case r.Header.Get(demoAnswer) == "cut":
			cutAnswer(next, w, r)
		case r.Header.Get(demoAnswer) == "hold":
			next.ServeHTTP(&heldBack{ResponseWriter: w, gone: r.Context().Done()}, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// atThisMachine asks for the Host as well: a page of elsewhere whose name was made to point here (DNS rebinding) comes
// from this machine too.
func atThisMachine(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback() && isLoopback(r.Host)
}

// isLoopback is about a host, with a port or without.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// heldBack keeps an answer, whose work is committed by then, for a while or until its client has gone.
type heldBack struct {
	http.ResponseWriter
	gone <-chan struct{}
	once bool
}

// WriteHeader waits first.
func (h *heldBack) WriteHeader(status int) {
	if !h.once {
		h.once = true
		hold := time.NewTimer(demoHold)
		defer hold.Stop()
		select {
		case <-hold.C:
		case <-h.gone:
		}
	}
	h.ResponseWriter.WriteHeader(status)
}

// Unwrap lets the body's read deadline be set.
func (h *heldBack) Unwrap() http.ResponseWriter { return h.ResponseWriter }
