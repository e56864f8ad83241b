package localpg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// home is the directory of one server; the package comment lists what is in it.
type home struct {
	dir  string // absolute, without symbolic links: /proc shows working directories that way
	lock *os.File
}

func (h home) data() string     { return filepath.Join(h.dir, "data") }
func (h home) password() string { return filepath.Join(h.dir, "password") }
func (h home) port() string     { return filepath.Join(h.dir, "port") }
func (h home) log() string      { return filepath.Join(h.dir, "postgresql.log") }
func (h home) pidFile() string  { return filepath.Join(h.data(), "postmaster.pid") }

// lockPatience is how long a launcher waits for a predecessor that is just ending.
const lockPatience = 2 * time.Second

// maxLog is the size above which a start puts the old log aside, in place of the one before.
const maxLog = 4 << 20

// ownRoot is the directory below which this product keeps what can be made again: as root a place that
// another user can pass through.
func ownRoot() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/orderonce", nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no directory of your own for postgresql: %w", err)
	}
	return filepath.Join(cache, "orderonce"), nil
}

// DefaultDir is where dev keeps its server: orderonce/dev in the user's cache directory, as root
// /var/lib/orderonce/dev. Nothing is created.
func DefaultDir() (string, error) {
	root, err := ownRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "dev"), nil
}

// matches lists the paths in dir that fit the pattern, which dir itself, being any name, is no part of.
func matches(dir, pattern string) []string {
	names, _ := fs.Glob(os.DirFS(dir), pattern) // the patterns are ours, so they are well formed
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	return names
}

// openHome makes dir if needed and takes its lock, so that everything after it may assume to be alone.
func openHome(ctx context.Context, dir string, acct account) (home, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return home{}, err
	}
	if _, err := os.Stat(filepath.Join(dir, "PG_VERSION")); err == nil {
		return home{}, fmt.Errorf("%s is itself a cluster of PostgreSQL: give the directory of a server, "+
			"which holds its cluster in data", dir)
	}
	if err := mkdirAll(dir, acct); err != nil {
		return home{}, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return home{}, err
	}
	if err := acct.reaches(dir); err != nil {
		return home{}, err
	}
	lock, err := takeLock(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return home{}, err
	}
	return home{dir: dir, lock: lock}, nil
}

// mkdirAll is os.MkdirAll, but what it makes can be passed through by the account whatever the umask, and
// it makes nothing below a directory that the account cannot pass.
func mkdirAll(dir string, acct account) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a directory", dir)
		}
		return acct.reaches(dir)
	}
	if err := mkdirAll(filepath.Dir(dir), acct); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if acct.credential == nil {
		return nil
	}
	return os.Chmod(dir, 0o755) //nolint:gosec // PostgreSQL's account passes through; its data below are 0700
}

// takeLock locks the file for as long as this process lives: the kernel lets go of it after a kill -9, so
// there is no stale lock. The file is never removed, or two launchers could hold two files of that name.
func takeLock(ctx context.Context, path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(lockPatience)
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			if err = errors.Join(file.Truncate(0), writeAt(file, strconv.Itoa(os.Getpid()))); err == nil {
				return file, nil
			}
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			break
		}
		if time.Now().After(deadline) {
			holder, _ := os.ReadFile(path)
			err = fmt.Errorf("%s is already in use by pid %s", filepath.Dir(path), holder)
			break
		}
		if err = pause(ctx, 20*time.Millisecond); err != nil {
			break
		}
	}
	return nil, errors.Join(fmt.Errorf("lock the directory of a local postgresql: %w", err), file.Close())
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

// unlock lets the next launcher in. Closing alone is not enough: a process that is being forked at this
// moment has a copy of the descriptor until its exec.
func (h home) unlock() {
	_ = syscall.Flock(int(h.lock.Fd()), syscall.LOCK_UN)
	_ = h.lock.Close()
}

// madeBy returns the major version that made the cluster, 0 if there is none yet.
func (h home) madeBy() (int, error) {
	version, err := os.ReadFile(filepath.Join(h.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(h.data()); err == nil {
			return 0, fmt.Errorf("%s is no cluster of PostgreSQL and in the way: remove it", h.data())
		}
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(version)))
	if err != nil {
		return 0, fmt.Errorf("version of the cluster in %s: %w", h.data(), err)
	}
	return major, nil
}

// ownerPassword returns the owner's password, made at the first call. It is written before the cluster
// that knows it, so that no crash leaves a cluster that nobody can enter.
func (h home) ownerPassword(acct account, newCluster bool) (string, error) {
	kept, err := os.ReadFile(h.password())
	if err == nil && len(kept) > 0 {
		return string(kept), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if !newCluster {
		return "", fmt.Errorf("%s is missing: put it back, or remove %s to start again without its data",
			h.password(), h.dir)
	}
	password := rand.Text()
	// initdb reads it as PostgreSQL's user, who owns the cluster anyway.
	if err := h.write(h.password(), password, acct); err != nil {
		return "", err
	}
	return password, nil
}

// write replaces a small file as a whole.
func (h home) write(path, text string, acct account) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
		return err
	}
	return errors.Join(acct.own(temp), os.Rename(temp, path))
}

// choosePort returns the port of the last start if it is free, so that URLs stay valid, else another one.
// It is only probably free: somebody may take it before PostgreSQL does.
func (h home) choosePort(ctx context.Context) (int, error) {
	if kept, err := os.ReadFile(h.port()); err == nil {
		if port, err := strconv.Atoi(string(kept)); err == nil && portFree(ctx, port) {
			return port, nil
		}
	}
	return freePort(ctx)
}

func freePort(ctx context.Context) (int, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("choose a port for postgresql: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func portFree(ctx context.Context, port int) bool {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// openLog opens the log for appending, as this process: PostgreSQL inherits it.
func (h home) openLog() (*os.File, error) {
	if info, err := os.Stat(h.log()); err == nil && info.Size() > maxLog {
		if err := os.Rename(h.log(), h.log()+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(h.log(), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
}

// pause waits, or returns ctx's error as soon as ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
