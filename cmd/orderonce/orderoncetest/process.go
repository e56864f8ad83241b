package orderoncetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must come. It is no measure of anything: a machine under load is slow.
const patience = time.Minute

// Command is how one process is started.
type Command struct {
	Binary string
	Args   []string
	Env    []string // beside the tester's own, of which nothing that begins with ORDERONCE_ is kept
}

// Process is a running command.
type Process struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	err    error // of Wait; read it after ended is closed
	Stdout *Output
	Stderr *Output
}

// Start starts the command. The process ends with the test.
func Start(tb testing.TB, c Command) *Process {
	tb.Helper()
	p := &Process{ended: make(chan struct{}), Stdout: &Output{}, Stderr: &Output{}}
	p.cmd = exec.Command(c.Binary, c.Args...) //nolint:noctx // the test ends it, and not by a context
	p.cmd.Env = append(withoutOwn(os.Environ()), c.Env...)
	p.cmd.Stdout, p.cmd.Stderr = p.Stdout, p.Stderr
	p.cmd.SysProcAttr = diesWithUs()
	started := make(chan error)
	go func() {
		defer close(p.ended)
		// To the kernel the parent is this thread, and the runtime ends idle threads.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Logf("orderonce %s, pid %d, said last:\n%s%s", c.Args[0], p.PID(), p.Stdout.tail(), p.Stderr.tail())
		}
	})
	return p
}

func withoutOwn(environment []string) (kept []string) {
	for _, one := range environment {
		if !strings.HasPrefix(one, "ORDERONCE_") {
			kept = append(kept, one)
		}
	}
	return kept
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends one to the process, which may have ended already.
func (p *Process) Signal(tb testing.TB, signal syscall.Signal) {
	tb.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Fatal(err)
	}
}

// Kill is kill -9. It returns when the process is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // only a process that has ended refuses
	<-p.ended
}

// Ended is closed at the process's end.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait returns the process's exit status, or -1 where a signal ended it.
func (p *Process) Wait(tb testing.TB) int {
	tb.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		tb.Fatal("the process does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// Run runs the command to its end.
func Run(tb testing.TB, c Command) (status int, stdout, stderr string) {
	tb.Helper()
	p := Start(tb, c)
	status = p.Wait(tb)
	return status, p.Stdout.String(), p.Stderr.String()
}

// Ready is what a server's ready-file says.
type Ready struct {
	BaseURL     string            `json:"base_url"`
	SandboxURL  string            `json:"sandbox_url"`
	DatabaseURL string            `json:"database_url"`
	MetricsURL  string            `json:"metrics_url"`
	DebugURL    string            `json:"debug_url"`
	PIDs        map[string]int    `json:"pids"`
	Keys        map[string]string `json:"keys"`
}

// StartServer starts a command that answers requests, and waits until it does. It listens on a free port of loopback
// unless the arguments say otherwise.
func StartServer(tb testing.TB, c Command) (*Process, Ready) {
	tb.Helper()
	p, ready, err := TryServer(tb, c)
	if err != nil {
		tb.Fatal(err)
	}
	return p, ready
}

// TryServer is StartServer for a server that may find no database.
func TryServer(tb testing.TB, c Command) (*Process, Ready, error) {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "ready.json")
	c.Args = append([]string{c.Args[0], "--listen=127.0.0.1:0", "--ready-file=" + file}, c.Args[1:]...)
	p := Start(tb, c)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		var ready Ready
		text, err := os.ReadFile(file)
		if err == nil {
			return p, ready, json.Unmarshal(text, &ready)
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return p, ready, fmt.Errorf("the server ended before it was ready: %w", p.err)
		case <-late:
			return p, ready, errors.New("the server is not ready in time")
		}
	}
}

// Poll waits until reached is true, and fails the test when that takes far too long.
func Poll(tb testing.TB, what string, reached func() bool) {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !reached() {
		select {
		case <-tick.C:
		case <-late:
			tb.Fatalf("waited in vain for %s", what)
		}
	}
}

// Output is what a process has said so far.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// tail is the end of it: of a server that was killed, that is the part to look at.
func (o *Output) tail() string {
	text := o.String()
	return text[max(0, len(text)-2048):]
}
