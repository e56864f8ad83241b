package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
)

func idempotencyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "idempotency", Short: "Look at and after the idempotency records"}
	cmd.AddCommand(showKeyCommand(), purgeCommand())
	return cmd
}

func purgeCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "purge",
		Short: "Remove the records that have outlived their retention",
		Long: `Purge removes what every server removes by itself, now: the records past their published retention, oldest
first, in small transactions with pauses between. It may run beside servers and beside itself. Orders, events and
the permanent identities (checkout_id, client_order_id) stay.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onDatabase(cmd, func(ctx context.Context, c config, db *postgres.DB) error {
				purger := idempotency.NewPurger(db, newLogger(cmd, c))
				if dryRun {
					rows, oldest, err := purger.Overdue(ctx)
					if err == nil {
						fmt.Fprintf(cmd.OutOrStdout(), "%d overdue, the oldest for %s; nothing removed\n", rows, oldest.Round(time.Second))
					}
					return err
				}
				done, err := purger.Purge(ctx)
				fmt.Fprintf(cmd.OutOrStdout(), "%d removed, the oldest overdue for %s, %s at work\n",
					done.Rows, done.Oldest.Round(time.Second), done.Took.Round(time.Millisecond))
				return err
			})
		},
	}
	addSettings(cmd, "database-url", "log-level")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only count them, up to a million")
	return cmd
}
