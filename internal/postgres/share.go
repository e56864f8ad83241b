package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/faultpoint"
)

// Units that only write may share one transaction and one commit: round trips and transactions are what an order
// costs, and twenty orders then cost little more than one. What a unit is told is what it would be told alone.
//
// The rows of all units are sent in one lock order, in one trip. Row counts name the units that a table refused; their
// other rows are taken back in the same transaction, unseen by anyone, and the second trip commits the others. A unit
// whose row waits for another transaction, or fails, ends the shared one after a moment; it runs alone, and the others
// are sent again.

const (
	// sharedUnits is how many units share a commit at most.
	sharedUnits = 128
	// sharedCrowd is how many units must wait for another shared commit to begin beside one that is under way: PostgreSQL
	// then works on one while the server answers the other. Fewer would only make the commits smaller.
	sharedCrowd = 16
	// sharedTries bounds how often a batch is sent again without the unit that failed it. Then all run alone.
	sharedTries = 3
	// sharedLockTimeout is how long a batch waits for one unit's row before it goes on without it.
	sharedLockTimeout = 20 * time.Millisecond
)

// Sharable is a row that can be a part of a shared commit. A unit with another kind of row runs alone.
type Sharable interface {
	Row
	// LockOrder sorts the rows of one kind and tenant, so that two shared commits never wait for each other in a circle.
	// Rows of a Check kind with equal orders are one row.
	LockOrder() string
	// Undo queues the statement that takes the row back, in the transaction that wrote it; none for a row of a Check kind.
	Undo(ctx context.Context, db DBTX) error
}

// sharer is one unit on its way.
type sharer struct {
	place
	rows   []Staged
	ctx    context.Context // of its trace: the batch that it is in has a context of its own
	traced bool            // the trace shows details
}

// errAlone tells a unit to commit by itself.
var errAlone = errors.New("this unit does not share")

// sharable says whether all rows of a unit can be part of a shared commit.
func sharable(rows []Staged) bool {
	for _, row := range rows {
		if _, ok := row.Row.(Sharable); !ok {
			return false
		}
	}
	return true
}

// share commits the unit together with whoever else is there. Where ctx ends first, a unit that still waits was never
// written; of one that is under way only the database knows.
func (db *DB) share(ctx context.Context, unit *sharer) error {
	err := db.commits.join(ctx, unit)
	switch {
	case errors.Is(err, errWithdrawn):
		return err
	case unit.settled() && !errors.Is(unit.err, errPanicked): // be it in the moment after ctx ended
		return unit.err
	default:
		return commitUnknown(err)
	}
}

// flush commits a batch and tells each unit what became of it.
func (db *DB) flush(batch []*sharer) {
	for try := 0; len(batch) > 0; try++ {
		if try == sharedTries {
			settle(batch, errAlone)
			return
		}
		batch = db.commitShared(batch)
	}
}

// entry is one row of a batch with the members that it belongs to: several only where they make the same check.
type entry[T member] struct {
	Staged
	row     Sharable // nil for the check of a read that cannot be one with another
	order   string
	tenant  uuid.UUID
	members []T
}

// commitShared tries to commit the units in one transaction. Those that it has an answer for are settled; it returns
// the others, to be sent again.
//
// It is bounded by what PostgreSQL lets one statement take: a connection that has gone silent must not hold up every
// unit of the process for longer.
func (db *DB) commitShared(batch []*sharer) (again []*sharer) {
	ctx, cancel := context.WithTimeout(context.Background(), db.config.Statement)
	defer cancel()
	faultpoint.Hit(faultpoint.BeforeClaim)
	session, err := db.acquire(ctx)
	if err != nil {
		settle(batch, err)
		return nil
	}
	defer rollbackAndRelease(ctx, session)
	entries := sorted(batch, func(unit *sharer) []Staged { return unit.rows })
	var p pipeline
	p.control(begin)
	p.control(lockTimeout(sharedLockTimeout))
	p.control(named(tenantsOf(batch)...))
	controls := len(p.kinds)
	for _, e := range entries {
		if err := p.row(ctx, e.Staged); err != nil {
			return alone(batch, e.members)
		}
	}
	if slices.ContainsFunc(batch, func(unit *sharer) bool { return unit.traced }) {
		p.trip = &trip{}
	}
	counts, err := p.exec(ctx, session)
	p.tellUnits(entries, controls, err)
	if err != nil {
		switch failed := len(counts) - controls; {
		case errors.Is(err, ErrTransient):
			settle(batch, err)
			return nil
		case failed < 0 || failed >= len(entries):
			settle(batch, errAlone) // an error without an index, such as one of encoding
			return nil
		default:
			return alone(batch, entries[failed].members)
		}
	}
	refused := refusals(entries, counts[controls:])
	err = db.finishShared(ctx, session, p.trip.next(), entries, counts[controls:], refused, len(batch))
	for _, unit := range batch {
		// A refused unit has its answer whatever became of the others' COMMIT: told "unknown", whoever runs it would
		// take the record that refused it for somebody else's, though it may be of an earlier COMMIT of its own.
		if by := refused[unit]; by != nil {
			unit.settle(&Refused{By: by})
		} else {
			unit.settle(err)
		}
	}
	return nil
}

// finishShared takes back what the refused units wrote and commits the others, in one trip.
func (db *DB) finishShared(
	ctx context.Context, session *session, timed *trip, entries []*entry[*sharer], counts []int64,
	refused map[*sharer]*Kind, units int,
) error {
	if len(refused) == units {
		return nil // nothing to commit: the rollback takes all back
	}
	var p pipeline
	for i, e := range slices.Backward(entries) {
		if counts[i] == 0 || refused[e.members[0]] == nil {
			continue
		}
		p.kind = e.Kind
		if err := e.row.Undo(ctx, &p); err != nil {
			return fault.Wrap(fault.Internal, "take back "+e.Kind.Name, err)
		}
	}
	faultpoint.Hit(faultpoint.AfterClaim)
	p.control(commit)
	p.trip = timed
	_, err := p.exec(ctx, session)
	p.tellCommit(entries, refused, units-len(refused), err)
	if err != nil {
		return commitUnknown(err)
	}
	if p.last != commit {
		return errAborted
	}
	faultpoint.Hit(faultpoint.AfterCommit)
	db.watchers.tell(func(kind *Kind) bool {
		// From behind: those who are told of anything are told of events, which are sent last.
		for _, e := range slices.Backward(entries) {
			if e.Kind == kind && refused[e.members[0]] == nil {
				return true
			}
		}
		return false
	})
	return nil
}

// refusals names the kind of the first row that was not taken, for each member that has one.
func refusals(entries []*entry[*sharer], counts []int64) map[*sharer]*Kind {
	refused := map[*sharer]*Kind{}
	for i, e := range entries {
		for _, m := range e.members {
			if _, already := refused[m]; counts[i] == 0 && !already {
				refused[m] = e.Kind
			}
		}
	}
	return refused
}

// alone sends these units to commit by themselves and returns the others of the batch.
func alone(batch, units []*sharer) (others []*sharer) {
	settle(units, errAlone)
	return slices.DeleteFunc(batch, func(unit *sharer) bool { return slices.Contains(units, unit) })
}

// sorted lists the rows of a batch in lock order, equal checks as one.
func sorted[T member](batch []T, rowsOf func(T) []Staged) []*entry[T] {
	var entries []*entry[T]
	for _, unit := range batch {
		for _, row := range rowsOf(unit) {
			e := &entry[T]{Staged: row, tenant: unit.queued().tenant, members: []T{unit}}
			if e.row, _ = row.Row.(Sharable); e.row != nil {
				e.order = e.row.LockOrder()
			}
			entries = append(entries, e)
		}
	}
	slices.SortStableFunc(entries, func(a, b *entry[T]) int {
		if d := a.Kind.Rank - b.Kind.Rank; d != 0 {
			return d
		}
		if d := bytes.Compare(a.tenant[:], b.tenant[:]); d != 0 {
			return d
		}
		return strings.Compare(a.order, b.order)
	})
	merged := entries[:0]
	for _, e := range entries {
		if n := len(merged); e.Kind.Check && n > 0 && merged[n-1].same(e) {
			merged[n-1].members = append(merged[n-1].members, e.members...)
			continue
		}
		merged = append(merged, e)
	}
	return merged
}

func (e *entry[T]) same(other *entry[T]) bool {
	return e.row != nil && other.row != nil && e.Kind == other.Kind && e.tenant == other.tenant && e.order == other.order
}
