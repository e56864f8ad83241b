package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// startPatience includes crash recovery, which reads all the log written since the last checkpoint.
	startPatience = 2 * time.Minute

	// A PostgreSQL that ended sooner than lasting after it was ready did not last. After the first such
	// end the next start waits firstDelay, then twice as long each time, and maxShortLives is the end of it.
	lasting       = time.Second
	firstDelay    = 100 * time.Millisecond
	maxShortLives = 6

	// In an immediate shutdown the postmaster itself kills, after five seconds, backends that do not react.
	fastShutdown      = 15 * time.Second
	immediateShutdown = 8 * time.Second
	backendsNotice    = time.Second
)

// harder are the signals that end PostgreSQL: fast shutdown, immediate shutdown, none at all.
var harder = []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL}

// patience is how long PostgreSQL may take to end after a signal before a harder one follows.
func patience(signal syscall.Signal) time.Duration {
	if signal == syscall.SIGINT {
		return fastShutdown
	}
	return immediateShutdown
}

var errStopped = errors.New("stopped")

// begin starts PostgreSQL and the goroutine that stays with it. After an error nothing runs.
func (s *Server) begin(ctx context.Context) error {
	s.stopping, s.hurry, s.done = make(chan struct{}), make(chan struct{}), make(chan struct{})
	started := make(chan error, 1)
	go func() {
		_ = onOwnThread(func() error { s.supervise(ctx, started); return nil })
	}()
	return <-started
}

// supervise is the only place that starts, signals and waits for PostgreSQL. It reports the first start,
// then stays until the end and lets go of the directory.
func (s *Server) supervise(ctx context.Context, started chan<- error) {
	p, err := s.launch(ctx)
	if err != nil {
		started <- err
		return
	}
	ctx = context.WithoutCancel(ctx)
	defer func() {
		s.pid.Store(0)
		if err := s.home.clear(ctx, s.log); err != nil && s.err == nil {
			s.err = err
		}
		s.home.unlock()
		close(s.done)
	}()
	started <- nil

	for shortLives := 0; ; {
		began := time.Now()
		if err == nil {
			err = s.attend(ctx, p)
		}
		switch {
		case errors.Is(err, errStopped):
			return
		case !s.restart:
			s.err = err
			return
		case p != nil && time.Since(began) >= lasting:
			shortLives = 0
		default:
			shortLives++
		}
		if shortLives >= maxShortLives {
			s.err = fmt.Errorf("gave up after %d starts that did not last, see %s: %w", shortLives, s.home.log(), err)
			return
		}
		s.log.WarnContext(ctx, "postgresql ended without being asked, starting it again",
			"dir", s.home.dir, "error", err)
		if shortLives > 0 {
			select {
			case <-s.stopping:
				return
			case <-time.After(firstDelay << (shortLives - 1)):
			}
		}
		if err = s.home.clear(ctx, s.log); err == nil {
			p, err = s.launch(ctx)
		}
	}
}

// process is a postmaster that was started. When ended is closed, err is what Wait said, never nil.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error
}

// launch starts PostgreSQL and waits until it is ready. After an error nothing of it runs.
func (s *Server) launch(ctx context.Context) (*process, error) {
	log, err := s.home.openLog()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	before := size(log)

	args := append([]string{"-D", s.home.data()}, s.settings...)
	args = append(args, "-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(s.port),
		"-c", "unix_socket_directories=")
	// The process outlives ctx, which ends with the start.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.bin.path("postgres"), args...)
	cmd.SysProcAttr = attributesFor(s.account, syscall.SIGINT)
	cmd.Dir, cmd.Env = s.home.dir, environment()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		if p.err = cmd.Wait(); p.err == nil {
			p.err = errors.New("exit status 0")
		}
	}()
	s.pid.Store(int64(cmd.Process.Pid))

	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, errors.New("not ready in time"))
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.ended:
			return nil, fmt.Errorf("postgresql ended before it was ready: %w: %s", p.err, tail(log, before))
		case <-s.stopping:
			return nil, s.end(ctx, p, syscall.SIGINT)
		case <-ctx.Done():
			if err := s.end(ctx, p, syscall.SIGQUIT); !errors.Is(err, errStopped) {
				return nil, err
			}
			return nil, fmt.Errorf("wait for postgresql: %w: %s", context.Cause(ctx), tail(log, before))
		case <-tick.C:
		}
		if s.home.ready(cmd.Process.Pid) {
			s.log.InfoContext(ctx, "postgresql is ready", "dir", s.home.dir, "version", s.bin.Major,
				"port", s.port, "pid", cmd.Process.Pid, "took", time.Since(began))
			return p, nil
		}
	}
}

// ready reads what the postmaster says of itself: its process id in line 1, its state in line 8.
func (h home) ready(pid int) bool {
	note, err := os.ReadFile(h.pidFile())
	if err != nil {
		return false
	}
	lines := strings.Split(string(note), "\n")
	return len(lines) >= 8 && lines[0] == strconv.Itoa(pid) && strings.HasPrefix(lines[7], "ready")
}

// attend waits for the end: errStopped if it was asked for, else what happened.
func (s *Server) attend(ctx context.Context, p *process) error {
	select {
	case <-p.ended:
		return fmt.Errorf("postgresql ended without being asked: %w", p.err)
	case <-s.stopping:
		return s.end(ctx, p, syscall.SIGINT)
	}
}

// end shuts PostgreSQL down, ever harder from the given signal on, and returns errStopped when it has ended.
func (s *Server) end(ctx context.Context, p *process, from syscall.Signal) error {
	hurry := s.hurry
	for _, signal := range harder[slices.Index(harder, from):] {
		if signal != syscall.SIGINT {
			s.log.WarnContext(ctx, "postgresql does not end by itself", "dir", s.home.dir, "signal", signal.String())
			hurry = nil
		}
		if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop postgresql with pid %d: %w", p.cmd.Process.Pid, err)
		}
		select {
		case <-p.ended:
			return errStopped
		case <-hurry:
		case <-time.After(patience(signal)):
		}
	}
	return fmt.Errorf("pid %d of postgresql cannot be ended", p.cmd.Process.Pid)
}
