package orderoncetest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func diesWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Postgres lists the processes of PostgreSQL that work in the directory of a server.
func Postgres(dir string) (pids []int) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	working, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range working {
		exe, _ := os.Readlink(filepath.Join(filepath.Dir(link), "exe"))
		if cwd, err := os.Readlink(link); err != nil || cwd != filepath.Join(dir, "data") || !strings.Contains(exe, "postgres") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
