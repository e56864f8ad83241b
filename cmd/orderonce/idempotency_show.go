package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"orderonce/internal/effects"
	"orderonce/internal/fault"
	"orderonce/internal/httpapi"
	"orderonce/internal/idempotency"
	"orderonce/internal/identity"
	"orderonce/internal/orders"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
)

// life is what became of a key in one scope.
type life struct {
	State         string `json:"state"` // completed, expired, in_progress or incomplete
	PrincipalName string `json:"principal,omitempty"`
	*idempotency.Record
	Order   *orders.Order  `json:"order,omitempty"`
	Events  []outbox.Entry `json:"events,omitempty"`
	Effects []callTold     `json:"effects,omitempty"`
}

// callTold is an effect of the key's order, without what was sent.
type callTold struct {
	ID          uuid.UUID     `json:"id"`
	Destination string        `json:"destination"`
	Operation   string        `json:"operation"`
	State       effects.State `json:"state"`
	Attempts    int32         `json:"attempts"`
	EndedAt     *time.Time    `json:"ended_at,omitempty"`
}

func showKeyCommand() *cobra.Command {
	var n named
	var l list
	var operation string
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Tell the life of one idempotency key",
		Long: `Show looks for a key in all scopes that a tenant has, its principals times the operations that take a key, and tells
of each what was answered and when, until when it is remembered, what it made, and which trace shows the first request.
A first request that is still running is found by trying to claim its key, and giving it back: --principal and
--operation say where, if there are too many scopes to try.`,
		Example: "  orderonce idempotency show 0198d0a6-4b7c-7d3e-9a51-0f6d2c3b4a59 --tenant acme",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := idempotency.ParseKey(args)
			if err != nil {
				return err
			}
			return onDatabase(cmd, func(ctx context.Context, c config, db *postgres.DB) error {
				lives, err := livesOf(ctx, c, db, n, operation, key)
				if err != nil {
					return err
				}
				if l.output == "json" {
					encoder := json.NewEncoder(cmd.OutOrStdout())
					encoder.SetIndent("", "  ")
					return encoder.Encode(lives)
				}
				return printLives(cmd.OutOrStdout(), lives)
			})
		},
	}
	addSettings(cmd, "database-url")
	n.tenantFlag(cmd)
	cmd.Flags().StringVar(&n.principal, "principal", "", "only this principal's (default: every principal's)")
	cmd.Flags().StringVar(&operation, "operation", "", "only this operation's, such as createOrder (default: every one's)")
	l.flag(cmd)
	return cmd
}

// mostProbes bounds the scopes in which a running request is looked for: each look is a small transaction.
const mostProbes = 256

func livesOf(ctx context.Context, c config, db *postgres.DB, n named, operation string, key idempotency.Key) ([]life, error) {
	tenant, err := tenantNamed(ctx, db, n.tenant)
	if err != nil {
		return nil, err
	}
	everyone, err := principalsOf(ctx, db, tenant)
	if err != nil {
		return nil, err
	}
	names := map[uuid.UUID]string{}
	ids := []uuid.UUID{uuid.Nil} // of the keys that a tenant's principals share
	for _, p := range everyone {
		if n.principal == "" || nameOf(p) == n.principal {
			names[p.ID] = nameOf(p)
			ids = append(ids, p.ID)
		}
	}
	if n.principal != "" && len(ids) == 1 {
		return nil, fault.New(fault.NotFound, "there is no such principal")
	}
	operations, err := keyedOperations(ctx, operation)
	if err != nil {
		return nil, err
	}
	var lives []life
	err = db.Read(ctx, tenant.ID, func(ctx context.Context, reads postgres.DBTX) error {
		records, err := idempotency.RecordsOf(ctx, reads, tenant.ID, ids, operations, key)
		lives = nil // a read may run twice
		for _, record := range records {
			one := life{State: stateOf(record), PrincipalName: names[record.Principal], Record: &record}
			if err == nil {
				err = one.fill(ctx, reads, tenant)
			}
			lives = append(lives, one)
		}
		return err
	})
	if err != nil || len(lives) > 0 {
		return lives, err
	}
	if len(ids)*len(operations) > mostProbes {
		return nil, errors.New("nothing is remembered of this key, and there are too many scopes to look for a running request: name --principal and --operation")
	}
	keys := idempotency.New(db, c.Unit, 0)
	for _, id := range ids {
		for _, operation := range operations {
			state, err := keys.Look(ctx, idempotency.Scope{Tenant: tenant.ID, Principal: id, Operation: operation, Key: key})
			if err != nil {
				return nil, err
			}
			if state.InProgress {
				lives = append(lives, life{
					State: "in_progress", PrincipalName: names[id], Record: &idempotency.Record{Operation: operation, Principal: id},
				})
			}
		}
	}
	return lives, nil
}

func keyedOperations(ctx context.Context, only string) ([]string, error) {
	operations, err := httpapi.KeyedOperations(ctx)
	if err != nil || only == "" {
		return operations, err
	}
	if !slices.Contains(operations, only) {
		return nil, fmt.Errorf("operation: %q takes no key; these do: %v", only, operations)
	}
	return []string{only}, nil
}

func stateOf(record idempotency.Record) string {
	switch {
	case record.Status == nil:
		return "incomplete"
	case record.ExpiresAt != nil && record.ExpiresAt.Before(time.Now()):
		return "expired"
	}
	return "completed"
}

// fill looks up what the record's request made.
func (l *life) fill(ctx context.Context, db postgres.DBTX, tenant identity.Tenant) error {
	if l.Resource == nil || l.Resource.Type != "order" {
		return nil
	}
	order, err := orders.Find(ctx, db, tenant.ID, l.Resource.ID)
	if err != nil {
		return err
	}
	l.Order = &order
	if l.CompletedAt != nil {
		if l.Events, err = outbox.Between(ctx, db, tenant.ID, "order", order.ID, l.CreatedAt, *l.CompletedAt); err != nil {
			return err
		}
	}
	asked := effects.Filter{
		Tenant: uuid.NullUUID{UUID: tenant.ID, Valid: true}, Order: uuid.NullUUID{UUID: order.ID, Valid: true},
	}
	calls, _, err := effects.List(ctx, db, asked, uuid.Max, pageSize)
	for _, e := range calls {
		l.Effects = append(l.Effects, callTold{e.ID, e.Destination, e.Operation, e.State, e.Attempts, e.EndedAt})
	}
	return err
}

func printLives(out io.Writer, lives []life) error {
	if len(lives) == 0 {
		fmt.Fprintln(out, "nothing is remembered of this key, and no request with it is running: a request would run")
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, l := range lives {
		if i > 0 {
			fmt.Fprintln(table)
		}
		line := func(name, format string, args ...any) { fmt.Fprintf(table, name+"\t"+format+"\n", args...) }
		who := l.PrincipalName
		if who == "" {
			who = "every principal of the tenant"
		}
		line("operation", "%s, by %s", l.Operation, who)
		if l.State == "in_progress" {
			line("state", "in_progress: a first request is running; its end decides, and the client waits or comes back")
			continue
		}
		if l.Status != nil {
			line("state", "%s, answered %d", l.State, *l.Status)
		} else {
			line("state", "%s: it has no result, which never happens by itself", l.State)
		}
		line("created", "%s", when(&l.CreatedAt))
		line("completed", "%s", when(l.CompletedAt))
		line("expires", "%s", when(l.ExpiresAt))
		if l.Order != nil {
			line("order", "%s, %s, version %d", l.Order.ID, l.Order.Status, l.Order.Version)
		} else if l.Resource != nil {
			line(l.Resource.Type, "%s", l.Resource.ID)
		}
		for _, e := range l.Events {
			line("event", "%s, %s, version %d", e.ID, e.Type, e.Version)
		}
		for _, e := range l.Effects {
			line("effect", "%s %s, %s, attempts: %d, %s", e.Destination, e.Operation, e.State, e.Attempts, e.ID)
		}
		if l.TraceID != "" {
			line("trace", "%s", l.TraceID)
		}
	}
	return table.Flush()
}
