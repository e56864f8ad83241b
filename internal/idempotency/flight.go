package idempotency

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/telemetry"
)

// In one process the duplicates of a running request wait in memory and hold no connection: one leads, the others
// follow and are given the leader's committed answer. This saves connections and decides nothing; across processes,
// and for whoever leads, the primary key does.

// Bounds on who may wait. Past them a duplicate is told fault.InProgress at once.
const (
	followersPerScope  = 512
	followersPerTenant = 2048
)

// flights are the requests that lead in this process.
type flights struct {
	mu        sync.Mutex
	leaders   map[Scope]*flight
	followers map[uuid.UUID]int // waiting, by tenant
}

// flight is one leader's run. Its outcome and error may be read once landed is closed.
type flight struct {
	landed    chan struct{}
	request   *Request
	print     fingerprint
	followers int
	outcome   Outcome
	err       error
}

// join makes the caller the scope's leader (nil, nil), or a follower of the flight that it must leave.
func (f *flights) join(r *run) (*flight, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	scope := r.request.Scope
	ahead, ok := f.leaders[scope]
	if !ok {
		if f.leaders == nil {
			f.leaders, f.followers = map[Scope]*flight{}, map[uuid.UUID]int{}
		}
		f.leaders[scope] = &flight{landed: make(chan struct{}), request: r.request, print: r.print}
		return nil, nil
	}
	if ahead.followers >= followersPerScope || f.followers[scope.Tenant] >= followersPerTenant {
		return nil, inProgress("Too many duplicates of this request are waiting.")
	}
	ahead.followers++
	f.followers[scope.Tenant]++
	return ahead, nil
}

func (f *flights) leave(ahead *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ahead.followers--
	tenant := ahead.request.Scope.Tenant
	if f.followers[tenant]--; f.followers[tenant] == 0 {
		delete(f.followers, tenant)
	}
}

// land ends the leader's run. Where it failed, the first follower to join again leads.
func (f *flights) land(scope Scope, outcome Outcome, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	flight := f.leaders[scope]
	delete(f.leaders, scope)
	flight.outcome, flight.err = outcome, err
	close(flight.landed)
}

// Followers is how many requests of this process wait for the leader of their scope.
func (k *Keys) Followers() int {
	k.flights.mu.Lock()
	defer k.flights.mu.Unlock()
	n := 0
	for _, waiting := range k.flights.followers {
		n += waiting
	}
	return n
}

// follow waits for the leader and answers with its outcome, after the checks that every replay makes: the caller's
// parameters and the caller's rights of now. again says that the leader failed, and leadership is free.
func (r *run) follow(ctx context.Context, ahead *flight) (outcome Outcome, again bool, err error) {
	r.role = telemetry.RoleFollower
	began := time.Now()
	defer func() { r.waited += time.Since(began) }()
	timer := time.NewTimer(time.Until(r.waitUntil))
	defer timer.Stop()
	select {
	case <-ahead.landed:
	case <-timer.C:
		r.late = true
		return Outcome{}, false, inProgress("The first request with this key is still running.")
	case <-ctx.Done():
		return Outcome{}, false, fault.Later(fault.Busy, "wait for the first request", ctx.Err())
	}
	if ahead.err != nil {
		return Outcome{}, true, nil
	}
	if err := r.request.Authorise(ctx); err != nil {
		return Outcome{}, false, err
	}
	if ahead.print != r.print {
		return Outcome{}, false, r.reused(ahead.request.APIVersion, digest(ahead.request.Parameters))
	}
	outcome = ahead.outcome
	outcome.Replayed = true
	return outcome, false, nil
}

func inProgress(detail string) error {
	f := fault.New(fault.InProgress, detail)
	f.RetryAfter = time.Second
	return f
}
