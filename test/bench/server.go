package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is orderonce serve, a process of its own with a database of its own.
type server struct {
	cluster    *cluster
	options    options
	db         *pgx.Conn
	binary     string
	url        string // of its database
	address    string // host:port
	credential string

	cmd   *exec.Cmd
	log   string
	ended chan struct{}
	err   error // of the end; written before ended is closed
}

// startPatience bounds the build of the binary, and again the start of the server.
const startPatience = 5 * time.Minute

func startServer(ctx context.Context, c *cluster, opts options) (_ *server, err error) {
	s := &server{cluster: c, options: opts, binary: opts.binary, log: filepath.Join(c.dir, "server.log"), ended: make(chan struct{})}
	url, err := c.newDatabase(ctx, "server")
	if err != nil {
		return nil, err
	}
	s.url = url
	if s.binary == "" {
		s.binary = filepath.Join(c.dir, "orderonce")
		if _, err := output(ctx, "go", "build", "-o", s.binary, "orderonce/cmd/orderonce"); err != nil {
			return nil, err
		}
	}
	if _, err := output(ctx, s.binary, "migrate", "up", "--database-url", url); err != nil {
		return nil, err
	}
	key, err := output(ctx, s.binary, "keys", "create", "--tenant", "bench", "--principal", "bench",
		"--scopes", "orders:create,orders:read", "--database-url", url)
	if err != nil {
		return nil, err
	}
	s.credential = strings.TrimSpace(key)
	if s.db, err = pgx.Connect(ctx, url); err != nil {
		return nil, err
	}
	if err := s.serve(ctx, s.binary, url); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

// output runs a command to its end and returns what it printed.
func output(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	cmd := command(ctx, program, args...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(program), args[0], err, strings.TrimSpace(complaints.String()))
	}
	return string(out), nil
}

func (s *server) serve(ctx context.Context, binary, databaseURL string) error {
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close()
	ready := filepath.Join(s.cluster.dir, "ready.json")
	args := []string{"serve", "--database-url", databaseURL, "--listen", "127.0.0.1:0", "--ready-file", ready}
	s.cmd = command(ctx, binary, append(args, s.options.serve...)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	go func() {
		defer close(s.ended)
		s.err = s.cmd.Wait()
	}()

	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			return fmt.Errorf("the server ended before it was ready: %w", s.complaint(s.err))
		case <-ctx.Done():
			return fmt.Errorf("wait for the server: %w", s.complaint(ctx.Err()))
		case <-tick.C:
		}
		var note struct {
			BaseURL string `json:"base_url"`
		}
		text, err := os.ReadFile(ready)
		if err != nil || json.Unmarshal(text, &note) != nil {
			continue // not there yet, or not whole
		}
		base, err := url.Parse(note.BaseURL)
		if err != nil {
			return fmt.Errorf("the server's base_url: %w", err)
		}
		s.address = base.Host
		return nil
	}
}

// complaint adds the last that the server said to an error.
func (s *server) complaint(err error) error {
	const most = 2000
	text, _ := os.ReadFile(s.log)
	text = text[max(0, len(text)-most):]
	if len(text) == 0 {
		return err
	}
	return fmt.Errorf("%w; its log ends: %s", err, strings.TrimSpace(string(text)))
}

// stop ends the server; that it had ended before is an error.
func (s *server) stop(ctx context.Context) error {
	_ = s.db.Close(context.WithoutCancel(ctx))
	if s.cmd == nil || s.cmd.Process == nil {
		return nil
	}
	select {
	case <-s.ended:
		return fmt.Errorf("the server ended by itself: %w", s.complaint(s.err))
	default:
	}
	_ = s.cmd.Cancel() // one that ends at this moment needs no signal
	select {
	case <-s.ended:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	return nil
}

func (s *server) empty(ctx context.Context) error {
	_, err := s.db.Exec(ctx, "TRUNCATE idempotency_requests, orders, outbox_events CASCADE")
	return err
}

func (s *server) rows(ctx context.Context) (rows, error) { return countRows(ctx, s.db, "public") }
