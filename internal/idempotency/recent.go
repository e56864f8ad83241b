package idempotency

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// rememberedBody bounds the bodies that are kept in memory; a longer one is read again.
	rememberedBody = 4 << 10
	// clockDoubt is how far this process's clock may be from the database's, which alone knows when a key expires.
	clockDoubt = time.Minute
)

// recent are outcomes that this process has seen. They never change while their keys live, so a replay from memory
// needs nothing of the database but the caller's checks.
type recent struct {
	outcomes *lru.Cache[Scope, memory] // nil where nothing is remembered
}

type memory struct {
	print   fingerprint
	outcome Outcome
}

func newRecent(size int) recent {
	if size == 0 {
		return recent{}
	}
	outcomes, err := lru.New[Scope, memory](size)
	if err != nil {
		panic(err) //nolint:forbidigo // a size below zero, which no caller can mean
	}
	return recent{outcomes}
}

func (m recent) keep(scope Scope, print fingerprint, outcome Outcome) {
	promise := outcome.Expires.IsZero() // and when that is forgotten, only the database will know
	if m.outcomes != nil && len(outcome.Body) <= rememberedBody && !promise {
		m.outcomes.Add(scope, memory{print, outcome})
	}
}

func (m recent) find(scope Scope) (memory, bool) {
	if m.outcomes == nil {
		return memory{}, false
	}
	return m.outcomes.Get(scope)
}

// answers says whether this is the outcome of the very request, and of a key that will not expire soon.
func (m memory) answers(print fingerprint) bool {
	return m.print == print && time.Until(m.outcome.Expires) >= clockDoubt
}
