package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
)

func outboxCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "outbox", Short: "Look at the events that wait for their dispatch"}
	cmd.AddCommand(outboxListCommand())
	return cmd
}

func outboxListCommand() *cobra.Command {
	var l list
	cmd := &cobra.Command{
		Use: "list", Short: "List the events that will be dispatched first, and count those that wait", Args: cobra.NoArgs,
		Long: `List shows at most 20 events, and counts up to 10 000. Events that stay here have no worker (orderonce worker), or a
destination that cannot make its request of them, which the worker's log tells.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onDatabase(cmd, func(ctx context.Context, _ config, db *postgres.DB) error {
				var backlog outbox.Backlog
				err := db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
					backlog, err = outbox.ReadBacklog(ctx, db)
					return err
				})
				if err != nil {
					return err
				}
				var rows [][]string
				for _, e := range backlog.Oldest {
					rows = append(rows, []string{
						e.Tenant.String(), e.AggregateID.String(), strconv.FormatInt(e.Version, 10), e.Type,
						time.Since(e.OccurredAt).Round(time.Millisecond).String(),
					})
				}
				if l.output == "table" {
					fmt.Fprintf(cmd.OutOrStdout(), "%d events wait\n", backlog.Events)
				}
				return l.print(cmd, backlog, []string{"TENANT", "AGGREGATE", "VERSION", "TYPE", "AGE"}, rows)
			})
		},
	}
	addSettings(cmd, "database-url")
	l.flag(cmd)
	return cmd
}
