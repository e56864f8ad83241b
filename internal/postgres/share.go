package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
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

// sharers are the units that wait for the next shared commit. There is no timer: what comes while one is under way is
// the next one, and a unit that finds none under way goes at once.
type sharers struct {
	db      *DB
	mu      sync.Mutex
	waiting []*sharer
	active  int // shared commits under way
}

// sharer is one unit on its way.
type sharer struct {
	tenant uuid.UUID
	rows   []Staged
	err    error
	done   chan struct{}
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

// commit shares the unit's commit with whoever else is there. The caller does the work of the batch where nobody is
// at it: one that comes alone is not handed over. Where ctx ends first, a unit that still waits is taken out and was
// never written; of one that is under way only the database knows.
func (s *sharers) commit(ctx context.Context, unit *sharer) error {
	unit.done = make(chan struct{})
	s.mu.Lock()
	s.waiting = append(s.waiting, unit)
	lead := s.active == 0 || s.active < s.db.config.SharedCommits && len(s.waiting) >= sharedCrowd
	if lead {
		s.active++
	}
	s.mu.Unlock()
	if lead {
		s.flush(s.next()) //nolint:contextcheck // a batch is of many callers: none of them may cancel it
		if more := s.next(); more != nil {
			go s.run(more) //nolint:contextcheck // as above
		}
	}
	select {
	case <-unit.done:
		return unit.err
	case <-ctx.Done():
		if s.withdraw(unit) {
			return fault.Later(fault.Busy, "wait for a shared commit", ctx.Err())
		}
		return commitUnknown(ctx.Err())
	}
}

// withdraw takes a unit out that waits, and says whether it did.
func (s *sharers) withdraw(unit *sharer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, unit)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return true
}

// run flushes batches until nobody waits.
func (s *sharers) run(batch []*sharer) {
	for ; batch != nil; batch = s.next() {
		s.flush(batch)
	}
}

// next takes the units of the next batch, or says that nobody is at it any more. Where more wait than a batch holds,
// the tenants take turns.
func (s *sharers) next() []*sharer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.active--
		return nil
	}
	batch := s.waiting
	if len(batch) <= sharedUnits {
		s.waiting = nil
		return batch
	}
	turn := map[uuid.UUID]int{}
	turns := make(map[*sharer]int, len(batch))
	for _, unit := range batch {
		turns[unit] = turn[unit.tenant]
		turn[unit.tenant]++
	}
	slices.SortStableFunc(batch, func(a, b *sharer) int { return turns[a] - turns[b] })
	s.waiting = slices.Clone(batch[sharedUnits:])
	return batch[:sharedUnits]
}

// flush commits a batch and tells each unit what became of it.
func (s *sharers) flush(batch []*sharer) {
	for try := 0; len(batch) > 0; try++ {
		if try == sharedTries {
			settle(batch, errAlone)
			return
		}
		batch = s.db.commitShared(batch)
	}
}

func settle(units []*sharer, err error) {
	for _, unit := range units {
		unit.err = err
		close(unit.done)
	}
}

// entry is one row of a batch with the units that it belongs to: several only where they make the same check.
type entry struct {
	Staged
	row    Sharable
	order  string
	tenant uuid.UUID
	units  []*sharer
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
	entries := sorted(batch)
	var p pipeline
	p.control(begin)
	p.control(lockTimeout(sharedLockTimeout))
	controls := len(p.kinds)
	for _, e := range entries {
		if err := p.row(ctx, e.Staged); err != nil {
			return alone(batch, e.units)
		}
	}
	counts, err := p.exec(ctx, session)
	if err != nil {
		switch failed := len(counts) - controls; {
		case errors.Is(err, ErrTransient):
			settle(batch, err)
			return nil
		case failed < 0 || failed >= len(entries):
			settle(batch, errAlone) // an error without an index, such as one of encoding
			return nil
		default:
			return alone(batch, entries[failed].units)
		}
	}
	refused := map[*sharer]*Kind{}
	for i, e := range entries {
		for _, unit := range e.units {
			if _, already := refused[unit]; counts[controls+i] == 0 && !already {
				refused[unit] = e.Kind
			}
		}
	}
	err = db.finishShared(ctx, session, entries, counts[controls:], refused, len(batch))
	for _, unit := range batch {
		// A refused unit has its answer whatever became of the others' COMMIT: told "unknown", whoever runs it would
		// take the record that refused it for somebody else's, though it may be of an earlier COMMIT of its own.
		if by := refused[unit]; by != nil {
			settle([]*sharer{unit}, &Refused{By: by})
		} else {
			settle([]*sharer{unit}, err)
		}
	}
	return nil
}

// finishShared takes back what the refused units wrote and commits the others, in one trip.
func (db *DB) finishShared(
	ctx context.Context, session *session, entries []*entry, counts []int64, refused map[*sharer]*Kind, units int,
) error {
	if len(refused) == units {
		return nil // nothing to commit: the rollback takes all back
	}
	var p pipeline
	for i, e := range slices.Backward(entries) {
		if counts[i] == 0 || refused[e.units[0]] == nil {
			continue
		}
		p.kind = e.Kind
		if err := e.row.Undo(ctx, &p); err != nil {
			return fault.Wrap(fault.Internal, "take back "+e.Kind.Name, err)
		}
	}
	faultpoint.Hit(faultpoint.AfterClaim)
	p.control(commit)
	_, err := p.exec(ctx, session)
	if err != nil {
		return commitUnknown(err)
	}
	if p.last != commit {
		return errAborted
	}
	faultpoint.Hit(faultpoint.AfterCommit)
	return nil
}

// alone sends these units to commit by themselves and returns the others of the batch.
func alone(batch, units []*sharer) (others []*sharer) {
	settle(units, errAlone)
	return slices.DeleteFunc(batch, func(unit *sharer) bool { return slices.Contains(units, unit) })
}

// sorted lists the rows of a batch in lock order, equal checks as one.
func sorted(batch []*sharer) []*entry {
	var entries []*entry
	for _, unit := range batch {
		for _, row := range unit.rows {
			sharable := row.Row.(Sharable) // or the unit would not be here
			entries = append(entries, &entry{
				Staged: row, row: sharable, order: sharable.LockOrder(), tenant: unit.tenant, units: []*sharer{unit},
			})
		}
	}
	slices.SortStableFunc(entries, func(a, b *entry) int {
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
			merged[n-1].units = append(merged[n-1].units, e.units...)
			continue
		}
		merged = append(merged, e)
	}
	return merged
}

func (e *entry) same(other *entry) bool {
	return e.Kind == other.Kind && e.tenant == other.tenant && e.order == other.order
}
