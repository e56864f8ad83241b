// Command orderonce is the whole product in one binary: server, worker, migrations, keys, and a development mode that
// brings its own PostgreSQL. It is the only place that reads the environment, opens pools and listens.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for a graceful stop; with the handler gone, a second one ends the process.
	context.AfterFunc(ctx, stop)
	if err := root().ExecuteContext(ctx); err != nil {
		for _, one := range unjoin(err) {
			fmt.Fprintln(os.Stderr, "orderonce:", one)
		}
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "orderonce",
		Short: "An order service whose POST can be sent once or fifty times",
		Long: `OrderOnce places orders, exactly once per idempotency key: one order, one event and one answer, byte for byte.

Start with:

  orderonce dev        everything in one process, on an own PostgreSQL, with keys and a curl to paste

Every setting is a flag, an environment variable (--max-body is ORDERONCE_MAX_BODY) or a line of a YAML file
(--config); flags win over the environment, the environment over the file.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(devCommand(), serveCommand(), workerCommand(), sandboxCommand(), migrateCommand(), tenantsCommand(), principalsCommand(), keysCommand(),
		idempotencyCommand(), configCommand(), benchCommand(), versionCommand())
	return cmd
}

// unjoin lists the errors of an errors.Join one by one.
func unjoin(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}
