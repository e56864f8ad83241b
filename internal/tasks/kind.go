package tasks

import (
	"context"
	"time"

	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
)

// Kind is the work of one operation.
type Kind struct {
	Operation string
	Policy    idempotency.Policy // with its Task
	// Step does a piece of the work that is short against the lease, and says what comes next. It begins where the task's
	// checkpoint and its own rows say, never where it believes to be: another process may have done the step before, or
	// half of the work of this one. All that it writes goes through Write. An error is tried again, from the last
	// checkpoint, by whoever takes the task next.
	Step func(ctx context.Context, owned *Owned) (Next, error)
	// Forget removes a part of the results of a task that has outlived their retention, and says whether there is more.
	Forget func(ctx context.Context, db postgres.DBTX, task Expired) (more bool, err error)
}

// Next is what comes after a step.
type Next struct {
	state     State
	going     bool // at once
	delay     time.Duration
	retryable bool
	reason    string
}

// GoOn is another step, at once.
func GoOn() Next { return Next{state: Processing, going: true} }

// Wait lets go of the task, and has somebody take it again after the delay. Where all that is left to do waits for what
// is unknown, clients are told so.
func Wait(delay time.Duration, unknown bool) Next {
	if unknown {
		return Next{state: OutcomeUnknown, delay: delay}
	}
	return Next{state: Processing, delay: delay}
}

// Done ends the task: each row has its outcome.
func Done() Next { return Next{state: Succeeded} }

// Fail ends the task before its rows have their outcomes. The reason is told to the client.
func Fail(reason string, retryable bool) Next {
	return Next{state: Failed, reason: reason, retryable: retryable}
}
