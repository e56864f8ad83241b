package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"orderonce/internal/load"
)

// server is orderonce serve, a process of its own on a database that it may share with others.
type server struct {
	*database
	stage   *stage
	name    string
	address string  // host:port
	debug   string  // base URL of its profiles; empty where it was not asked for them
	beside  *server // a worker that is measured with it; nil for none

	cmd   *exec.Cmd
	log   string
	ended chan struct{}
	err   error // of the end; written before ended is closed
}

// startPatience bounds the build of the binary, and again the start of the server.
const startPatience = 5 * time.Minute

// buildServer builds the command into a folder.
func buildServer(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "orderonce")
	_, err := output(ctx, "go", "build", "-o", binary, "orderonce/cmd/orderonce")
	return binary, err
}

// serve starts a server with further arguments beside those of the options.
func (s *stage) serve(ctx context.Context, d *database, name string, args ...string) (*server, error) {
	v := &server{
		database: d, stage: s, name: name, log: filepath.Join(s.cluster.dir, name+".log"), ended: make(chan struct{}),
	}
	arguments := append([]string{"serve", "--listen", "127.0.0.1:0"}, s.arguments()...)
	if err := v.start(ctx, append(arguments, args...)); err != nil {
		return nil, errors.Join(err, v.stop())
	}
	return v, nil
}

// work starts a worker.
func (s *stage) work(ctx context.Context, d *database, name string) (*server, error) {
	v := &server{
		database: d, stage: s, name: name, log: filepath.Join(s.cluster.dir, name+".log"), ended: make(chan struct{}),
	}
	if err := v.start(ctx, []string{"worker"}); err != nil {
		return nil, errors.Join(err, v.stop())
	}
	return v, nil
}

// processes are those whose processor time is the server's.
func (s *server) processes() []int {
	if s.beside == nil {
		return []int{s.cmd.Process.Pid}
	}
	return []int{s.cmd.Process.Pid, s.beside.cmd.Process.Pid}
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

// arguments are those that every server of the run gets.
func (s *stage) arguments() []string {
	if s.options.profile == "" && s.options.soak == 0 {
		return slices.Clone(s.options.serve)
	}
	return append([]string{"--debug-listen", "127.0.0.1:0"}, s.options.serve...)
}

func (s *server) start(ctx context.Context, args []string) error {
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close()
	note := filepath.Join(s.cluster.dir, s.name+".ready.json")
	if err := os.Remove(note); err != nil && !errors.Is(err, os.ErrNotExist) { // of an earlier one of this name
		return err
	}
	s.cmd = command(ctx, s.binary, append(args, "--database-url", s.url, "--ready-file", note)...)
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
		var ready struct {
			BaseURL  string `json:"base_url"`
			DebugURL string `json:"debug_url"`
		}
		text, err := os.ReadFile(note)
		if err != nil || json.Unmarshal(text, &ready) != nil {
			continue // not there yet, or not whole
		}
		if ready.BaseURL == "" { // a worker, which nobody asks
			return nil
		}
		target, err := load.ParseTarget(ready.BaseURL, "")
		if err != nil {
			return fmt.Errorf("the server's base_url: %w", err)
		}
		s.address, s.debug = target.Address, ready.DebugURL
		return nil
	}
}

// target is this server, for the tenant of a credential.
func (s *server) target(credential string) load.Target {
	return load.Target{Address: s.address, Host: s.address, Key: credential}
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
func (s *server) stop() error {
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
