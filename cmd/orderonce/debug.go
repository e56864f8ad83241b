package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
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

// debugger serves net/http/pprof and nothing else, apart from the API's listener.
type debugger struct {
	url    string
	server *http.Server
	served chan error
}

// listenDebug returns nil where the address is empty.
func listenDebug(ctx context.Context, address string) (*debugger, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // there is none to have
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("debug-listen: %w", err)
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /debug/pprof/", pprof.Index)
	routes.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	routes.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	d := &debugger{
		url:    "http://" + listener.Addr().String(),
		server: &http.Server{Handler: routes, ReadHeaderTimeout: 5 * time.Second},
		served: make(chan error, 1),
	}
	go func() { d.served <- d.server.Serve(listener) }()
	return d, nil
}

// close ends it at once: whoever is profiling a server that ends has no use for the rest.
func (d *debugger) close() error {
	if d == nil {
		return nil
	}
	return errors.Join(d.server.Close(), ignoreClosed(<-d.served))
}

// address is where it listens; empty where it does not.
func (d *debugger) address() string {
	if d == nil {
		return ""
	}
	return d.url
}
