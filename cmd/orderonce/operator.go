package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"orderonce/internal/identity"
	"orderonce/internal/postgres"
	"orderonce/internal/telemetry"
)

// What the commands of operators have in common: tenants, principals and keys. The same flag names the same thing in
// each of them. Verbs that change something give a reason, which the audit log keeps, and may be said twice.

// adminLockTimeout is how long an operator's command waits for a row.
const adminLockTimeout = 2 * time.Second

// onDatabase does what a command does on the database that the settings name.
func onDatabase(cmd *cobra.Command, do func(ctx context.Context, c config, db *postgres.DB) error) error {
	c, err := loadConfig(cmd.Flags())
	if err != nil {
		return err
	}
	db, err := openWorkers(cmd.Context(), c, telemetry.Off())
	if err != nil {
		return err
	}
	defer db.Close()
	return do(cmd.Context(), c, db)
}

// changing makes a verb that changes something, as one unit, and then says what done says.
func changing(cmd *cobra.Command, do func(ctx context.Context, tx *postgres.Tx, by identity.Change) error, done func()) {
	changingWith(cmd, func(ctx context.Context, _ config, tx *postgres.Tx, by identity.Change) error { return do(ctx, tx, by) }, done)
}

// changingWith is changing, for a verb that needs settings beside the database's.
func changingWith(
	cmd *cobra.Command, do func(ctx context.Context, c config, tx *postgres.Tx, by identity.Change) error, done func(), settings ...string,
) {
	var reason string
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		by := identity.Change{Actor: actor(), Reason: reason}
		err := onDatabase(cmd, func(ctx context.Context, c config, db *postgres.DB) error {
			return db.Run(ctx, postgres.Unit{LockTimeout: adminLockTimeout}, func(ctx context.Context, tx *postgres.Tx) error {
				return do(ctx, c, tx, by)
			})
		})
		if err == nil {
			done()
		}
		return err
	}
	addSettings(cmd, append(settings, "database-url")...)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit log: 3 to 500 characters, no secrets")
	require(cmd, "reason")
}

// actor is who the audit log says it was.
func actor() string {
	who, err := user.Current()
	if err != nil {
		return "cli:uid-" + strconv.Itoa(os.Getuid()) // one that the system has no name for
	}
	return "cli:" + who.Username
}

func require(cmd *cobra.Command, flags ...string) {
	for _, flag := range flags {
		_ = cmd.MarkFlagRequired(flag) // fails only for a flag that does not exist
	}
}

// oneID takes the id of one thing, such as "an effect", as the command's only argument.
func oneID(cmd *cobra.Command, article, noun string, id *uuid.UUID) {
	cmd.Args = func(_ *cobra.Command, args []string) (err error) {
		if len(args) != 1 {
			return fmt.Errorf("name one %s by its id", noun)
		}
		if *id, err = uuid.Parse(args[0]); err != nil {
			return fmt.Errorf("%q is no id of %s %s", args[0], article, noun)
		}
		return nil
	}
}

// named are the flags that say which tenant, and which principal of it.
type named struct{ tenant, principal string }

func (n *named) tenantFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&n.tenant, "tenant", "", "name of the tenant: a-z 0-9 -")
	require(cmd, "tenant")
}

func (n *named) principalFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&n.principal, "principal", "", "name of the principal: a-z 0-9 -")
	require(cmd, "principal")
}

func (n *named) findTenant(ctx context.Context, tx *postgres.Tx) (identity.Tenant, error) {
	db, err := tx.DB(ctx)
	if err != nil {
		return identity.Tenant{}, err
	}
	return identity.FindTenant(ctx, db, n.tenant)
}

func (n *named) findPrincipal(ctx context.Context, tx *postgres.Tx) (identity.PrincipalRecord, error) {
	tenant, err := n.findTenant(ctx, tx)
	if err != nil {
		return identity.PrincipalRecord{}, err
	}
	db, err := tx.DB(ctx)
	if err != nil {
		return identity.PrincipalRecord{}, err
	}
	return identity.FindPrincipal(ctx, db, tenant.ID, n.principal)
}

// identified are a tenant and a thing of it that has no name, only an id.
type identified struct {
	named
	id uuid.UUID
}

// args takes the id of one thing, such as "an effect", as the one argument.
func (n *identified) args(cmd *cobra.Command, article, noun string) {
	oneID(cmd, article, noun, &n.id)
	n.tenantFlag(cmd)
}

// list is how a list is printed.
type list struct{ output string }

func (l *list) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.output, "output", "table", "table or json")
}

// print prints items as JSON, or rows under the columns' names.
func (l *list) print(cmd *cobra.Command, items any, columns []string, rows [][]string) error {
	switch l.output {
	case "json":
		encoder := json.NewEncoder(cmd.OutOrStdout())
		encoder.SetIndent("", "  ")
		return encoder.Encode(items)
	case "table":
		table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		for _, row := range append([][]string{columns}, rows...) {
			fmt.Fprintln(table, strings.Join(row, "\t"))
		}
		return table.Flush()
	}
	return errors.New("output: must be table or json")
}

// pageSize is how many items of a list are asked for at once.
const pageSize = 1000

// all reads a list to its end, page by page.
func all[T any](
	ctx context.Context, db *postgres.DB, id func(T) uuid.UUID,
	list func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]T, bool, error),
) ([]T, error) {
	items := []T{}
	for before, more := uuid.Max, true; more; {
		err := db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
			var page []T
			var err error
			if page, more, err = list(ctx, db, before); err == nil && len(page) > 0 {
				items, before = append(items, page...), id(page[len(page)-1])
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return items, nil
}

func activity(active bool) string {
	if active {
		return "active"
	}
	return "inactive"
}

func when(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
