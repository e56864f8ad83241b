package main

import "syscall"

// A signal to our process group is ours to hand on; a kill that we do not see ends the server all the same.
func diesWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT}
}
