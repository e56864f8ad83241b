package tasks

import (
	"context"
	"errors"
	"time"

	"orderonce/internal/faultpoint"
	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks/internal/tasksdb"
)

// lockTimeout is how long a write waits for a row that another transaction holds. It is short: what is not done now is
// done at the next try, and until then the lease is held.
const lockTimeout = 2 * time.Second

// ErrFenced says that the task is not its worker's any more: the lease is over, or somebody else has taken it. Nothing of
// the write has happened, and there is nothing left to do but to stop.
var ErrFenced = errors.New("the task's lease is over")

// Owned is a task that this process may work on: until its lease is over, which only the database knows.
type Owned struct {
	Task   // as it was when it was taken, with what was written since
	kind   *Kind
	worker *Worker
	taken  time.Time // on the monotonic clock
	hold   *hold

	traceparent string // of the request that asked for it; empty where its trace was not kept
}

// Read runs queries on the task's tenant. What they find may be old by the time of a Write, which is where it counts.
func (o *Owned) Read(ctx context.Context, read func(context.Context, postgres.DBTX) error) error {
	return o.worker.db.Read(ctx, o.Tenant, read)
}

// Fenced is a unit of work that holds the task: nobody takes it before the unit ends. There is no way to one but Write, and
// a Kind has no other way to the database, so that a write without the fence does not compile.
type Fenced struct {
	Tx     *postgres.Tx
	owned  *Owned
	change **change
}

// change is what a unit changes about its task.
type change struct{ checkpoint, succeeded, rejected int32 }

// Write runs work in a unit whose first statement locks the task, wants its token and a lease that is not over, by
// the database's clock, and lengthens the lease; ErrFenced where it is not so. Work may run several times before one
// commit, so it must touch nothing outside its unit. An unknown COMMIT is the caller's to find out.
func Write(ctx context.Context, owned *Owned, work func(ctx context.Context, w Fenced) error) error {
	unit := postgres.Unit{
		Tenant: owned.Tenant, First: []postgres.Staged{{Kind: fenceKind, Row: fence{owned}}}, LockTimeout: lockTimeout,
	}
	var err error
	for try := range postgres.MaxTries {
		if try > 0 && postgres.Pause(ctx, try, err) != nil {
			break
		}
		began := time.Now()
		var done *change
		err = owned.worker.db.InTx(ctx, unit, func(ctx context.Context, tx *postgres.Tx) error {
			return work(ctx, Fenced{tx, owned, &done})
		})
		by := postgres.RefusedBy(err)
		switch {
		case err == nil:
			owned.hold.lengthen(time.Since(began))
			owned.changed(done)
			faultpoint.Hit(faultpoint.TaskWritten)
			return nil
		case by == fenceKind:
			owned.fenced(ctx)
			return ErrFenced
		case by != nil && !unit.Open:
			unit.Open = true // the work must learn what was refused while its transaction is open
		case !errors.Is(err, postgres.ErrTransient):
			return err
		}
	}
	return err
}

func (o *Owned) changed(done *change) {
	if done == nil {
		return
	}
	o.Checkpoint = done.checkpoint
	o.Progress.Succeeded += done.succeeded
	o.Progress.Rejected += done.rejected
	o.State, o.Stalls = Processing, 0
}

// fence is the statement that a write begins with.
type fence struct{ owned *Owned }

func (f fence) Write(ctx context.Context, db postgres.DBTX) error {
	return queries.HoldTask(ctx, db, tasksdb.HoldTaskParams{
		TenantID: f.owned.Tenant, ID: f.owned.ID, AttemptToken: f.owned.Token, Lease: f.owned.kind.Policy.Task.Lease,
	})
}

// fenced leaves a note for operators. It is no write of the task: it says that there was to be one.
func (o *Owned) fenced(ctx context.Context) {
	o.worker.fencedWrites.Add(1)
	o.worker.db.Telemetry().FencedWrite(ctx, o.Token)
	o.worker.log.WarnContext(ctx, "a write came too late and was fenced", o.attributes()...)
	ctx, cancel := postgres.Detach(context.WithoutCancel(ctx), lockTimeout)
	defer cancel()
	err := o.worker.db.InTx(ctx, postgres.Unit{Tenant: o.Tenant, LockTimeout: lockTimeout}, func(ctx context.Context, tx *postgres.Tx) error {
		tx.Stage(progressKind, fencedWrite{o.Task})
		return nil
	})
	if err != nil {
		o.worker.log.WarnContext(ctx, "a fenced write was not counted", "error", err)
	}
}

type fencedWrite struct{ Task }

func (f fencedWrite) Write(ctx context.Context, db postgres.DBTX) error {
	return queries.CountFencedWrite(ctx, db, tasksdb.CountFencedWriteParams{TenantID: f.Tenant, ID: f.ID, AttemptToken: f.Token})
}

// Checkpoint says that so much of the input need not be looked at again, and how many rows more have their outcome.
func (w Fenced) Checkpoint(checkpoint, succeeded, rejected int32) {
	*w.change = &change{checkpoint, succeeded, rejected}
	w.Tx.Stage(progressKind, progress{
		TenantID: w.owned.Tenant, ID: w.owned.ID, AttemptToken: w.owned.Token,
		Checkpoint: checkpoint, Succeeded: succeeded, Rejected: rejected,
	})
}

type progress tasksdb.CheckpointTaskParams

func (p progress) Write(ctx context.Context, db postgres.DBTX) error {
	return queries.CheckpointTask(ctx, db, tasksdb.CheckpointTaskParams(p))
}

// release lets go of the task until it is due again.
func (w Fenced) release(delay time.Duration, state State, stalled bool) {
	w.Tx.Stage(progressKind, released{
		TenantID: w.owned.Tenant, ID: w.owned.ID, AttemptToken: w.owned.Token,
		Delay: delay, State: string(state), Stalled: stalled,
	})
}

type released tasksdb.ReleaseTaskParams

func (r released) Write(ctx context.Context, db postgres.DBTX) error {
	return queries.ReleaseTask(ctx, db, tasksdb.ReleaseTaskParams(r))
}

// end ends the task, and with it the open retention of the record that promised it.
func (w Fenced) end(ctx context.Context, end Next) error {
	return endTask(ctx, w.Tx, w.owned.Task, w.owned.kind.Policy, end)
}

func endTask(ctx context.Context, tx *postgres.Tx, task Task, policy idempotency.Policy, end Next) error {
	params := tasksdb.EndTaskParams{
		TenantID: task.Tenant, ID: task.ID, AttemptToken: task.Token,
		State: string(end.state), Retryable: end.retryable, Retention: policy.Task.ResultRetention,
	}
	if end.state == Failed {
		params.Reason = &end.reason
	}
	tx.Stage(progressKind, ended(params))
	db, err := tx.DB(ctx)
	if err != nil {
		return err
	}
	return idempotency.EndRetention(ctx, db, task.scope(), policy.Keep())
}

type ended tasksdb.EndTaskParams

func (e ended) Write(ctx context.Context, db postgres.DBTX) error {
	return queries.EndTask(ctx, db, tasksdb.EndTaskParams(e))
}
