package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// patience is how long a child may take to end by itself once it was asked to.
const patience = 15 * time.Second

// command is a child that ends with ctx and with this process, by whatever way that ends. It has a process group of
// its own: a Ctrl-C at the terminal reaches this process alone, which then ends its children in their order.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	return cmd
}

// processor is the time that one process has had, and its ended and waited-for children.
type processor struct {
	parent        int
	own, children time.Duration
}

// tick is the unit of /proc's times, on every Linux that Go runs on.
const tick = time.Second / 100

func processorOf(pid int) (processor, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processor{}, err
	}
	// The name of the program is in brackets and may contain anything; fields are counted from behind it. proc(5)
	// numbers them from 1, with the name as 2.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	number := func(field int) (n int64) {
		if i := field - 3; i < len(fields) {
			n, _ = strconv.ParseInt(string(fields[i]), 10, 64)
		}
		return n
	}
	return processor{
		parent:   int(number(4)),
		own:      tick * time.Duration(number(14)+number(15)),
		children: tick * time.Duration(number(16)+number(17)),
	}, nil
}

// processorOfFamily is the time of a process and of all its children, those that have ended included. It is right
// for PostgreSQL, all of whose processes are children of the first.
func processorOfFamily(pid int) (time.Duration, error) {
	first, err := processorOf(pid)
	if err != nil {
		return 0, fmt.Errorf("processor time of %d: %w", pid, err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	sum := first.own + first.children
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if p, err := processorOf(child); err == nil && p.parent == pid {
			sum += p.own
		}
	}
	return sum, nil
}

// processorOfMachine is the time that all processors were busy, since the machine's start.
func processorOfMachine() (time.Duration, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	// cpu user nice system idle iowait irq softirq steal guest guest_nice; guests are part of user and nice
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	var busy time.Duration
	for i, field := range bytes.Fields(line) {
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read /proc/stat: %w", err)
		}
		busy += tick * time.Duration(n)
	}
	return busy, nil
}
