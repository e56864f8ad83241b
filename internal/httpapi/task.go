package httpapi

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/httpapi/api"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks"
)

// taskResource is the type of an outcome's resource that is a task.
const taskResource = "task"

func taskPath(id string) string { return "/tasks/" + id }

// ownTask finds a task of the caller's tenant.
func ownTask(ctx context.Context, db postgres.DBTX, id uuid.UUID) (tasks.Task, error) {
	return tasks.Find(ctx, db, callOf(ctx).principal.Tenant, id)
}

func taskOf(t tasks.Task) api.Task {
	out := api.Task{
		Id: t.ID, Operation: t.Operation, State: api.TaskState(t.State), Retryable: t.Retryable, Attempt: t.Token,
		Progress: progressOf(t.Progress), CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, ResultExpiresAt: t.ResultExpiresAt,
	}
	if t.Reason != nil {
		out.Problem = &api.OutcomeProblem{Code: *t.Reason, Title: failures[*t.Reason]}
	}
	return out
}

// failures are the titles of why a task fails.
var failures = map[string]string{
	tasks.ReasonStalled:   "The task's workers got nowhere, again and again",
	tasks.ReasonCancelled: "The task was cancelled by an operator",
}

func progressOf(p tasks.Progress) api.TaskProgress {
	return api.TaskProgress{Done: p.Done(), Total: p.Total, Succeeded: p.Succeeded, Rejected: p.Rejected}
}

// refusalOf is why a row was rejected, in the words of the problem that its order would have met alone.
func refusalOf(f *fault.Error) *api.OutcomeProblem {
	if f == nil {
		return nil
	}
	out := &api.OutcomeProblem{Code: f.Kind.String(), Title: problemTypes[f.Kind].title}
	if f.Detail != "" {
		out.Detail = &f.Detail
	}
	if holder, err := uuid.Parse(f.Holder); err == nil {
		out.OrderId = &holder
	}
	if len(f.Fields) > 0 {
		fields := make([]api.FieldError, len(f.Fields))
		for i, field := range f.Fields {
			fields[i] = api.FieldError{Pointer: field.Pointer, Reason: field.Reason}
		}
		out.Errors = &fields
	}
	return out
}

// pollOf is how long a client should wait before it looks at a task again; nil where there is nothing to wait for.
func (s *Server) pollOf(t tasks.Task) *int32 {
	policy := s.spec.policyOf(t.Operation)
	if t.State.Ended() || policy == nil || policy.Task == nil {
		return nil
	}
	seconds := int32(math.Ceil(policy.Task.Poll.Seconds()))
	return &seconds
}

// leftOf is a duration in whole milliseconds.
func leftOf(d time.Duration) *int64 {
	ms := d.Milliseconds()
	return &ms
}
