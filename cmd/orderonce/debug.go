package main

import (
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"

	"orderonce/internal/telemetry/tracepage"
)

// debugAddress refuses an address that others could reach: profiles show whatever passes through memory.
func debugAddress(address string) error {
	if address == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return errors.New("must be an address of loopback, such as 127.0.0.1:6060")
	}
	return nil
}

// profiles are net/http/pprof and nothing else.
func profiles() http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /debug/pprof/", pprof.Index)
	routes.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	routes.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return routes
}

// withTraces shows dev's traces beside the API, to whoever is on this machine: the pages ask for no credential.
func withTraces(api http.Handler, traces *tracepage.Store) http.Handler {
	pages := traces.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(host); strings.HasPrefix(r.URL.Path, tracepage.Path) && ip != nil && ip.IsLoopback() {
			pages.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}
