package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"orderonce/internal/postgres"
)

func migrateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Bring the database's schema to this binary's version"}
	var steps int
	down := migration("down", "Undo the newest migrations; their data is lost", func(ctx context.Context, url string) error {
		return postgres.MigrateDown(ctx, url, steps)
	})
	down.Flags().IntVar(&steps, "steps", 1, "how many")
	cmd.AddCommand(
		migration("up", "Apply what is missing", postgres.MigrateUp),
		down,
		migration("status", "Tell the schema's version", func(context.Context, string) error { return nil }),
	)
	return cmd
}

// migration is one verb; each ends with telling the version.
func migration(verb, short string, do func(ctx context.Context, url string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			if c.DatabaseURL == "" {
				return errors.New("database-url: must be set, as a flag or as ORDERONCE_DATABASE_URL")
			}
			if err := do(cmd.Context(), c.DatabaseURL); err != nil {
				return err
			}
			state, err := postgres.MigrationStatus(cmd.Context(), c.DatabaseURL)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), state)
			return nil
		},
	}
	addSettings(cmd, "database-url")
	return cmd
}
