package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"orderonce/internal/effects"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

func disagreementsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "disagreements",
		Short: "Look at what destinations say they did and the effects do not, or the other way round",
		Long: `Workers compare the effects with what each destination that can be asked lists. Nothing that this service does leads to a
disagreement: each one means that a promise was broken, here or there, and stays on the list until a person has dealt
with it and says how.`,
	}
	cmd.AddCommand(disagreementsListCommand(), disagreementsClearCommand())
	return cmd
}

func disagreementsListCommand() *cobra.Command {
	var destination string
	var l list
	cmd := &cobra.Command{
		Use: "list", Short: "List the disagreements with a destination that nobody has cleared, newest first", Args: cobra.NoArgs,
		Example: "  orderonce effects disagreements list --destination payment",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onDatabase(cmd, func(ctx context.Context, _ config, db *postgres.DB) error {
				found, err := all(ctx, db, func(d effects.Disagreement) uuid.UUID { return d.ID },
					func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]effects.Disagreement, bool, error) {
						return effects.Open(ctx, db, destination, before, pageSize)
					})
				if err != nil {
					return err
				}
				var rows [][]string
				for _, d := range found {
					rows = append(rows, []string{
						d.ID.String(), d.Tenant.String(), d.Order.String(), string(d.Kind), d.Operation, d.Key, when(&d.FoundAt), string(d.Details),
					})
				}
				return l.print(cmd, found, []string{"DISAGREEMENT", "TENANT", "ORDER", "KIND", "OPERATION", "KEY", "FOUND", "DETAILS"}, rows)
			})
		},
	}
	addSettings(cmd, "database-url")
	cmd.Flags().StringVar(&destination, "destination", "", "payment, inventory or notification")
	require(cmd, "destination")
	l.flag(cmd)
	return cmd
}

func disagreementsClearCommand() *cobra.Command {
	var tenant, id uuid.UUID
	var of string
	cmd := &cobra.Command{
		Use: "clear DISAGREEMENT", Short: "Say that a disagreement was dealt with, and how",
		Long:    "Clear takes it off the list; the reason says what was done about it. Said twice it is done once.",
		Example: `  orderonce effects disagreements clear 0193b1f0-0000-7000-8000-00000000000a --tenant-id … --reason "refunded by hand, ticket 17"`,
	}
	changing(cmd, func(ctx context.Context, tx *postgres.Tx, by identity.Change) error {
		_, err := effects.Clear(ctx, tx, by, tenant, id)
		return err
	}, func() { fmt.Fprintf(cmd.OutOrStdout(), "disagreement %s is cleared\n", id) })
	oneID(cmd, "a", "disagreement", &id)
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if tenant, err = uuid.Parse(of); err != nil {
			return fmt.Errorf("tenant-id: %q is no id of a tenant", of)
		}
		return nil
	}
	cmd.Flags().StringVar(&of, "tenant-id", uuid.Nil.String(), "id of the tenant, as list has it")
	return cmd
}
