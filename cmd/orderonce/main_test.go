package main

import (
	"fmt"
	"os"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := orderoncetest.RemoveBinaries(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run runs the command to its end, as a shell would.
func run(t *testing.T, env []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return orderoncetest.Run(t, orderoncetest.Command{Binary: orderoncetest.Binary(t), Args: args, Env: env})
}
