//go:build unix && !linux

package main

import (
	"context"
	"os/exec"
	"syscall"
	"time"
)

// patience is how long a child may take to end by itself once it was asked to.
const patience = 15 * time.Second

// command is a child that ends with ctx. Where this process is killed, it stays.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	return cmd
}

// Without /proc nothing is known of processor time, and its figures stay empty.

func processorOfFamily(int) (time.Duration, error) { return 0, nil }

func processorOfMachine() (time.Duration, error) { return 0, nil }
