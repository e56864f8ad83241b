package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

func keysCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "keys", Short: "Give principals API keys"}
	cmd.AddCommand(keysCreateCommand())
	return cmd
}

func keysCreateCommand() *cobra.Command {
	var tenant, principal string
	var scopes []string
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Mint an API key and print it, once",
		Long: `Create mints one more API key for a principal and prints it alone on standard output; only its hash is stored.
The tenant and the principal are made where they are missing. A principal may hold several live keys: mint the new
one, move the client to it, and its idempotency keys keep their meaning.`,
		Example: "  orderonce keys create --tenant acme --principal checkout --scopes orders:create,orders:read",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			db, err := openWorkers(cmd.Context(), c)
			if err != nil {
				return err
			}
			defer db.Close()
			var expiry time.Time
			if expires > 0 {
				expiry = time.Now().Add(expires)
			}
			key, _, err := mintKey(cmd.Context(), db, tenant, principal, scopes, expiry)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), key)
			return nil
		},
	}
	addSettings(cmd, "database-url")
	flags := cmd.Flags()
	flags.StringVar(&tenant, "tenant", "", "name of the tenant: a-z 0-9 -")
	flags.StringVar(&principal, "principal", "", "name of the principal: a-z 0-9 -")
	flags.StringSliceVar(&scopes, "scopes", identity.Scopes(), "what the key allows")
	flags.DurationVar(&expires, "expires", 0, "lifetime of the key (default: no end)")
	_ = cmd.MarkFlagRequired("tenant") // fails only for a flag that does not exist
	_ = cmd.MarkFlagRequired("principal")
	return cmd
}

// adminLockTimeout is how long an operator's command waits for a row.
const adminLockTimeout = 2 * time.Second

func mintKey(ctx context.Context, db *postgres.DB, tenant, principal string, scopes []string, expiry time.Time) (key string, tenantID uuid.UUID, err error) {
	err = db.InTx(ctx, postgres.Unit{LockTimeout: adminLockTimeout}, func(ctx context.Context, tx *postgres.Tx) error {
		if tenantID, err = identity.PutTenant(ctx, tx, tenant); err != nil {
			return err
		}
		principalID, err := identity.PutPrincipal(ctx, tx, tenantID, principal)
		if err != nil {
			return err
		}
		key, err = identity.MintKey(ctx, tx, tenantID, principalID, scopes, expiry)
		return err
	})
	return key, tenantID, err
}
