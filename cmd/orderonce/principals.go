package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

func principalsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "principals", Short: "Make, list, close and open a tenant's principals",
		Long: `A principal is a machine client or a user of a tenant. Its idempotency keys are its own: two principals may send the
same key and mean two intents. What its clients show, its API keys, may change; the principal stays.`,
	}
	cmd.AddCommand(
		principalsCreateCommand(), principalsListCommand(),
		principalsSetCommand("activate", "Let a principal's credentials count again", true),
		principalsSetCommand("deactivate", "Let none of a principal's credentials count any more", false),
	)
	return cmd
}

func principalsCreateCommand() *cobra.Command {
	var n named
	var made bool
	cmd := &cobra.Command{
		Use:     "create",
		Short:   "Make a principal that can hold API keys",
		Long:    `Create makes a principal of a tenant; one that is there already is found, and nothing changes.`,
		Example: `  orderonce principals create --tenant acme --principal checkout --reason "their new shop"`,
	}
	changing(cmd, func(ctx context.Context, tx *postgres.Tx, by identity.Change) error {
		tenant, err := n.findTenant(ctx, tx)
		if err != nil {
			return err
		}
		_, made, err = identity.CreatePrincipal(ctx, tx, by, tenant.ID, n.principal)
		return err
	}, func() { sayMade(cmd, "principal "+n.principal+" of "+n.tenant, made) })
	n.tenantFlag(cmd)
	n.principalFlag(cmd)
	return cmd
}

func principalsSetCommand(verb, short string, active bool) *cobra.Command {
	var n named
	cmd := &cobra.Command{
		Use:     verb,
		Short:   short,
		Long:    short + `: from the next request on every server.`,
		Example: `  orderonce principals ` + verb + ` --tenant acme --principal checkout --reason "ticket 17"`,
	}
	changing(cmd, func(ctx context.Context, tx *postgres.Tx, by identity.Change) error {
		principal, err := n.findPrincipal(ctx, tx)
		if err != nil {
			return err
		}
		_, err = identity.SetPrincipalActive(ctx, tx, by, principal.Tenant, principal.ID, active)
		return err
	}, func() {
		fmt.Fprintf(cmd.OutOrStdout(), "principal %s of %s is %s\n", n.principal, n.tenant, activity(active))
	})
	n.tenantFlag(cmd)
	n.principalFlag(cmd)
	return cmd
}

func principalsListCommand() *cobra.Command {
	var n named
	var l list
	cmd := &cobra.Command{
		Use: "list", Short: "List a tenant's principals, newest first", Args: cobra.NoArgs,
		Example: "  orderonce principals list --tenant acme --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onDatabase(cmd, func(ctx context.Context, _ config, db *postgres.DB) error {
				tenant, err := tenantNamed(ctx, db, n.tenant)
				if err != nil {
					return err
				}
				principals, err := principalsOf(ctx, db, tenant)
				if err != nil {
					return err
				}
				var rows [][]string
				for _, p := range principals {
					rows = append(rows, []string{nameOf(p), activity(p.Active), when(&p.CreatedAt), p.ID.String()})
				}
				return l.print(cmd, principals, []string{"PRINCIPAL", "STATE", "CREATED", "ID"}, rows)
			})
		},
	}
	addSettings(cmd, "database-url")
	n.tenantFlag(cmd)
	l.flag(cmd)
	return cmd
}

// nameOf is what people call a principal: its name, or its subject and who vouches for it.
func nameOf(p identity.PrincipalRecord) string {
	if p.Name != nil {
		return *p.Name
	}
	return *p.Subject + " at " + *p.Issuer
}

func tenantNamed(ctx context.Context, db *postgres.DB, name string) (tenant identity.Tenant, err error) {
	err = db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		tenant, err = identity.FindTenant(ctx, db, name)
		return err
	})
	return tenant, err
}

func principalsOf(ctx context.Context, db *postgres.DB, tenant identity.Tenant) ([]identity.PrincipalRecord, error) {
	return all(ctx, db, func(p identity.PrincipalRecord) uuid.UUID { return p.ID },
		func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]identity.PrincipalRecord, bool, error) {
			return identity.ListPrincipals(ctx, db, tenant.ID, before, pageSize)
		})
}
