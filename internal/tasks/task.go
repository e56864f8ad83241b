// Package tasks owns long work: what was accepted behind a 202, who may work on it now, and how far it has come. A
// worker owns a task through a lease and a token, and every write of a task goes through Write, which checks both
// in the write's own transaction. It does not know what the work is: each operation brings that as a Kind, which gets
// no database but through the task that it works on. No clock but the database's decides who owns a task.
package tasks

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks/internal/tasksdb"
)

// State is where a task stands, as clients see it.
type State string

const (
	Processing     State = "processing"
	OutcomeUnknown State = "outcome_unknown" // only waits for what nobody can tell yet; goes on by itself once somebody can
	Succeeded      State = "succeeded"       // done; its rows may have been rejected one by one
	Failed         State = "failed"
)

// Ended says whether there are results to keep, and nothing more to do.
func (s State) Ended() bool { return s == Succeeded || s == Failed }

// Task is long work that was accepted.
type Task struct {
	Tenant, ID   uuid.UUID
	Operation    string // that accepted it
	Principal    uuid.UUID
	Options      json.RawMessage // of the operation
	State        State
	Retryable    bool    // failed, and may be sent on its way again
	Reason       *string // why it failed
	Progress     Progress
	Checkpoint   int32 // how much of its input the operation need not look at again
	Token        int64 // grows with each taking, and is checked by each write
	Takeovers    int32 // takings from an owner who had not let go
	Stalls       int32 // takings since the last checkpoint
	FencedWrites int32 // that came from an owner of before, and changed nothing
	Owner        *string
	// DueAt is the end of the lease where there is an owner; otherwise the time from which the task may be taken.
	DueAt           *time.Time
	CreatedAt       time.Time
	UpdatedAt       time.Time
	EndedAt         *time.Time
	ResultExpiresAt *time.Time
	// ReadAt is the database's clock when this was read, for what is left of a lease or a retention.
	ReadAt time.Time

	record record
}

// record is the key's record of the answer that promised the task.
type record struct {
	principal uuid.UUID // nil where the whole tenant shares its keys
	key       idempotency.Key
}

// Progress counts a task's rows.
type Progress struct{ Total, Succeeded, Rejected int32 }

// Done is how many rows have their outcome.
func (p Progress) Done() int32 { return p.Succeeded + p.Rejected }

// Expired says whether the results have outlived their retention.
func (t Task) Expired() bool { return t.ResultExpiresAt != nil && !t.ResultExpiresAt.After(t.ReadAt) }

// LeaseLeft is how much of a lease was left when the task was read; zero where it has no owner, or one that is late.
func (t Task) LeaseLeft() time.Duration {
	if t.Owner == nil || t.DueAt == nil {
		return 0
	}
	return max(t.DueAt.Sub(t.ReadAt), 0)
}

func (t Task) scope() idempotency.Scope {
	return idempotency.Scope{Tenant: t.Tenant, Principal: t.record.principal, Operation: t.Operation, Key: t.record.key}
}

var queries = tasksdb.New()

var (
	taskKind = &postgres.Kind{Name: "task", Rank: postgres.RankTask, Busy: fault.Busy}
	// fenceKind is of the rank of a claim: it decides whether a unit may happen at all.
	fenceKind = &postgres.Kind{Name: "task fence", Rank: postgres.RankClaim, Busy: fault.Busy}
	// progressKind's rows change the task that the fence holds.
	progressKind = &postgres.Kind{Name: "task progress", Rank: postgres.RankResult, Busy: fault.Busy}
)

// read is a row with the database's clock.
type read = tasksdb.ReadTaskRow

func fromRow(row read) Task {
	return Task{
		Tenant: row.TenantID, ID: row.ID, Operation: row.Operation, Principal: row.PrincipalID, Options: row.Options,
		State: State(row.State), Retryable: row.Retryable, Reason: row.Reason,
		Progress:   Progress{Total: row.Total, Succeeded: row.Succeeded, Rejected: row.Rejected},
		Checkpoint: row.Checkpoint, Token: row.AttemptToken, Takeovers: row.Takeovers, Stalls: row.Stalls,
		FencedWrites: row.FencedWrites, Owner: row.Owner, DueAt: row.DueAt,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, EndedAt: row.EndedAt, ResultExpiresAt: row.ResultExpiresAt,
		ReadAt: row.ReadAt,
		record: record{row.KeyPrincipalID, idempotency.Key(row.IdempotencyKey)},
	}
}
