package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"orderonce/internal/httpapi"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks"
)

func tasksCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "tasks", Short: "Look after long work, such as imports"}
	cmd.AddCommand(tasksListCommand(), tasksShowCommand(), tasksCancelCommand(), tasksRetryCommand())
	return cmd
}

// taskView is a task as operators see it.
type taskView struct {
	ID        uuid.UUID  `json:"id"`
	Tenant    uuid.UUID  `json:"tenant_id"`
	Operation string     `json:"operation"`
	State     string     `json:"state"`
	Retryable bool       `json:"retryable"`
	Reason    *string    `json:"reason,omitempty"`
	Done      int32      `json:"done"`
	Total     int32      `json:"total"`
	Succeeded int32      `json:"succeeded"`
	Rejected  int32      `json:"rejected"`
	Token     int64      `json:"token"`
	Owner     *string    `json:"owner,omitempty"`
	LeaseLeft string     `json:"lease_left,omitempty"`
	DueAt     *time.Time `json:"due_at,omitempty"`
	Takeovers int32      `json:"takeovers"`
	Stalls    int32      `json:"stalls"`
	Fenced    int32      `json:"fenced_writes"`
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
	Expires   *time.Time `json:"result_expires_at,omitempty"`
}

func viewOf(t tasks.Task) taskView {
	v := taskView{
		ID: t.ID, Tenant: t.Tenant, Operation: t.Operation, State: string(t.State), Retryable: t.Retryable, Reason: t.Reason,
		Done: t.Progress.Done(), Total: t.Progress.Total, Succeeded: t.Progress.Succeeded, Rejected: t.Progress.Rejected,
		Token: t.Token, Owner: t.Owner, Takeovers: t.Takeovers, Stalls: t.Stalls, Fenced: t.FencedWrites,
		CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, Expires: t.ResultExpiresAt,
	}
	if t.Owner != nil {
		v.LeaseLeft = t.LeaseLeft().Round(time.Millisecond).String()
	} else {
		v.DueAt = t.DueAt
	}
	return v
}

// columns and row are how tasks stand in a table.
var taskColumns = []string{"TASK", "OPERATION", "STATE", "DONE", "REJECTED", "TOKEN", "OWNER", "LEASE LEFT", "TAKEOVERS", "FENCED", "CREATED", "TENANT"}

func (v taskView) row() []string {
	state, owner, left := v.State, "-", "-"
	if v.Reason != nil {
		state += " (" + *v.Reason + ")"
	}
	if v.Owner != nil {
		owner, left = *v.Owner, v.LeaseLeft
	}
	return []string{
		v.ID.String(), v.Operation, state, fmt.Sprintf("%d/%d", v.Done, v.Total), strconv.Itoa(int(v.Rejected)),
		strconv.FormatInt(v.Token, 10), owner, left, strconv.Itoa(int(v.Takeovers)), strconv.Itoa(int(v.Fenced)),
		when(&v.CreatedAt), v.Tenant.String(),
	}
}

func tasksListCommand() *cobra.Command {
	var l list
	var tenant, state string
	cmd := &cobra.Command{
		Use: "list", Short: "List the tasks, newest first, with who works on them", Args: cobra.NoArgs,
		Example: `  orderonce tasks list --state processing
  orderonce tasks list --tenant acme --output json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onDatabase(cmd, func(ctx context.Context, _ config, db *postgres.DB) error {
				var of uuid.NullUUID
				if tenant != "" {
					found, err := tenantNamed(ctx, db, tenant)
					if err != nil {
						return err
					}
					of = uuid.NullUUID{UUID: found.ID, Valid: true}
				}
				var narrowed *string
				if state != "" {
					narrowed = &state
				}
				found, err := all(ctx, db, func(t tasks.Task) uuid.UUID { return t.ID },
					func(ctx context.Context, db postgres.DBTX, before uuid.UUID) ([]tasks.Task, bool, error) {
						return tasks.List(ctx, db, of, narrowed, before, pageSize)
					})
				if err != nil {
					return err
				}
				views, rows := []taskView{}, [][]string{}
				for _, t := range found {
					views = append(views, viewOf(t))
					rows = append(rows, viewOf(t).row())
				}
				return l.print(cmd, views, taskColumns, rows)
			})
		},
	}
	addSettings(cmd, "database-url")
	l.flag(cmd)
	cmd.Flags().StringVar(&tenant, "tenant", "", "only tasks of the tenant of this name")
	cmd.Flags().StringVar(&state, "state", "", "only tasks in this state: processing, outcome_unknown, succeeded or failed")
	return cmd
}

// taskNamed is a task, by its id.
type taskNamed struct {
	identified
	task tasks.Task
}

func tasksShowCommand() *cobra.Command {
	var n taskNamed
	var l list
	cmd := &cobra.Command{
		Use: "show TASK", Short: "Show a task, and who works on it",
		Example: "  orderonce tasks show 0198d0a7-52f1-7c44-a3b8-5d1a9be0f001 --tenant acme --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onDatabase(cmd, func(ctx context.Context, _ config, db *postgres.DB) error {
				tenant, err := tenantNamed(ctx, db, n.tenant)
				if err != nil {
					return err
				}
				err = db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
					n.task, err = tasks.Look(ctx, db, tenant.ID, n.id)
					return err
				})
				if err != nil {
					return err
				}
				view := viewOf(n.task)
				return l.print(cmd, view, taskColumns, [][]string{view.row()})
			})
		},
	}
	addSettings(cmd, "database-url")
	l.flag(cmd)
	n.args(cmd, "a", "task")
	return cmd
}

func tasksCancelCommand() *cobra.Command {
	var n taskNamed
	cmd := &cobra.Command{
		Use:   "cancel TASK",
		Short: "End a task for good",
		Long: `Cancel ends a task that has not ended, whoever works on it: the next write of its owner is refused. What its rows
have come to stays, and so do the orders that were placed. It cannot be retried; the same orders can be imported
again under another key, and those that are there are found.`,
		Example: `  orderonce tasks cancel 0198d0a7-52f1-7c44-a3b8-5d1a9be0f001 --tenant acme --reason "the wrong file"`,
	}
	changing(cmd, func(ctx context.Context, tx *postgres.Tx, by identity.Change) error {
		return n.change(ctx, tx, func(tenant, id uuid.UUID) (tasks.Task, error) {
			db, err := tx.DB(ctx)
			if err != nil {
				return tasks.Task{}, err
			}
			task, err := tasks.Look(ctx, db, tenant, id)
			if err != nil {
				return tasks.Task{}, err
			}
			policy, err := httpapi.Policy(ctx, task.Operation)
			if err != nil {
				return tasks.Task{}, err
			}
			return tasks.Cancel(ctx, tx, by, policy, tenant, id)
		})
	}, func() { fmt.Fprintf(cmd.OutOrStdout(), "task %s is %s\n", n.task.ID, n.task.State) })
	n.args(cmd, "a", "task")
	return cmd
}

func tasksRetryCommand() *cobra.Command {
	var n taskNamed
	cmd := &cobra.Command{
		Use:   "retry TASK",
		Short: "Send a failed task on its way again",
		Long: `Retry sends a task that has failed, and may be retried, on its way again: it goes on where it was. One that is
being worked on already is left as it is.`,
		Example: `  orderonce tasks retry 0198d0a7-52f1-7c44-a3b8-5d1a9be0f001 --tenant acme --reason "inventory is back"`,
	}
	changing(cmd, func(ctx context.Context, tx *postgres.Tx, by identity.Change) error {
		return n.change(ctx, tx, func(tenant, id uuid.UUID) (tasks.Task, error) {
			return tasks.RetryBy(ctx, tx, by, tenant, id)
		})
	}, func() { fmt.Fprintf(cmd.OutOrStdout(), "task %s is %s\n", n.task.ID, n.task.State) })
	n.args(cmd, "a", "task")
	return cmd
}

func (n *taskNamed) change(ctx context.Context, tx *postgres.Tx, change func(tenant, id uuid.UUID) (tasks.Task, error)) error {
	tenant, err := n.findTenant(ctx, tx)
	if err != nil {
		return err
	}
	n.task, err = change(tenant.ID, n.id)
	return err
}
