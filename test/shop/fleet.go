package shop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/faultpoint"
)

// Fleet is some servers of one shop that are killed under their load and started again, a given number of times. Then
// they stay.
type Fleet struct {
	Through string // address of a proxy to reach the database through

	tb      testing.TB
	shop    *Shop
	kills   int64
	left    chan struct{} // one for each death to come
	killed  atomic.Int64
	clients []atomic.Pointer[orderoncetest.Client]
}

// NewFleet is a fleet of so many servers.
func NewFleet(tb testing.TB, s *Shop, servers, kills int) *Fleet {
	tb.Helper()
	f := &Fleet{
		tb: tb, shop: s, kills: int64(kills), left: make(chan struct{}, kills),
		clients: make([]atomic.Pointer[orderoncetest.Client], servers),
	}
	for range kills {
		f.left <- struct{}{}
	}
	return f
}

// Serve keeps the servers up until ctx ends. The n-th listens on the n-th address, or anywhere where there is none.
func (f *Fleet) Serve(ctx context.Context, addresses ...string) {
	var all sync.WaitGroup
	for i := range f.clients {
		o := Options{Through: f.Through}
		if i < len(addresses) {
			o.Args = append(o.Args, "--listen="+addresses[i])
		}
		if i%2 == 1 { // every other one commits each unit by itself: the two kinds must get along
			o.Args = append(o.Args, "--shared-commits=0")
		}
		all.Go(func() { f.keepServing(ctx, &f.clients[i], o) })
	}
	all.Wait()
}

// Client reaches one of the servers as it was when it was last seen; nil where that one has never been up.
func (f *Fleet) Client() *orderoncetest.Client { return f.clients[rand.N(len(f.clients))].Load() }

// Killed is how many servers have been killed.
func (f *Fleet) Killed() int { return int(f.killed.Load()) }

// GoingOn says whether there are kills to come.
func (f *Fleet) GoingOn() bool { return f.killed.Load() < f.kills && !f.tb.Failed() }

func (f *Fleet) keepServing(ctx context.Context, client *atomic.Pointer[orderoncetest.Client], o Options) {
	for ctx.Err() == nil {
		doomed, life := false, time.Hour
		o.Faults = nil
		select {
		case <-f.left:
			doomed = true
			o.Faults, life = death()
		default:
		}
		server, err := f.shop.TryServe(f.tb, o)
		if err != nil { // no database just now, or a cut
			if doomed {
				f.left <- struct{}{}
			}
			continue
		}
		client.Store(server.Client)
		timer := time.NewTimer(life)
		select {
		case <-timer.C:
		case <-server.Ended():
		case <-ctx.Done():
		}
		timer.Stop()
		server.Kill()
		if doomed {
			f.killed.Add(1)
		} else if ctx.Err() == nil {
			f.tb.Error("a server that nobody killed has ended")
		}
	}
}

// death draws how a server ends: by its own hand between two steps of a request, or from outside at any time. One that
// does not come to its fault point is killed from outside after all.
func death() (faults []string, life time.Duration) {
	if rand.N(2) == 0 {
		return nil, 30*time.Millisecond + rand.N(400*time.Millisecond)
	}
	points := []faultpoint.Point{
		faultpoint.BeforeClaim, faultpoint.AfterClaim, faultpoint.AfterCommit, faultpoint.BeforeResponse,
	}
	return []string{fmt.Sprintf("%s=kill@%d", points[rand.N(len(points))], 1+rand.N(40))}, 2 * time.Second
}
