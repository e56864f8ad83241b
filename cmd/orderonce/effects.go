package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"orderonce/internal/effects"
	"orderonce/internal/identity"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
)

func effectsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "effects",
		Short: "Look after the calls to the outside: list, show, retry, resolve, replay",
		Long: `An effect is one call to something outside the database: a payment's authorisation, a reservation, a webhook. It ends as
succeeded or failed, and until then somebody owns it: a worker, or a person where nothing that the service may do finds
out what became of it (needs_human).`,
	}
	cmd.AddCommand(effectsListCommand(), effectsShowCommand(), effectsRetryCommand(), effectsResolveCommand(), effectsReplayCommand(),
		disagreementsCommand())
	return cmd
}

// effectFilter are the flags that say which effects a list has.
type effectFilter struct {
	named
	state, destination, order string
}

func (f *effectFilter) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "only effects of this tenant; without it, those in doubt of all tenants")
	cmd.Flags().StringVar(&f.destination, "destination", "", "only effects at this destination, such as payment")
	cmd.Flags().StringVar(&f.order, "order", "", "only effects of this order; needs --tenant")
}

// read is the filter that the flags mean. What it lacks is told by the list itself.
func (f *effectFilter) read(ctx context.Context, db *postgres.DB) (effects.Filter, error) {
	filter := effects.Filter{State: effects.State(f.state), Destination: f.destination}
	if f.tenant != "" {
		tenant, err := tenantNamed(ctx, db, f.tenant)
		if err != nil {
			return filter, err
		}
		filter.Tenant = uuid.NullUUID{UUID: tenant.ID, Valid: true}
	}
	if f.order != "" {
		id, err := uuid.Parse(f.order)
		if err != nil || f.tenant == "" {
			return filter, errors.New("order: must be the id of an order, beside the name of its tenant")
		}
		filter.Order = uuid.NullUUID{UUID: id, Valid: true}
	}
	return filter, nil
}

func effectsListCommand() *cobra.Command {
	var f effectFilter
	var l list
	cmd := &cobra.Command{
		Use: "list", Short: "List effects, newest first", Args: cobra.NoArgs,
		Long: `List shows what needs a person, of all tenants, where nothing else is asked for. Other states than needs_human and
unknown are listed by tenant.`,
		Example: `  orderonce effects list
  orderonce effects list --state unknown --destination payment
  orderonce effects list --tenant acme --order 0193b1f0-0000-7000-8000-00000000000a --state ""`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onDatabase(cmd, func(ctx context.Context, _ config, db *postgres.DB) error {
				filter, err := f.read(ctx, db)
				if err != nil {
					return err
				}
				found, err := all(ctx, db, func(e effects.Effect) uuid.UUID { return e.ID },
					func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]effects.Effect, bool, error) {
						return effects.List(ctx, db, filter, before, pageSize)
					})
				if err != nil {
					return err
				}
				var rows [][]string
				for _, e := range found {
					rows = append(rows, append(effectCells(e), strconv.Itoa(int(e.Attempts)), when(e.DueAt), said(e.Owner), said(e.LastError)))
				}
				return l.print(cmd, found, append(effectColumns(), "ATTEMPTS", "DUE", "OWNER", "LAST ERROR"), rows)
			})
		},
	}
	addSettings(cmd, "database-url")
	f.flags(cmd)
	cmd.Flags().StringVar(&f.state, "state", string(effects.NeedsHuman), "pending, in_flight, unknown, needs_human, succeeded or failed; empty for all of a tenant")
	l.flag(cmd)
	return cmd
}

func effectColumns() []string {
	return []string{"EFFECT", "TENANT", "ORDER", "DESTINATION", "OPERATION", "STATE"}
}

func effectCells(e effects.Effect) []string {
	return []string{e.ID.String(), e.Tenant.String(), e.Order.String(), e.Destination, e.Operation, string(e.State)}
}

func said(text *string) string {
	if text == nil {
		return "-"
	}
	return *text
}

func effectsShowCommand() *cobra.Command {
	var n identified
	var l list
	cmd := &cobra.Command{
		Use: "show EFFECT", Short: "Show one effect, its evidence and what may be done with it",
		Example: "  orderonce effects show 0193b1f0-0000-7000-8000-00000000000a --tenant acme",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onDatabase(cmd, func(ctx context.Context, _ config, db *postgres.DB) error {
				tenant, err := tenantNamed(ctx, db, n.tenant)
				if err != nil {
					return err
				}
				return db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
					e, err := effects.Find(ctx, db, tenant.ID, n.id)
					if err != nil {
						return err
					}
					if l.output == "table" {
						return showEffect(cmd.OutOrStdout(), e)
					}
					return l.print(cmd, e, nil, nil)
				})
			})
		},
	}
	addSettings(cmd, "database-url")
	n.args(cmd, "an", "effect")
	l.flag(cmd)
	return cmd
}

func showEffect(out io.Writer, e effects.Effect) error {
	entries, err := e.Entries()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"effect", e.ID.String()},
		{"order", e.Order.String()},
		{"call", e.Destination + " " + e.Operation},
		{"key", e.Key.String() + ", remembered until " + when(e.KeyValidUntil)},
		{"state", fmt.Sprintf("%s after %d attempts", e.State, e.Attempts)},
		{"due", when(e.DueAt) + ", owner " + said(e.Owner)},
		{"created", when(&e.CreatedAt) + ", first sent " + when(e.FirstSentAt) + ", ended " + when(e.EndedAt)},
		{"moves", fmt.Sprint(effects.Moves(e))},
	} {
		fmt.Fprintf(table, "%s\t%s\n", line[0], line[1])
	}
	for _, entry := range entries {
		who, what := entry.Owner, string(entry.Verdict)
		if entry.Move != "" {
			who, what = entry.Actor, string(entry.Move)+" ("+entry.Reason+")"
		}
		if entry.Status != 0 {
			what += " " + strconv.Itoa(entry.Status)
		}
		fmt.Fprintf(table, "%s\t%s: %s: %s\n", when(&entry.At), who, what, entry.Detail)
	}
	return table.Flush()
}

// moving makes a verb that moves one effect.
func moving(cmd *cobra.Command, n *identified, move func() effects.Move, found *effects.Finding) {
	var e effects.Effect
	changing(cmd, func(ctx context.Context, tx *postgres.Tx, by identity.Change) error {
		tenant, err := n.findTenant(ctx, tx)
		if err != nil {
			return err
		}
		e, err = effects.Resolve(ctx, tx, by, tenant.ID, n.id, move(), *found, orders.Follow)
		return err
	}, func() { fmt.Fprintf(cmd.OutOrStdout(), "effect %s is %s\n", e.ID, e.State) })
	n.args(cmd, "an", "effect")
}

func effectsRetryCommand() *cobra.Command {
	var n identified
	cmd := &cobra.Command{
		Use: "retry EFFECT", Short: "Let a worker look at an effect now, without the rest of its pause",
		Example: `  orderonce effects retry 0193b1f0-0000-7000-8000-00000000000a --tenant acme --reason "payment is back"`,
	}
	moving(cmd, &n, func() effects.Move { return effects.RetryNow }, &effects.Finding{})
	return cmd
}

func effectsResolveCommand() *cobra.Command {
	var n identified
	var move string
	var found effects.Finding
	cmd := &cobra.Command{
		Use: "resolve EFFECT", Short: "Decide what became of an effect, and let its order follow",
		Long: `Resolve makes one of the moves that show offers:

  succeed    it was executed: the order follows
  fail       it was not executed, and will not be: the order follows
  resend     send the same key and bytes once more; refused where the destination may have forgotten the key, unless
             --absent says that it was asked and is certain that it never executed it
  take_over  the service need not look any further: a person decides

The reason and the evidence are kept in the audit log. Said twice it is done once.`,
		Example: `  orderonce effects resolve 0193b1f0-0000-7000-8000-00000000000a --tenant acme --move succeed \
      --evidence "bank statement line 4711" --reason "ticket 17"`,
	}
	moving(cmd, &n, func() effects.Move { return effects.Move(move) }, &found)
	cmd.Flags().StringVar(&move, "move", "", "succeed, fail, resend or take_over")
	cmd.Flags().StringVar(&found.Evidence, "evidence", "", "how you know: 3 to 500 characters, no secrets")
	cmd.Flags().BoolVar(&found.Absent, "absent", false, "for resend: the destination is certain that it never executed the key")
	require(cmd, "move", "evidence")
	return cmd
}

func effectsReplayCommand() *cobra.Command {
	var f effectFilter
	var l list
	var dryRun bool
	cmd := &cobra.Command{
		Use: "replay --dry-run", Short: "List the keys that could be sent again, their validity and evidence", Args: cobra.NoArgs,
		Long: `Replay sends nothing: it says of each effect whether resolve --move resend would send its key again, until when the
destination remembers it, and why not where it would not. A key past its validity is resent by nobody who has not asked
the destination first.`,
		Example: "  orderonce effects replay --dry-run --destination payment",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !dryRun {
				return errors.New("replay only looks, with --dry-run; what sends is effects resolve EFFECT --move resend, one by one, each with its evidence")
			}
			return onDatabase(cmd, func(ctx context.Context, _ config, db *postgres.DB) error {
				filter, err := f.read(ctx, db)
				if err != nil {
					return err
				}
				found, err := all(ctx, db, func(r effects.Replayable) uuid.UUID { return r.Effect.ID },
					func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]effects.Replayable, bool, error) {
						return effects.Replay(ctx, db, filter, before, pageSize)
					})
				if err != nil {
					return err
				}
				var rows [][]string
				for _, r := range found {
					verdict := "would be resent"
					if r.Refused != "" {
						verdict = "refused: " + r.Refused
					}
					entries, err := r.Effect.Entries()
					if err != nil {
						return err
					}
					last := "-"
					if len(entries) > 0 {
						last = entries[len(entries)-1].Detail
					}
					rows = append(rows, append(effectCells(r.Effect), r.Effect.Key.String(), when(r.Effect.KeyValidUntil), verdict, last))
				}
				return l.print(cmd, found, append(effectColumns(), "KEY", "VALID UNTIL", "RESEND", "LAST EVIDENCE"), rows)
			})
		},
	}
	addSettings(cmd, "database-url")
	f.flags(cmd)
	cmd.Flags().StringVar(&f.state, "state", string(effects.NeedsHuman), "pending, in_flight, unknown, needs_human, succeeded or failed; empty for all of a tenant")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "what replay does; it has to be said")
	l.flag(cmd)
	return cmd
}
