package localpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clear ends every process of PostgreSQL that still works on the cluster: a postmaster whose launcher was
// killed, or backends whose postmaster was. The caller holds the lock, or it would end a live server.
func (h home) clear(ctx context.Context, log *slog.Logger) error {
	for _, signal := range harder {
		pids, err := users(h.data())
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return h.removeStalePID()
		}
		switch postmaster := h.postmaster(); {
		case signal == syscall.SIGKILL:
		case slices.Contains(pids, postmaster):
			pids = []int{postmaster} // it ends its backends itself, and takes their sudden end for a crash
		case signal == syscall.SIGINT:
			// Backends whose postmaster is gone end by themselves, unless they are busy computing.
			if err := h.awaitNoUsers(ctx, backendsNotice); err != nil {
				return err
			}
			continue
		}
		log.WarnContext(ctx, "ending a postgresql that nobody looks after",
			"dir", h.dir, "pids", pids, "signal", signal.String())
		for _, pid := range pids {
			if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("end the postgresql with pid %d that runs on %s: %w", pid, h.data(), err)
			}
		}
		if err := h.awaitNoUsers(ctx, patience(signal)); err != nil {
			return err
		}
	}
	pids, err := users(h.data())
	if err != nil {
		return err
	}
	if len(pids) > 0 {
		return fmt.Errorf("pids %v of postgresql run on %s and cannot be ended", pids, h.data())
	}
	return h.removeStalePID()
}

// postmaster returns the process that wrote the cluster's postmaster.pid, 0 if there is no such file.
func (h home) postmaster() int {
	note, err := os.ReadFile(h.pidFile())
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(note), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return pid
}

// awaitNoUsers waits until the cluster has no processes, or for the given time.
func (h home) awaitNoUsers(ctx context.Context, most time.Duration) error {
	for deadline := time.Now().Add(most); time.Now().Before(deadline); {
		pids, err := users(h.data())
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// removeStalePID removes the note of a postmaster that is gone. PostgreSQL does so itself unless the
// process id is in use again: then it refuses to start. The caller has shown that nothing works on the
// cluster; beside a living backend, removing the note would let a second postmaster destroy the data.
func (h home) removeStalePID() error {
	if !seesAllUsers {
		return nil
	}
	if err := os.Remove(h.pidFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
