// Command vectors lets each client prove the same behaviour: it runs the real server behind a proxy that loses, cuts,
// repeats and forges by a script, and judges what a client made of it. What is expected stands in vectors.json and
// nowhere else, so two clients cannot come to differ. README.md says how a client's test drives it.
//
// It plays a stranger's network: it shares no code with the server or with a client.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var b backend
	flag.StringVar(&b.URL, "server", "", "base URL of a running server; without it one is built, started and ended")
	flag.StringVar(&b.Keys.Shop, "shop-key", "", "API key of a tenant's principal with all scopes; needed with -server")
	flag.StringVar(&b.Keys.Operator, "operator-key", "", "API key that may not place orders; needed with -server")
	own := flag.Bool("stay", false, "stay when standard input ends, until a signal comes")
	flag.Parse()
	if !*own {
		// Whoever started us holds the other end: it is gone when this one ends, however it was killed.
		ctx = untilEOF(ctx, os.Stdin)
	}
	if err := run(ctx, b, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vectors:", err)
		os.Exit(1)
	}
}

// untilEOF is a context that ends with the reader.
func untilEOF(ctx context.Context, in io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in) // an error is an end too
	}()
	return ctx
}

// run serves sessions until ctx ends. Once it can, it writes one line of JSON: {"control_url": "http://127.0.0.1:…"}.
func run(ctx context.Context, b backend, out io.Writer) (err error) {
	vectors, err := readVectors()
	if err != nil {
		return err
	}
	if b.URL == "" {
		own, err := startServer(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, own.stop()) }()
		b = own.backend
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c := newControl(vectors, b)
	defer c.close()
	server := &http.Server{Handler: c.handler(), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if err := json.NewEncoder(out).Encode(map[string]string{"control_url": "http://" + listener.Addr().String()}); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		return server.Close()
	}
}
