package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks"
)

var by = identity.Change{Actor: "cli:tester", Reason: "a test"}

// The promise and the task are one: the key has the same answer for as long as there is a task to look at.
func TestKeyIsKeptUntilTheResultsExpire(t *testing.T) {
	t.Parallel()
	f := setup(t)
	request := f.request(f.tenant)
	task, first := f.accept(request, 1)
	if !first.Expires.IsZero() || first.Replayed {
		t.Errorf("the promise: %+v", first)
	}
	replayed := func() idempotency.Outcome {
		t.Helper()
		none, outcome := f.accept(request, 1)
		if none.ID != uuid.Nil && outcome.Replayed && string(outcome.Body) == none.ID.String() || !outcome.Replayed || string(outcome.Body) != task.ID.String() {
			t.Errorf("a retry got %+v", outcome)
		}
		return outcome
	}
	if again := replayed(); !again.Expires.IsZero() {
		t.Errorf("a retry while it runs: %+v", again)
	}
	// Nothing purges a key whose promise was not kept yet, however old it is.
	f.exec("UPDATE idempotency_requests SET completed_at = now() - interval '1 year', created_at = now() - interval '1 year'")
	replayed()

	stop := f.start(f.worker("one"))
	f.poll("the end", func() bool { return f.now(task).State == tasks.Succeeded })
	stop()
	now := f.now(task)
	again := replayed()
	if now.ResultExpiresAt == nil || again.Expires.Before(*now.ResultExpiresAt) {
		t.Errorf("the key is kept until %s, the results until %v", again.Expires, now.ResultExpiresAt)
	}
	if n := f.count("SELECT count(*) FROM tasks"); n != 1 {
		t.Errorf("%d tasks", n)
	}
}

// A step that fails is tried again from the last checkpoint; a task that gets nowhere fails, and can be sent on its way again.
func TestTaskThatGetsNowhereFails(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var broken atomic.Bool
	broken.Store(true)
	kind := f.kind()
	kind.Step = func(ctx context.Context, owned *tasks.Owned) (tasks.Next, error) {
		if owned.Checkpoint == 1 && broken.Load() {
			if owned.Stalls%2 == 0 {
				panic("a bug")
			}
			return tasks.Next{}, errors.New("a bug")
		}
		return count(ctx, owned)
	}
	request := f.request(f.tenant)
	task, _ := f.accept(request, 3)
	stop := f.start(f.worker("one", kind))
	f.poll("the failure", func() bool {
		f.exec("UPDATE tasks SET due_at = now() WHERE owner IS NULL AND due_at IS NOT NULL") // nobody waits for the pauses
		return f.now(task).State == tasks.Failed
	})
	stop()
	failed := f.now(task)
	if !failed.Retryable || failed.Reason == nil || *failed.Reason != tasks.ReasonStalled || failed.Takeovers != 0 || failed.Progress.Succeeded != 1 {
		t.Errorf("%+v", failed)
	}
	open := func() int { return f.count("SELECT count(*) FROM idempotency_requests WHERE expires_at IS NULL") }
	if open() != 0 {
		t.Error("the key of a task that has failed is kept for ever")
	}

	var retried tasks.Task
	f.must(f.operate(func(ctx context.Context, tx *postgres.Tx) (err error) {
		retried, err = tasks.Retry(ctx, tx, task.Tenant, task.ID)
		return err
	}))
	if now := f.now(task); retried.State != tasks.Processing || now.State != tasks.Processing || now.ResultExpiresAt != nil || open() != 1 {
		t.Errorf("retried %+v, and it is %+v", retried, now)
	}
	f.wantFault(f.operate(func(ctx context.Context, tx *postgres.Tx) error {
		_, err := tasks.Retry(ctx, tx, task.Tenant, task.ID)
		return err
	}), fault.TaskNotRetryable)
	broken.Store(false)
	stop = f.start(f.worker("two", kind))
	f.poll("the end", func() bool { return f.now(task).State == tasks.Succeeded })
	stop()
	f.wantCounted(task, 3)
}

// Takings that come to nothing because their workers die are counted in the same way, by whoever takes the task next.
func TestTaskThatKillsItsWorkersFails(t *testing.T) {
	t.Parallel()
	f := setup(t)
	task := f.task(1)
	w := f.worker("doomed")
	for range 5 {
		f.take(w)
		f.endLease(task)
	}
	kind := f.kind()
	kind.Step = func(context.Context, *tasks.Owned) (tasks.Next, error) {
		t.Error("it was tried once more")
		return tasks.Done(), nil
	}
	stop := f.start(f.worker("last", kind))
	f.poll("the failure", func() bool { return f.now(task).State == tasks.Failed })
	stop()
	if now := f.now(task); !now.Retryable || now.Token != 6 || now.Takeovers != 5 {
		t.Errorf("%+v", now)
	}
}

// A checkpoint takes all stalls back: a long task may be taken over as often as it likes, if it gets on.
func TestTakeoversThatGetOnAreNoStalls(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const steps = 20
	task := f.task(steps)
	for i := range steps {
		owned := f.take(f.worker(name(i)))
		if owned.Checkpoint != int32(i) || owned.Token != int64(i+1) || owned.Takeovers != int32(i) || owned.Stalls != 1 {
			t.Fatalf("the %d-th taking: %+v", i, owned.Task)
		}
		f.must(countOne(t.Context(), owned))
		f.endLease(task)
	}
	last := f.take(f.worker("last"))
	f.must(last.Finish(t.Context(), tasks.Done()))
	f.wantCounted(task, steps)
}

// A worker that is asked to stop finishes its step and lets go: the next one begins at once, and it was no takeover.
func TestStoppingWorkerLetsGo(t *testing.T) {
	t.Parallel()
	f := setup(t)
	task := f.task(1000)
	stop := f.start(f.worker("one"))
	f.poll("some steps", func() bool { return f.now(task).Checkpoint > 3 })
	stop()
	now := f.now(task)
	if now.State != tasks.Processing || now.Owner != nil || now.Stalls != 0 {
		t.Errorf("%+v", now)
	}
	f.wantCounted(task, int(now.Checkpoint))
	if next := f.take(f.worker("two")); next.Takeovers != 0 || next.Checkpoint != now.Checkpoint {
		t.Errorf("%+v", next.Task)
	}
}

// A task that only waits for what nobody knows says so, and goes on by itself.
func TestWaitingTaskGoesOnByItself(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var known atomic.Bool
	kind := f.kind()
	kind.Step = func(ctx context.Context, owned *tasks.Owned) (tasks.Next, error) {
		if !known.Load() {
			return tasks.Wait(time.Millisecond, true), nil
		}
		return count(ctx, owned)
	}
	task := f.task(1)
	stop := f.start(f.worker("one", kind))
	f.poll("the unknown", func() bool { return f.now(task).State == tasks.OutcomeUnknown })
	f.poll("some looks", func() bool { return f.now(task).Token > 3 })
	if now := f.now(task); now.State != tasks.OutcomeUnknown || now.ResultExpiresAt != nil || now.EndedAt != nil || now.Stalls > 1 {
		t.Errorf("%+v", now)
	}
	known.Store(true)
	f.poll("the end", func() bool { return f.now(task).State == tasks.Succeeded })
	stop()
	f.wantCounted(task, 1)
}

// An operator ends a task, whoever works on it.
func TestCancelFencesTheOwner(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.exec("INSERT INTO tenants (tenant_id, name, created_at) VALUES ($1, 'acme', now())", f.tenant)
	task := f.task(3)
	owned := f.take(f.worker("the owner"))
	f.must(countOne(t.Context(), owned))
	cancel := func() error {
		return f.operate(func(ctx context.Context, tx *postgres.Tx) error {
			_, err := tasks.Cancel(ctx, tx, by, f.policy, task.Tenant, task.ID)
			return err
		})
	}
	f.must(cancel())
	if err := countOne(t.Context(), owned); !errors.Is(err, tasks.ErrFenced) {
		t.Errorf("the owner's next write: %v", err)
	}
	f.must(cancel()) // said twice
	now := f.now(task)
	if now.State != tasks.Failed || now.Retryable || *now.Reason != tasks.ReasonCancelled || now.Progress.Succeeded != 1 {
		t.Errorf("%+v", now)
	}
	if n := f.count("SELECT count(*) FROM audit_log WHERE action = 'task.cancelled' AND subject_id = $1", task.ID); n != 1 {
		t.Errorf("%d entries in the audit log", n)
	}
	f.wantFault(f.operate(func(ctx context.Context, tx *postgres.Tx) error {
		_, err := tasks.RetryBy(ctx, tx, by, task.Tenant, task.ID)
		return err
	}), fault.TaskNotRetryable)
	f.wantNoTask(f.worker("another"))
}

// After their retention results are gone, whether they were removed yet or not; the task says that it was.
func TestResultsExpireAndArePurged(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var forgotten []uuid.UUID
	kind := f.kind()
	kind.Forget = func(_ context.Context, _ postgres.DBTX, task tasks.Expired) (more bool, err error) {
		forgotten = append(forgotten, task.ID)
		return len(forgotten) < 3, nil
	}
	task, running := f.task(1), f.task(1)
	f.exec("UPDATE tasks SET due_at = now() + interval '1 hour' WHERE id = $1", running.ID)
	owned := f.take(f.worker("one"))
	f.must(countOne(t.Context(), owned))
	f.must(owned.Finish(t.Context(), tasks.Done()))
	f.must(f.find(task))
	purger := tasks.NewPurger(f.db, []tasks.Kind{kind}, nil)
	if n, err := purger.Purge(t.Context()); n != 0 || err != nil {
		t.Errorf("purged %d before its time, %v", n, err)
	}
	f.exec("UPDATE tasks SET result_expires_at = now() WHERE id = $1", task.ID)
	f.wantFault(f.find(task), fault.TaskExpired)
	if n, err := purger.Purge(t.Context()); n != 1 || err != nil || len(forgotten) != 3 || forgotten[0] != task.ID {
		t.Errorf("purged %d, %v: %v", n, err, forgotten)
	}
	f.wantFault(f.find(task), fault.TaskExpired)
	if n, err := purger.Purge(t.Context()); n != 0 || err != nil {
		t.Errorf("purged %d again, %v", n, err)
	}
	f.must(f.find(running))
}

// The tenants take turns: one that has thousands of tasks does not delay another's one.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for range 40 {
		f.task(1)
	}
	for range 3 { // some are before the first in the order of tenants, some behind
		other, _ := f.accept(f.request(uuid.New()), 1)
		var order []uuid.UUID
		kind := f.kind()
		var mu sync.Mutex
		kind.Step = func(_ context.Context, owned *tasks.Owned) (tasks.Next, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, owned.Tenant)
			return tasks.Done(), nil
		}
		stop := f.start(f.worker("one", kind))
		f.poll("the other tenant's task", func() bool { return f.now(other).State == tasks.Succeeded })
		stop()
		for i, tenant := range order {
			if tenant == other.Tenant && i > 2 {
				t.Errorf("%d tasks of the first tenant came before it", i)
			}
		}
	}
}

// Many workers, each in a life of its own, and tasks enough for all: each step counts once.
func TestManyWorkersShareTheTasks(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const n = 60
	var all []tasks.Task
	for range n {
		all = append(all, f.task(3))
	}
	var workers []*tasks.Worker
	for i := range 8 {
		workers = append(workers, f.worker(name(i)))
	}
	stop := f.start(workers...)
	f.poll("the end of all", func() bool {
		return f.count("SELECT count(*) FROM tasks WHERE state = 'succeeded' AND attempt_token = 1") == n
	})
	stop()
	for _, task := range all {
		f.wantCounted(task, 3)
	}
	if used := f.count("SELECT count(*) FROM tasks WHERE fenced_writes > 0 OR takeovers > 0"); used != 0 {
		t.Error(fmt.Sprint(used, " tasks were taken over"))
	}
}
