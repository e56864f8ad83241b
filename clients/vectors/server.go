package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// backend is the real server.
type backend struct {
	URL  string
	Keys keys
}

// keys are the credentials that a vector can name.
type keys struct {
	Shop     string `json:"shop"`
	Operator string `json:"operator"` // known, and may not place orders
	Stranger string `json:"stranger"` // unknown
}

// ownServer is `orderonce dev` with a database that is gone afterwards.
type ownServer struct {
	backend
	dir   string
	cmd   *exec.Cmd
	ended chan error
	said  bytes.Buffer // read it after ended
}

// startServer builds the command of the module that the working directory belongs to, and waits until it is ready.
func startServer(ctx context.Context) (*ownServer, error) {
	dir, err := os.MkdirTemp("", "orderonce-vectors-")
	if err != nil {
		return nil, err
	}
	s := &ownServer{dir: dir, ended: make(chan error, 1)}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *ownServer) start(ctx context.Context) error {
	// As root PostgreSQL runs as another user, who has to pass through.
	if err := os.Chmod(s.dir, 0o755); err != nil {
		return err
	}
	binary := filepath.Join(s.dir, "orderonce")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", binary, "orderonce/cmd/orderonce")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the server: %w\n%s", err, out)
	}
	file := filepath.Join(s.dir, "ready.json")
	//nolint:noctx // stop ends it: a context would send a second signal, which ends it without its manners
	s.cmd = exec.Command(binary, "dev", "--listen=127.0.0.1:0",
		"--data="+filepath.Join(s.dir, "postgresql"), "--ready-file="+file)
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	s.cmd.SysProcAttr = diesWithUs()
	started := make(chan error)
	go func() {
		// To the kernel the parent is this thread, and the runtime ends idle threads.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			s.ended <- s.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	if err := s.wait(ctx, file); err != nil {
		return errors.Join(err, s.stop())
	}
	return nil
}

func (s *ownServer) wait(ctx context.Context, file string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-s.ended:
			s.ended <- err // for stop
			return fmt.Errorf("the server ended before it was ready: %w\n%s", err, s.said.Bytes())
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		var ready struct {
			BaseURL string            `json:"base_url"`
			Keys    map[string]string `json:"keys"`
		}
		if err := errors.Join(err, json.Unmarshal(text, &ready)); err != nil {
			return err
		}
		s.backend = backend{ready.BaseURL, keys{Shop: ready.Keys["acme"], Operator: ready.Keys["ops"]}}
		return nil
	}
}

// stop ends the server and removes its data.
func (s *ownServer) stop() error {
	err := s.cmd.Process.Signal(syscall.SIGINT)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	var exit *exec.ExitError
	if ended := <-s.ended; ended != nil && !errors.As(ended, &exit) {
		err = errors.Join(err, ended)
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
