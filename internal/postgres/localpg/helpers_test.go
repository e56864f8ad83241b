package localpg

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := MkdirTemp()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func start(t *testing.T, opts Options) *Server {
	t.Helper()
	server, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })
	return server
}

func stop(t *testing.T, server *Server) {
	t.Helper()
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, server *Server) {
	t.Helper()
	select {
	case <-server.Done():
	case <-time.After(time.Minute):
		t.Fatal("the server is not done")
	}
}

// launch starts a server from a process of its own.
func launch(t *testing.T, dir string) (*exec.Cmd, announcement) {
	t.Helper()
	launcher := exec.Command(os.Args[0]) //nolint:noctx // it lives until it is killed
	launcher.Env = append(os.Environ(), childEnv+"="+dir)
	launcher.Stderr = os.Stderr
	out, err := launcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = launcher.Process.Kill()
		_ = launcher.Wait()
		poll(t, "the launcher's PostgreSQL to end", func() bool {
			pids, err := users(filepath.Join(dir, "data"))
			return err == nil && len(pids) == 0
		})
	})
	var announced announcement
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &announced)
	}
	if err != nil {
		t.Fatalf("the launcher said %q: %v", line, err)
	}
	return launcher, announced
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// onlyPostmaster checks that no second PostgreSQL works on the server's files.
func onlyPostmaster(t *testing.T, server *Server) {
	t.Helper()
	pids, err := users(server.home.data())
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it has just ended
		}
		parent := fmt.Sprintf("PPid:\t%d\n", server.PID())
		if pid != server.PID() && !strings.Contains(string(stat), parent) {
			t.Errorf("pid %d works on the files but is not the server's", pid)
		}
	}
}

// connect tries until the server, which may just be starting again, lets it in.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	var conn *pgx.Conn
	poll(t, "a connection", func() (ok bool) {
		var err error
		conn, err = pgx.Connect(t.Context(), url)
		return err == nil
	})
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func addRow(t *testing.T, url string) {
	t.Helper()
	_, err := connect(t, url).Exec(t.Context(), "CREATE TABLE IF NOT EXISTS kept (n int); INSERT INTO kept VALUES (1)")
	if err != nil {
		t.Fatal(err)
	}
}

func countRows(t *testing.T, url string) (n int) {
	t.Helper()
	poll(t, "an answer", func() bool {
		return connect(t, url).QueryRow(t.Context(), "SELECT count(*) FROM kept").Scan(&n) == nil
	})
	return n
}

func poll(t *testing.T, what string, reached func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !reached() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
