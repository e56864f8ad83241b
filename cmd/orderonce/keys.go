package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

func keysCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "keys", Short: "Make, list, rotate and revoke API keys"}
	cmd.AddCommand(keysCreateCommand(), keysListCommand(), keysRotateCommand(), keysRevokeCommand())
	return cmd
}

// keyFlags are the flags of a verb that prints a new key.
type keyFlags struct {
	named
	name    string
	expires time.Duration
	key     identity.APIKey
	text    string
}

func (f *keyFlags) nameFlag(cmd *cobra.Command, help string) {
	cmd.Flags().StringVar(&f.name, "name", "", help)
	require(cmd, "name")
}

func (f *keyFlags) expiresFlag(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.expires, "expires", 0, "lifetime of the new key (default: no end)")
}

func (f *keyFlags) expiry() *time.Time {
	if f.expires == 0 {
		return nil
	}
	at := time.Now().Add(f.expires)
	return &at
}

// found is the error of a key that is there already: without its text there is nothing to print.
func (f *keyFlags) found() error {
	if f.text != "" {
		return nil
	}
	return fmt.Errorf("there is a key %s already, and its secret was shown when it was made: revoke it if that is lost, "+
		"and give the new one another name", f.key.Name)
}

func keysCreateCommand() *cobra.Command {
	var f keyFlags
	var scopes []string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make an API key and print it, once",
		Long: `Create makes an API key of a principal and prints it alone on standard output; only its hash is stored. The tenant
and the principal must be there (tenants create, principals create). A name that the principal has given to a key
before, dead or alive, is refused: a retry cannot make a second key by mistake.`,
		Example: `  orderonce keys create --tenant acme --principal checkout --name 2026-11 --reason "their new shop"
  orderonce keys create --tenant acme --principal reports --name nightly --scopes orders:read --expires 2160h --reason "ticket 17"
  orderonce keys create --tenant operations --principal alice --name laptop --scopes ops:read,ops:write --reason "on call"`,
	}
	changing(cmd, func(ctx context.Context, tx *postgres.Tx, by identity.Change) error {
		principal, err := f.findPrincipal(ctx, tx)
		if err != nil {
			return err
		}
		plan := identity.KeyPlan{Name: f.name, Scopes: scopes, Expires: f.expiry()}
		f.key, f.text, err = identity.CreateKey(ctx, tx, by, principal.Tenant, principal.ID, plan)
		if err != nil {
			return err
		}
		return f.found()
	}, func() { fmt.Fprintln(cmd.OutOrStdout(), f.text) })
	f.tenantFlag(cmd)
	f.principalFlag(cmd)
	f.nameFlag(cmd, "name of the key, such as 2026-11: a-z 0-9 . -")
	f.expiresFlag(cmd)
	cmd.Flags().StringSliceVar(&scopes, "scopes", identity.TenantScopes(), "what the key allows: "+strings.Join(identity.Scopes(), ", "))
	return cmd
}

func keysRotateCommand() *cobra.Command {
	var f keyFlags
	var newName string
	var overlap time.Duration
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Give a principal a new API key and let its others end",
		Long: `Rotate makes a new key with the scopes of the named one and prints it alone on standard output. All other live keys
of the principal end after --overlap, unless they end before: until then the clients are moved to the new one. The
principal stays, so a retry under the new key finds what was begun under the old one.`,
		Example: `  orderonce keys rotate --tenant acme --principal checkout --name 2026-11 --new-name 2026-12 --reason "monthly"
  orderonce keys rotate --tenant acme --principal checkout --name 2026-12 --new-name 2026-12b --overlap 0s --reason "leaked"`,
	}
	changing(cmd, func(ctx context.Context, tx *postgres.Tx, by identity.Change) error {
		old, err := f.find(ctx, tx)
		if err != nil {
			return err
		}
		rotation := identity.Rotation{Name: newName, Expires: f.expiry(), Overlap: overlap}
		f.key, f.text, err = identity.RotateKey(ctx, tx, by, old.Tenant, old.ID, rotation)
		if err != nil {
			return err
		}
		return f.found()
	}, func() { fmt.Fprintln(cmd.OutOrStdout(), f.text) })
	f.tenantFlag(cmd)
	f.principalFlag(cmd)
	f.nameFlag(cmd, "name of the key whose place is taken")
	f.expiresFlag(cmd)
	cmd.Flags().StringVar(&newName, "new-name", "", "name of the new key: a-z 0-9 . -")
	cmd.Flags().DurationVar(&overlap, "overlap", identity.DefaultOverlap, "how long the principal's other keys go on living")
	require(cmd, "new-name")
	return cmd
}

func keysRevokeCommand() *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use:   "revoke",
		Short: "End an API key at once",
		Long: `Revoke ends a key: from the next request on every server, replays included. A key that was found somewhere is known
by its prefix, oo_live_<id>, which keys list shows.`,
		Example: `  orderonce keys revoke --tenant acme --principal checkout --name 2026-11 --reason "found in a public repository"`,
	}
	changing(cmd, func(ctx context.Context, tx *postgres.Tx, by identity.Change) error {
		key, err := f.find(ctx, tx)
		if err != nil {
			return err
		}
		_, err = identity.RevokeKey(ctx, tx, by, key.Tenant, key.ID)
		return err
	}, func() { fmt.Fprintf(cmd.OutOrStdout(), "key %s of %s is revoked\n", f.name, f.principal) })
	f.tenantFlag(cmd)
	f.principalFlag(cmd)
	f.nameFlag(cmd, "name of the key")
	return cmd
}

// find is the key that the flags name.
func (f *keyFlags) find(ctx context.Context, tx *postgres.Tx) (identity.APIKey, error) {
	principal, err := f.findPrincipal(ctx, tx)
	if err != nil {
		return identity.APIKey{}, err
	}
	db, err := tx.DB(ctx)
	if err != nil {
		return identity.APIKey{}, err
	}
	return identity.FindKey(ctx, db, principal.Tenant, principal.ID, f.name)
}

func keysListCommand() *cobra.Command {
	var n named
	var l list
	cmd := &cobra.Command{
		Use: "list", Short: "List a tenant's API keys, newest first, dead ones too", Args: cobra.NoArgs,
		Long:    "List shows all about the keys but their secrets, which nobody has. The last use may be a minute behind.",
		Example: "  orderonce keys list --tenant acme --principal checkout",
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
				names, only := map[uuid.UUID]string{}, uuid.NullUUID{}
				for _, p := range principals {
					names[p.ID] = nameOf(p)
					if names[p.ID] == n.principal {
						only = uuid.NullUUID{UUID: p.ID, Valid: true}
					}
				}
				if n.principal != "" && !only.Valid {
					return fmt.Errorf("%s has no principal %s", n.tenant, n.principal)
				}
				keys, err := all(ctx, db, func(k identity.APIKey) uuid.UUID { return k.ID },
					func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]identity.APIKey, bool, error) {
						return identity.ListKeys(ctx, db, tenant.ID, only, before, pageSize)
					})
				if err != nil {
					return err
				}
				return l.print(cmd, keys, keyColumns, keyRows(keys, names, time.Now()))
			})
		},
	}
	addSettings(cmd, "database-url")
	n.tenantFlag(cmd)
	cmd.Flags().StringVar(&n.principal, "principal", "", "only keys of this principal")
	l.flag(cmd)
	return cmd
}

var keyColumns = []string{"PRINCIPAL", "KEY", "STATE", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "PREFIX"}

func keyRows(keys []identity.APIKey, principals map[uuid.UUID]string, now time.Time) (rows [][]string) {
	for _, k := range keys {
		state := "live"
		switch {
		case k.RevokedAt != nil:
			state = "revoked"
		case k.ExpiresAt != nil && !k.ExpiresAt.After(now):
			state = "expired"
		}
		rows = append(rows, []string{
			principals[k.Principal], k.Name, state, strings.Join(k.Scopes, ","), when(&k.CreatedAt), when(k.ExpiresAt), when(k.LastUsedAt), k.Prefix,
		})
	}
	return rows
}
