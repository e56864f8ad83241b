package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

func tenantsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "tenants", Short: "Make, list, close and open tenants"}
	cmd.AddCommand(
		tenantsCreateCommand(), tenantsListCommand(),
		tenantsSetCommand("activate", "Let a tenant's credentials count again", true),
		tenantsSetCommand("deactivate", "Let none of a tenant's credentials count any more", false),
	)
	return cmd
}

func tenantsCreateCommand() *cobra.Command {
	var n named
	var operator, made bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a tenant",
		Long: `Create makes a tenant; one that is there already is found, and nothing changes. Principals of an operators' tenant
(--operator) may hold keys with the scopes ops:read and ops:write, which reach every tenant. It stays what it was made.`,
		Example: `  orderonce tenants create --tenant acme --reason "contract 4711"
  orderonce tenants create --tenant operations --operator --reason "our own people"`,
	}
	changing(cmd, func(ctx context.Context, tx *postgres.Tx, by identity.Change) (err error) {
		_, made, err = identity.CreateTenant(ctx, tx, by, n.tenant, operator)
		return err
	}, func() { sayMade(cmd, "tenant "+n.tenant, made) })
	n.tenantFlag(cmd)
	cmd.Flags().BoolVar(&operator, "operator", false, "an operators' tenant")
	return cmd
}

func sayMade(cmd *cobra.Command, what string, made bool) {
	if made {
		fmt.Fprintln(cmd.OutOrStdout(), "made", what)
	} else {
		fmt.Fprintln(cmd.OutOrStdout(), what, "is there already")
	}
}

func tenantsSetCommand(verb, short string, active bool) *cobra.Command {
	var n named
	cmd := &cobra.Command{
		Use:   verb,
		Short: short,
		Long:  short + `: from the next request on every server. Nothing of the tenant's is lost.`,
		Example: `  orderonce tenants ` + verb + ` --tenant acme --reason "ticket 17"
`,
	}
	changing(cmd, func(ctx context.Context, tx *postgres.Tx, by identity.Change) error {
		tenant, err := n.findTenant(ctx, tx)
		if err != nil {
			return err
		}
		_, err = identity.SetTenantActive(ctx, tx, by, tenant.ID, active)
		return err
	}, func() { fmt.Fprintf(cmd.OutOrStdout(), "tenant %s is %s\n", n.tenant, activity(active)) })
	n.tenantFlag(cmd)
	return cmd
}

func tenantsListCommand() *cobra.Command {
	var l list
	cmd := &cobra.Command{
		Use: "list", Short: "List the tenants, newest first", Args: cobra.NoArgs,
		Example: "  orderonce tenants list --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onDatabase(cmd, func(ctx context.Context, _ config, db *postgres.DB) error {
				tenants, err := all(ctx, db, func(t identity.Tenant) uuid.UUID { return t.ID },
					func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]identity.Tenant, bool, error) {
						return identity.ListTenants(ctx, db, before, pageSize)
					})
				if err != nil {
					return err
				}
				var rows [][]string
				for _, t := range tenants {
					rows = append(rows, []string{t.Name, activity(t.Active), strconv.FormatBool(t.Operator), when(&t.CreatedAt), t.ID.String()})
				}
				return l.print(cmd, tenants, []string{"TENANT", "STATE", "OPERATOR", "CREATED", "ID"}, rows)
			})
		},
	}
	addSettings(cmd, "database-url")
	l.flag(cmd)
	return cmd
}
