package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/google/uuid"

	"orderonce/internal/fault"
)

// queue gathers what may share a round trip into batches. There is no timer: what comes while batches are under way is
// the next one, and what finds none under way goes at once.
type queue[T member] struct {
	// limit is how many batches are under way at most, size how many members one has at most.
	limit, size int
	// crowd is how many must wait for a batch to begin beside another.
	crowd int
	// do settles every member of a batch.
	do func(batch []T)

	mu      sync.Mutex
	waiting []T
	active  int // batches under way
}

// member is something that waits its turn in a queue.
type member interface {
	comparable
	queued() *place
}

// place is a member's place in its queue: it embeds one.
type place struct {
	tenant uuid.UUID
	done   chan struct{}
	err    error // once done is closed
}

func newPlace(tenant uuid.UUID) place { return place{tenant: tenant, done: make(chan struct{})} }

func (p *place) queued() *place { return p }

func (p *place) settle(err error) {
	p.err = err
	close(p.done)
}

func (p *place) settled() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func settle[T member](members []T, err error) {
	for _, m := range members {
		m.queued().settle(err)
	}
}

// errWithdrawn marks a member that was taken out of the queue before its turn: it was never sent.
var errWithdrawn = errors.New("withdrawn before its turn")

// join waits for the member to be settled and returns its error. The caller does the work of a batch where it may
// begin one: a member that comes alone is not handed over. Where ctx ends first, a member that still waits is taken out
// with errWithdrawn; of one that is under way the error is ctx's own, and whoever asked may go on waiting for it.
func (q *queue[T]) join(ctx context.Context, m T) error {
	if batch := q.enter(m); batch != nil {
		q.lead(batch)
	}
	p := m.queued()
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		if q.withdraw(m) {
			return fault.Later(fault.Busy, "wait for a shared round trip", errors.Join(errWithdrawn, ctx.Err()))
		}
		return ctx.Err()
	}
}

// enter lines the member up, and returns the batch that its caller is to do, if any. The batch is taken in the same
// breath: another leader could come first otherwise, and a leader without a batch would be counted out twice.
func (q *queue[T]) enter(m T) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, m)
	if q.active > 0 && (q.active >= q.limit || len(q.waiting) < q.crowd) {
		return nil
	}
	q.active++
	return q.take()
}

// lead does the batch and hands the rest to a goroutine.
func (q *queue[T]) lead(batch []T) {
	q.run(batch)
	if more := q.next(); more != nil {
		go func() {
			for batch := more; batch != nil; batch = q.next() {
				q.run(batch)
			}
		}()
	}
}

// errPanicked is what the others of a batch learn of it where one of its members panicked.
var errPanicked = errors.New("a shared round trip panicked")

// run does a batch. A panic, which only a member's own code can cause, must not leave the others waiting for ever.
func (q *queue[T]) run(batch []T) {
	members := slices.Clone(batch) // do takes those out that it has settled
	defer func() {
		bug := recover()
		if bug == nil {
			return
		}
		err := fmt.Errorf("%w: %v\n%s", errPanicked, bug, debug.Stack())
		for _, m := range members {
			if !m.queued().settled() {
				m.queued().settle(err)
			}
		}
	}()
	q.do(batch)
}

func (q *queue[T]) withdraw(m T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, m)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// next takes the next batch, or says that the caller's was the last.
func (q *queue[T]) next() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.active--
		return nil
	}
	return q.take()
}

// take takes the members of a batch out of those that wait. Where more wait than a batch holds, the tenants take turns.
// The caller holds the lock.
func (q *queue[T]) take() []T {
	batch := q.waiting
	if len(batch) <= q.size {
		q.waiting = nil
		return batch
	}
	round := map[uuid.UUID]int{}
	rounds := make(map[T]int, len(batch))
	for _, m := range batch {
		tenant := m.queued().tenant
		rounds[m] = round[tenant]
		round[tenant]++
	}
	slices.SortStableFunc(batch, func(a, b T) int { return rounds[a] - rounds[b] })
	q.waiting = slices.Clone(batch[q.size:])
	return batch[:q.size]
}
