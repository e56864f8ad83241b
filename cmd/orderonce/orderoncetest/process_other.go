//go:build !linux

package orderoncetest

import "syscall"

// Elsewhere a process of a killed test binary runs on; the suites themselves want Linux and its /proc.
func diesWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Postgres finds nothing here.
func Postgres(string) []int { return nil }
