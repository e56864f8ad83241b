package localpg

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const tempPrefix = "orderonce-postgresql-"

// abandoned is the age from which an unlocked temporary directory is taken for that of a killed process. A
// test may stop its server and start it again, but not that much later.
const abandoned = time.Hour

// MkdirTemp makes a new directory that PostgreSQL's user can pass through, for a server that is not kept.
// The caller removes it after [Server.Stop]; what callers that were killed have left is removed here.
func MkdirTemp() (string, error) {
	for _, dir := range matches(os.TempDir(), tempPrefix+"*") {
		if isAbandoned(dir) {
			_ = os.RemoveAll(dir) // another user's stays
		}
	}
	dir, err := os.MkdirTemp("", tempPrefix)
	if err != nil || os.Geteuid() != 0 {
		return dir, err
	}
	return dir, os.Chmod(dir, 0o755) //nolint:gosec // as in mkdirAll
}

func isAbandoned(dir string) bool {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer lock.Close()
	// Each start writes to the lock.
	if info, err := lock.Stat(); err != nil || time.Since(info.ModTime()) < abandoned {
		return false
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false
	}
	pids, err := users(filepath.Join(real(dir), "data"))
	return err == nil && len(pids) == 0
}
