package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"orderonce/internal/effects/webhooks"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

func webhooksCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "webhooks", Short: "Make, list, rotate, disable and enable webhooks"}
	cmd.AddCommand(
		webhooksCreateCommand(), webhooksListCommand(), webhooksRotateCommand(),
		webhooksSetCommand("disable", "Send a webhook no event any more",
			`Disable ends a webhook: what waits to be sent to it fails, and nothing more is. It keeps its name and its secrets.`,
			"webhook.disabled", func(ctx context.Context, tx *postgres.Tx, tenant, id uuid.UUID) (webhooks.Subscription, bool, error) {
				return webhooks.Disable(ctx, tx, tenant, id, webhooks.Requested)
			}),
		webhooksSetCommand("enable", "Send a webhook events again",
			`Enable takes up a webhook that was disabled: by somebody, by its receiver's 410, or because that was not reached for
days. It gets the events that come from now on, and none of those that it has missed.`,
			"webhook.enabled", webhooks.Enable),
	)
	return cmd
}

// webhookFlags are the flags that name a webhook.
type webhookFlags struct {
	named
	name   string
	secret string
}

func (f *webhookFlags) nameFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "name", "", "name of the webhook: a-z 0-9 . -")
	require(cmd, "name")
}

func (f *webhookFlags) find(ctx context.Context, tx *postgres.Tx) (webhooks.Subscription, error) {
	tenant, err := f.findTenant(ctx, tx)
	if err != nil {
		return webhooks.Subscription{}, err
	}
	db, err := tx.DB(ctx)
	if err != nil {
		return webhooks.Subscription{}, err
	}
	return webhooks.Find(ctx, db, tenant.ID, f.name)
}

// detailsOf is what the audit log says of a webhook. A URL may end in a token, so it has none of its query.
func detailsOf(s webhooks.Subscription) map[string]any {
	address, _, _ := strings.Cut(s.URL, "?")
	return map[string]any{"name": s.Name, "url": address, "event_types": s.EventTypes}
}

func webhooksCreateCommand() *cobra.Command {
	var f webhookFlags
	var draft webhooks.Draft
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a webhook and print its secret, once",
		Long: `Create lets a tenant's events be sent to a URL, in the form of Standard Webhooks, and prints the secret that they are
signed with alone on standard output. A name that the tenant has given to a webhook before is refused: a retry cannot
make a second one by mistake, which would get everything twice.

The URL has to be https and lead to the public internet, whatever its name resolves to when an event is sent,
unless webhook-allow-private says otherwise, here and to the workers.`,
		Example: `  orderonce webhooks create --tenant acme --name erp --url https://erp.example/hooks --reason "ticket 17"
  orderonce webhooks create --tenant acme --name mail --url https://mail.example/in --events orderonce.order.confirmed.v1 --reason "ticket 18"`,
	}
	changingWith(cmd, func(ctx context.Context, c config, tx *postgres.Tx, by identity.Change) error {
		tenant, err := f.findTenant(ctx, tx)
		if err != nil {
			return err
		}
		draft.Name = f.name
		s, secret, err := webhooks.Create(ctx, tx, c.Effects.guard(), tenant.ID, draft)
		if err != nil {
			return err
		}
		if f.secret = secret; secret == "" {
			return fmt.Errorf("there is a webhook %s already, and its secret was shown when it was made: rotate it if that is lost", s.Name)
		}
		return by.Audit(ctx, tx, tenant.ID, "webhook.created", s.ID, detailsOf(s))
	}, func() { fmt.Fprintln(cmd.OutOrStdout(), f.secret) }, "webhook-allow-private")
	f.tenantFlag(cmd)
	f.nameFlag(cmd)
	cmd.Flags().StringVar(&draft.URL, "url", "", "where events are sent to")
	cmd.Flags().StringSliceVar(&draft.EventTypes, "events", nil, "only these types (default: all): "+strings.Join(webhooks.EventTypes(), ", "))
	require(cmd, "url")
	return cmd
}

func webhooksRotateCommand() *cobra.Command {
	var f webhookFlags
	var overlap time.Duration
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Give a webhook a new secret and let its others end",
		Long: `Rotate makes a new secret and prints it alone on standard output. Until the overlap ends, each delivery is signed with
the new secret and the old ones, and the receiver can change to the new one at any moment.`,
		Example: `  orderonce webhooks rotate --tenant acme --name erp --reason "yearly"
  orderonce webhooks rotate --tenant acme --name erp --overlap 0s --reason "leaked"`,
	}
	changing(cmd, func(ctx context.Context, tx *postgres.Tx, by identity.Change) error {
		s, err := f.find(ctx, tx)
		if err != nil {
			return err
		}
		if s, f.secret, err = webhooks.RotateSecret(ctx, tx, s.Tenant, s.ID, overlap); err != nil {
			return err
		}
		details := detailsOf(s)
		details["overlap"] = overlap.String()
		return by.Audit(ctx, tx, s.Tenant, "webhook.rotated", s.ID, details)
	}, func() { fmt.Fprintln(cmd.OutOrStdout(), f.secret) })
	f.tenantFlag(cmd)
	f.nameFlag(cmd)
	cmd.Flags().DurationVar(&overlap, "overlap", webhooks.DefaultOverlap, "how long the other secrets go on signing")
	return cmd
}

func webhooksSetCommand(
	verb, short, long, action string, set func(context.Context, *postgres.Tx, uuid.UUID, uuid.UUID) (webhooks.Subscription, bool, error),
) *cobra.Command {
	var f webhookFlags
	var after webhooks.Subscription
	cmd := &cobra.Command{
		Use: verb, Short: short, Long: long,
		Example: "  orderonce webhooks " + verb + ` --tenant acme --name erp --reason "ticket 17"`,
	}
	changing(cmd, func(ctx context.Context, tx *postgres.Tx, by identity.Change) error {
		s, err := f.find(ctx, tx)
		if err != nil {
			return err
		}
		var changed bool
		if after, changed, err = set(ctx, tx, s.Tenant, s.ID); err != nil || !changed {
			return err
		}
		return by.Audit(ctx, tx, s.Tenant, action, s.ID, detailsOf(s))
	}, func() { fmt.Fprintf(cmd.OutOrStdout(), "webhook %s is %s\n", f.name, activity(after.Active)) })
	f.tenantFlag(cmd)
	f.nameFlag(cmd)
	return cmd
}

func webhooksListCommand() *cobra.Command {
	var n named
	var l list
	cmd := &cobra.Command{
		Use: "list", Short: "List a tenant's webhooks, newest first, disabled ones too", Args: cobra.NoArgs,
		Long: `List shows all about the webhooks but their secrets. FAILING is since when the receiver was not reached; after five
days of that the webhook is disabled.`,
		Example: "  orderonce webhooks list --tenant acme",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onDatabase(cmd, func(ctx context.Context, _ config, db *postgres.DB) error {
				tenant, err := tenantNamed(ctx, db, n.tenant)
				if err != nil {
					return err
				}
				hooks, err := all(ctx, db, func(s webhooks.Subscription) uuid.UUID { return s.ID },
					func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]webhooks.Subscription, bool, error) {
						return webhooks.List(ctx, db, tenant.ID, before, pageSize)
					})
				if err != nil {
					return err
				}
				var rows [][]string
				for _, s := range hooks {
					state, types := activity(s.Active), "all"
					if s.DisabledReason != nil {
						state += ": " + *s.DisabledReason
					}
					if len(s.EventTypes) > 0 {
						types = strings.Join(s.EventTypes, ",")
					}
					rows = append(rows, []string{s.Name, state, s.URL, types, when(s.FailingSince), when(&s.CreatedAt)})
				}
				return l.print(cmd, hooks, []string{"WEBHOOK", "STATE", "URL", "EVENTS", "FAILING", "CREATED"}, rows)
			})
		},
	}
	addSettings(cmd, "database-url")
	n.tenantFlag(cmd)
	l.flag(cmd)
	return cmd
}
