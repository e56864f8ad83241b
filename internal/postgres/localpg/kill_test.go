package localpg

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestKilledPostgreSQLIsStartedAgain(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Dir: tempDir(t), Restart: true})
	addRow(t, server.URL(Database))

	killed := server.PID()
	kill(t, killed)
	if got := countRows(t, server.URL(Database)); got != 1 {
		t.Errorf("rows after kill -9: %d, want 1", got)
	}
	if pid := server.PID(); pid == killed || pid == 0 {
		t.Errorf("the server's pid is %d, killed was %d", pid, killed)
	}
	select {
	case <-server.Done():
		t.Errorf("the server is done: %v", server.Err())
	default:
	}
}

// A backend that is busy computing does not notice that its postmaster is gone, and PostgreSQL does not
// start beside it.
func TestBusyBackendOfAKilledPostgreSQLIsEnded(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Dir: tempDir(t), Restart: true})
	addRow(t, server.URL(Database))
	conn := connect(t, server.URL(Database))
	busy := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.WithoutCancel(t.Context()), "DO $$ BEGIN LOOP END LOOP; END $$")
		busy <- err
	}()
	poll(t, "a busy backend", func() bool {
		var n int
		err := connect(t, server.URL(Database)).QueryRow(t.Context(),
			"SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DO%' AND state = 'active'").Scan(&n)
		return err == nil && n == 1
	})

	kill(t, server.PID())
	if got := countRows(t, server.URL(Database)); got != 1 {
		t.Errorf("rows: %d, want 1", got)
	}
	if err := <-busy; err == nil {
		t.Error("the endless statement ended well")
	}
}

func TestUnsupervisedEndIsReported(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Dir: tempDir(t)})
	kill(t, server.PID())
	await(t, server)
	if err := server.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Err() = %v, want the signal named", err)
	}
	if err := server.Stop(t.Context()); err == nil {
		t.Error("Stop forgot the error")
	}
}

func TestRestartGivesUp(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Dir: tempDir(t), Restart: true})
	// PostgreSQL refuses this before it is ready, every time.
	conf := filepath.Join(server.Dir(), "data", "postgresql.conf")
	if err := os.WriteFile(conf, []byte("no_such_setting = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kill(t, server.PID())
	await(t, server)
	if err := server.Err(); err == nil || !strings.Contains(err.Error(), "gave up") ||
		!strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("Err() = %v, want that it gave up and why", err)
	}
}

func TestKilledLauncherLeavesNothingInTheWay(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	launcher, announced := launch(t, dir)
	addRow(t, announced.URL)

	kill(t, launcher.Process.Pid)
	server := start(t, Options{Dir: dir})
	if got := countRows(t, server.URL(Database)); got != 1 {
		t.Errorf("rows: %d, want 1", got)
	}
	if server.URL(Database) != announced.URL {
		t.Errorf("the URL changed from %s to %s", announced.URL, server.URL(Database))
	}
	onlyPostmaster(t, server)
}

// The kernel usually ends PostgreSQL with its launcher; this one has lost its launcher and lives.
func TestOrphanIsStoppedBeforeTheNewStart(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	first := start(t, Options{Dir: dir})
	stop(t, first)

	acct, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	orphan := exec.Command(first.bin.path("postgres"), "-D", first.home.data(), //nolint:noctx // see Cleanup
		"-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(first.port), "-c", "unix_socket_directories=")
	orphan.Dir = first.Dir()
	orphan.SysProcAttr = &syscall.SysProcAttr{Credential: acct.credential}
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = orphan.Process.Kill() })
	ended := make(chan error, 1)
	go func() { ended <- orphan.Wait() }()
	poll(t, "the orphan to be ready", func() bool { return first.home.ready(orphan.Process.Pid) })
	addRow(t, first.URL(Database))

	server := start(t, Options{Dir: dir})
	if err := <-ended; err != nil {
		t.Errorf("the orphan was not shut down cleanly: %v", err)
	}
	if got := countRows(t, server.URL(Database)); got != 1 {
		t.Errorf("rows: %d, want 1", got)
	}
	onlyPostmaster(t, server)
}

func TestStalePIDOfAnotherProgramIsNoObstacle(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Dir: tempDir(t)})
	note, err := os.ReadFile(server.home.pidFile())
	if err != nil {
		t.Fatal(err)
	}
	stop(t, server)
	_, rest, _ := strings.Cut(string(note), "\n")
	// The process id of the dead postmaster now belongs to a living program: this test's parent.
	if err := os.WriteFile(server.home.pidFile(), []byte(strconv.Itoa(os.Getppid())+"\n"+rest), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, Options{Dir: server.Dir()})
}

func TestKilledInitdbIsDoneAgain(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	launcher := exec.Command(os.Args[0]) //nolint:noctx // killed below
	launcher.Env = append(os.Environ(), childEnv+"="+dir)
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	poll(t, "initdb to be in the middle", func() bool {
		begun, _ := filepath.Glob(filepath.Join(dir, unfinished+"*", "PG_VERSION"))
		return len(begun) == 1
	})
	kill(t, launcher.Process.Pid)
	_ = launcher.Wait()
	if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
		t.Fatalf("initdb ended before the kill: %v", err)
	}

	server := start(t, Options{Dir: dir})
	addRow(t, server.URL(Database))
}
