//go:build !linux

package main

import "syscall"

// Elsewhere the server outlives us when we are killed.
func diesWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
