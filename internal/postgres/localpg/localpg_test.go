package localpg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// childEnv makes this test binary a launcher that serves from the directory in it until it is killed.
const childEnv = "ORDERONCE_LOCALPG_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		launchUntilKilled(dir)
	}
	goleak.VerifyTestMain(m)
}

// announcement is what a launching child prints when its server is ready.
type announcement struct {
	PID int
	URL string
}

func launchUntilKilled(dir string) {
	server, err := Start(context.Background(), Options{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(announcement{server.PID(), server.URL(Database)}); err != nil {
		os.Exit(1)
	}
	select {}
}

func TestRowsSurviveStopAndStart(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)

	first := start(t, Options{Dir: dir})
	addRow(t, first.URL(Database))
	stop(t, first)
	if pids, _ := users(filepath.Join(dir, "data")); len(pids) > 0 {
		t.Fatalf("after Stop still runs: %v", pids)
	}

	second := start(t, Options{Dir: dir})
	if got := countRows(t, second.URL(Database)); got != 1 {
		t.Errorf("rows after a restart: %d, want 1", got)
	}
	if second.URL(Database) != first.URL(Database) {
		t.Errorf("the URL changed from %s to %s", first.URL(Database), second.URL(Database))
	}
}

func TestClusterIsDurableUTF8AndAsksForAPassword(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Dir: tempDir(t), Settings: map[string]string{"max_connections": "23"}})
	conn := connect(t, server.URL(Database))
	for setting, want := range map[string]string{ //nolint:gosec // settings
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "server_encoding": "UTF8",
		"lc_collate": "C", "max_connections": "23", "listen_addresses": "127.0.0.1", "TimeZone": "UTC",
		"unix_socket_directories": "", "password_encryption": "scram-sha-256",
	} {
		var got string
		err := conn.QueryRow(t.Context(), "SELECT coalesce(current_setting($1, true), "+
			"(SELECT datcollate FROM pg_database WHERE datname = current_database()))", setting).Scan(&got)
		if err != nil || got != want {
			t.Errorf("%s = %q (%v), want %q", setting, got, err, want)
		}
	}

	config := conn.Config().Copy()
	config.Password = "wrong"
	if intruder, err := pgx.ConnectConfig(t.Context(), config); err == nil {
		_ = intruder.Close(t.Context())
		t.Error("a wrong password was let in")
	}
	info, err := os.Stat(filepath.Join(server.Dir(), "password"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the password's file: %v %v, want 0600", info.Mode(), err)
	}
}

func TestStopThatIsOutOfTimeStillStops(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Dir: tempDir(t)})
	addRow(t, server.URL(Database))
	// A stopped checkpointer makes the fast shutdown wait for ever.
	var checkpointer int
	if err := connect(t, server.URL(Database)).QueryRow(t.Context(),
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'").Scan(&checkpointer); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(checkpointer, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
	again := start(t, Options{Dir: server.Dir()})
	if got := countRows(t, again.URL(Database)); got != 1 {
		t.Errorf("rows after an immediate shutdown: %d, want 1", got)
	}
}

func TestSecondLauncherIsRefused(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	launcher, announced := launch(t, dir)

	began := time.Now()
	server, err := Start(t.Context(), Options{Dir: dir})
	if err == nil {
		stop(t, server)
		t.Fatal("a second launcher was let in")
	}
	if want := "already in use by pid " + strconv.Itoa(launcher.Process.Pid); !strings.Contains(err.Error(), want) {
		t.Errorf("error %q, want it to say %q", err, want)
	}
	if took := time.Since(began); took > lockPatience+5*time.Second {
		t.Errorf("the refusal took %v", took)
	}
	addRow(t, announced.URL)
}

func TestOtherMajorVersionIsExplained(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "made by PostgreSQL 99") ||
		!strings.Contains(err.Error(), BinEnv) || !strings.Contains(err.Error(), "remove "+dir) {
		t.Errorf("error %v, want the version that made it and both remedies", err)
	}
}

func TestMissingBinariesNameTheCommand(t *testing.T) {
	t.Setenv(BinEnv, t.TempDir())
	_, err := Find(t.Context())
	if err == nil || !strings.Contains(err.Error(), "make postgres") {
		t.Errorf("error %v, want it to name make postgres", err)
	}
}

func TestStartCanBeGivenUp(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := Start(ctx, Options{Dir: dir})
		failed <- err
	}()
	poll(t, "initdb", func() bool {
		begun, _ := filepath.Glob(filepath.Join(dir, unfinished+"*"))
		return len(begun) == 1
	})
	cancel()
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("error %v, want that of the context", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, unfinished+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRootsClosedDirectoryIsExplained(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs PostgreSQL as somebody else")
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{Dir: filepath.Join(closed, "a", "b")})
	if err == nil || !strings.Contains(err.Error(), "may not pass through") {
		t.Errorf("error %v, want the directory named", err)
	}
	if made, _ := os.ReadDir(closed); len(made) > 0 {
		t.Errorf("made %v below a closed directory", made)
	}
}

func TestMkdirTempRemovesWhatKilledProcessesLeft(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	old := time.Now().Add(-2 * abandoned)
	left := make(map[string]string)
	for _, kind := range []string{"old", "old but locked", "new", "without a lock"} {
		dir, err := MkdirTemp()
		if err != nil {
			t.Fatal(err)
		}
		left[kind] = dir
		if kind == "without a lock" {
			continue
		}
		lock, err := takeLock(t.Context(), filepath.Join(dir, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
		if kind != "old but locked" {
			home{lock: lock}.unlock()
		}
	}
	for _, kind := range []string{"old", "old but locked"} {
		if err := os.Chtimes(filepath.Join(left[kind], "lock"), old, old); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := MkdirTemp(); err != nil {
		t.Fatal(err)
	}
	for kind, dir := range left {
		_, err := os.Stat(dir)
		if gone := errors.Is(err, fs.ErrNotExist); gone != (kind == "old") {
			t.Errorf("%s: removed %t", kind, gone)
		}
	}
}
