//go:build unix && !linux

package localpg

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// attributesFor makes a child run as the account, in a process group of its own so that a terminal's
// Ctrl-C reaches only the launcher. There is no death signal here.
func attributesFor(acct account, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: acct.credential, Setpgid: true}
}

func onOwnThread(f func() error) error { return f() }

// users returns the postmaster of the cluster, told by its command line.
func users(data string) ([]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ps", "-axww", "-o", "pid=,command=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	var pids []int
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasSuffix(fields[1], "postgres") || !strings.Contains(line, " -D "+data+" ") {
			continue
		}
		if pid, err := strconv.Atoi(fields[0]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// seesAllUsers is false: a backend that outlived its postmaster has another command line. PostgreSQL
// itself then refuses to start beside it.
const seesAllUsers = false
