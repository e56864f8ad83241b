package tasks_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
	"orderonce/internal/tasks"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

const patience = 30 * time.Second

// fixture is a database with tasks of one kind: each step adds one event, named by the task and the step's number, so that
// a step that counted twice is seen.
type fixture struct {
	t      *testing.T
	url    string
	db     *postgres.DB
	keys   *idempotency.Keys
	watch  *pgx.Conn // another session, for the test's own goroutine
	tenant uuid.UUID
	policy idempotency.Policy
}

func setup(t *testing.T) *fixture {
	t.Helper()
	return setupWith(t, time.Minute)
}

func setupWith(t *testing.T, lease time.Duration) *fixture {
	t.Helper()
	return setupOn(t, lease, postgrestest.URL(t))
}

func setupOn(t *testing.T, lease time.Duration, url string) *fixture {
	t.Helper()
	f := &fixture{t: t, url: url, tenant: uuid.Must(uuid.NewV7()), policy: idempotency.Policy{
		Retention: time.Hour, Wait: patience, MaxResponse: 64 << 10,
		Task: &idempotency.TaskPolicy{Lease: lease, ResultRetention: 2 * time.Hour, Poll: time.Second},
	}}
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: url, Role: postgres.Worker, MaxConns: 16, SharedCommits: postgrestest.SharedCommits(),
		Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	f.must(err)
	t.Cleanup(db.Close)
	f.db, f.keys = db, idempotency.New(db, patience, 100)
	f.watch, err = pgx.Connect(t.Context(), url)
	f.must(err)
	t.Cleanup(func() { _ = f.watch.Close(context.WithoutCancel(t.Context())) })
	return f
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.watch.Exec(f.t.Context(), sql, args...)
	f.must(err)
}

func (f *fixture) count(sql string, args ...any) (n int) {
	f.t.Helper()
	f.must(f.watch.QueryRow(f.t.Context(), sql, args...).Scan(&n))
	return n
}

func (f *fixture) poll(what string, reached func() bool) {
	f.t.Helper()
	postgrestest.Poll(f.t, what, reached)
}

// request is the first try of a new intent to have something counted.
func (f *fixture) request(tenant uuid.UUID) idempotency.Request {
	return idempotency.Request{
		Scope:      f.policy.Scope(tenant, uuid.New(), "count", idempotency.Key(uuid.NewString())),
		Policy:     f.policy,
		Parameters: &idempotency.Parameters{},
		Authorise:  func(context.Context) error { return nil },
	}
}

// accept promises, under the request's key, to make so many steps.
func (f *fixture) accept(request idempotency.Request, steps int32) (tasks.Task, idempotency.Outcome) {
	f.t.Helper()
	var task tasks.Task
	outcome, err := f.keys.Do(f.t.Context(), request, func(ctx context.Context, tx *postgres.Tx) (answer idempotency.Answer, err error) {
		task, err = tasks.Accept(ctx, tx, tasks.Acceptance{Scope: request.Scope, Principal: request.Scope.Principal, Total: steps})
		return idempotency.Answer{
			Status: 202, Body: []byte(task.ID.String()), Promise: true,
			Resource: &idempotency.Resource{Type: "task", ID: task.ID},
		}, err
	})
	f.must(err)
	return task, outcome
}

func (f *fixture) task(steps int32) tasks.Task {
	f.t.Helper()
	task, _ := f.accept(f.request(f.tenant), steps)
	return task
}

// now is the task as it is.
func (f *fixture) now(task tasks.Task) tasks.Task {
	f.t.Helper()
	var now tasks.Task
	f.must(f.db.Read(f.t.Context(), task.Tenant, func(ctx context.Context, db postgres.DBTX) (err error) {
		now, err = tasks.Look(ctx, db, task.Tenant, task.ID)
		return err
	}))
	return now
}

func (f *fixture) find(task tasks.Task) error {
	return f.db.Read(f.t.Context(), task.Tenant, func(ctx context.Context, db postgres.DBTX) error {
		_, err := tasks.Find(ctx, db, task.Tenant, task.ID)
		return err
	})
}

// kind counts.
func (f *fixture) kind() tasks.Kind {
	return tasks.Kind{Operation: "count", Policy: f.policy, Step: count, Forget: func(context.Context, postgres.DBTX, tasks.Expired) (bool, error) {
		return false, nil
	}}
}

func count(ctx context.Context, owned *tasks.Owned) (tasks.Next, error) {
	if owned.Checkpoint == owned.Progress.Total {
		return tasks.Done(), nil
	}
	return tasks.GoOn(), countOne(ctx, owned)
}

func countOne(ctx context.Context, owned *tasks.Owned) error {
	number := owned.Checkpoint + 1
	return tasks.Write(ctx, owned, func(ctx context.Context, w tasks.Fenced) error {
		w.Checkpoint(number, 1, 0)
		return outbox.Add(ctx, w.Tx, outbox.Event{
			Tenant: owned.Tenant, AggregateType: "task", AggregateID: owned.ID, Version: int64(number),
			Type: "counted", Payload: number, OccurredAt: time.Now(),
		})
	})
}

// worker is one of many. Only Run lets it look for tasks by itself.
func (f *fixture) worker(name string, kinds ...tasks.Kind) *tasks.Worker {
	if len(kinds) == 0 {
		kinds = []tasks.Kind{f.kind()}
	}
	return tasks.NewWorker(f.db, kinds, tasks.Options{Name: name, Log: slog.New(slog.NewTextHandler(f.t.Output(), nil))})
}

// start lets workers run until the returned function stops them, or the test ends.
func (f *fixture) start(workers ...*tasks.Worker) (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		all := make(chan struct{})
		for _, w := range workers {
			go func() {
				w.Run(ctx)
				all <- struct{}{}
			}()
		}
		for range workers {
			<-all
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	f.t.Cleanup(stop)
	return stop
}

func (f *fixture) take(w *tasks.Worker) *tasks.Owned {
	f.t.Helper()
	owned, err := w.Take(f.t.Context())
	f.must(err)
	if owned == nil {
		f.t.Fatal("there is no task to take")
	}
	return owned
}

func (f *fixture) wantNoTask(w *tasks.Worker) {
	f.t.Helper()
	if owned, err := w.Take(f.t.Context()); err != nil || owned != nil {
		f.t.Errorf("a task was taken: %+v, %v", owned, err)
	}
}

// endLease lets the lease be over, as time would.
func (f *fixture) endLease(task tasks.Task) {
	f.t.Helper()
	f.exec("UPDATE tasks SET due_at = now() - interval '1 second' WHERE id = $1 AND owner IS NOT NULL", task.ID)
}

// wantCounted wants each step of a task to have counted once.
func (f *fixture) wantCounted(task tasks.Task, steps int) {
	f.t.Helper()
	got := [2]int{
		f.count("SELECT count(*) FROM outbox_events WHERE aggregate_id = $1", task.ID),
		f.count("SELECT count(DISTINCT version) FROM outbox_events WHERE aggregate_id = $1", task.ID),
	}
	if got != [2]int{steps, steps} {
		f.t.Errorf("%d events of %d steps, want %d", got[0], got[1], steps)
	}
}

func (f *fixture) wantFault(err error, kind fault.Kind) {
	f.t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		f.t.Errorf("error %v, want %v", err, kind)
	}
}

// rows are all that a write could change, but the note of a fenced one.
func (f *fixture) rows() (all string) {
	f.t.Helper()
	f.must(f.watch.QueryRow(f.t.Context(), `SELECT concat(
		(SELECT string_agg((to_jsonb(t) - 'fenced_writes')::text, E'\n' ORDER BY id) FROM tasks t),
		(SELECT string_agg(to_jsonb(e)::text, E'\n' ORDER BY id) FROM outbox_events e),
		(SELECT string_agg(to_jsonb(r)::text, E'\n' ORDER BY idempotency_key) FROM idempotency_requests r))`).Scan(&all))
	return all
}

func (f *fixture) operate(work func(ctx context.Context, tx *postgres.Tx) error) error {
	return f.db.Run(f.t.Context(), postgres.Unit{LockTimeout: time.Second}, work)
}

func name(i int) string { return fmt.Sprint("worker-", i) }
