package localpg

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// attributesFor makes a child run as the account, in a process group of its own so that a terminal's
// Ctrl-C reaches only the launcher, and get the signal when the launcher dies. To the kernel the launcher
// is the thread that forked: see onOwnThread.
func attributesFor(acct account, onLaunchersDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: acct.credential, Setpgid: true, Pdeathsig: onLaunchersDeath}
}

// onOwnThread runs f, which starts a child and waits for it, on a thread that lives until f returns. The
// runtime ends idle threads, and the child of an ended thread would get its death signal.
func onOwnThread(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return f()
}

// users returns the processes of PostgreSQL that work on the cluster. All of them, not only the postmaster,
// have the data directory as working directory; a mere process id in postmaster.pid may long be another's.
func users(data string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// An error means that the process has ended or is another user's, so it cannot be on our files.
		proc := filepath.Join("/proc", entry.Name())
		cwd, err := os.Readlink(filepath.Join(proc, "cwd"))
		if err != nil || cwd != data {
			continue
		}
		exe, err := os.Readlink(filepath.Join(proc, "exe"))
		if err != nil || !strings.Contains(filepath.Base(exe), "postgres") {
			continue
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// seesAllUsers says that users finds every process of the cluster, so that none found means none there.
const seesAllUsers = true
