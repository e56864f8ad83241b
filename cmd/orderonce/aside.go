package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// aside is a listener apart from the API's, for whoever looks after the process.
type aside struct {
	url    string
	server *http.Server
	served chan error
}

// listenAside returns nil where the address is empty. setting is what the address was given as.
func listenAside(ctx context.Context, setting, address string, handler http.Handler) (*aside, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // there is none to have
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	a := &aside{
		url:    "http://" + listener.Addr().String(),
		server: &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute},
		served: make(chan error, 1),
	}
	go func() { a.served <- a.server.Serve(listener) }()
	return a, nil
}

// close ends it at once: whoever is looking at a server that ends has no use for the rest.
func (a *aside) close() error {
	if a == nil {
		return nil
	}
	return errors.Join(a.server.Close(), ignoreClosed(<-a.served))
}

// path is the URL of a path on it; empty where it does not listen.
func (a *aside) path(path string) string {
	if a == nil {
		return ""
	}
	return a.url + path
}
