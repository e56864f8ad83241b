package postgrestest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"orderonce/internal/postgres"
	"orderonce/internal/postgres/localpg"
	"orderonce/internal/postgres/postgrestest"
)

// childEnv tells TestInChild what to do in the test binaries that other tests here start.
const childEnv = "ORDERONCE_POSTGRESTEST_CHILD"

func TestMain(m *testing.M) { postgrestest.Main(m) }

func TestDatabasesAreMigratedAndApart(t *testing.T) {
	t.Parallel()
	first, second := postgrestest.URL(t), postgrestest.URL(t)
	for _, url := range []string{first, second} {
		state, err := postgres.MigrationStatus(t.Context(), url)
		if err != nil || state.Err() != nil {
			t.Errorf("%v %v, want the newest migration", err, state.Err())
		}
		// Both create the same table, so it is not one database.
		execute(t, url, "CREATE TABLE mine (n int)")
	}
	if state, err := postgres.MigrationStatus(t.Context(), postgrestest.EmptyURL(t)); err != nil || state.Version != 0 {
		t.Errorf("the empty database is at migration %d: %v", state.Version, err)
	}
}

func TestSessionsAreNotInUTC(t *testing.T) {
	t.Parallel()
	for _, url := range []string{postgrestest.URL(t), postgrestest.EmptyURL(t)} {
		if got := query(t, url, "SELECT current_setting('TimeZone')"); got != postgrestest.TimeZone {
			t.Errorf("time zone %s, want %s", got, postgrestest.TimeZone)
		}
	}
}

//nolint:tparallel // the subtest has to end before the rest of its parent goes on
func TestDatabaseIsDroppedAtTheEnd(t *testing.T) {
	t.Parallel()
	var left *pgx.Conn
	t.Run("test", func(t *testing.T) {
		var err error
		if left, err = pgx.Connect(t.Context(), postgrestest.URL(t)); err != nil {
			t.Fatal(err)
		}
	})
	defer left.Close(t.Context())
	if left.Ping(t.Context()) == nil {
		t.Error("a connection outlived its test's database")
	}
	again, err := pgx.ConnectConfig(t.Context(), left.Config())
	if err == nil {
		_ = again.Close(t.Context())
		t.Error("the database is still there")
	}
}

func TestPrivateServerIsDurable(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, localpg.Options{Restart: true})
	url := server.URL(localpg.Database)
	execute(t, url, "CREATE TABLE kept (n int)")
	if err := syscall.Kill(server.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	poll(t, "the server to be back", func() bool {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return false
		}
		_, err = conn.Exec(t.Context(), "SELECT n FROM kept")
		return conn.Close(t.Context()) == nil && err == nil
	})
}

// TestInChild is a test binary's test, run by the tests below.
func TestInChild(t *testing.T) {
	job := os.Getenv(childEnv)
	if job == "" {
		t.Skip("only for the tests below")
	}
	fmt.Printf("url %s\n", postgrestest.URL(t)) //nolint:forbidigo // read by the parent
	switch job {
	case "hang":
		_, _ = io.ReadAll(os.Stdin)
	case "leak":
		go func() { select {} }()
	}
}

func TestBinaryLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	child := child(t, "end")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp(child), "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestLeakedGoroutineFailsTheBinary(t *testing.T) {
	t.Parallel()
	out, err := child(t, "leak").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "tests passed, but left") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestKilledBinaryEndsItsServer(t *testing.T) {
	t.Parallel()
	child := child(t, "hang")
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	var url string
	for found := false; !found && lines.Scan(); {
		url, found = strings.CutPrefix(lines.Text(), "url ")
	}
	if _, err := pgx.ParseConfig(url); err != nil {
		t.Fatal(err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	poll(t, "the server to end", func() bool {
		conn, err := pgx.Connect(t.Context(), url)
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err != nil
	})
	// Its files are left, but the shutdown was a clean one.
	poll(t, "the shutdown to be complete", func() bool {
		pids, _ := filepath.Glob(filepath.Join(tmp(child), "*", "data", "postmaster.pid"))
		return len(pids) == 0
	})
}

// child is this test binary once more, to run TestInChild in a temporary directory of its own.
func child(t *testing.T, job string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestInChild$", "-test.v")
	cmd.Env = append(os.Environ(), postgrestest.ServerEnv+"=", childEnv+"="+job, "TMPDIR="+postgrestest.TempDir(t))
	return cmd
}

func tmp(cmd *exec.Cmd) string {
	_, dir, _ := strings.Cut(cmd.Env[len(cmd.Env)-1], "=")
	return dir
}

func execute(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func query(t *testing.T, url, statement string) (text string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), statement).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
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
