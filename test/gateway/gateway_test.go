// Package gateway puts a real nginx that replays POST in front of two servers, and kills them. A gateway's replay is a
// retry that no client has asked for: it must be as harmless as the client's own.
//
// The short form of TestOrdersThroughAGateway is part of every run. The long one:
//
//	go test ./test/gateway -orders 500 -kills 50 -timeout 20m -v
package gateway

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/faultpoint"
	"orderonce/internal/postgres/postgrestest"
	"orderonce/test/shop"
)

func TestMain(m *testing.M) { postgrestest.Main(m, orderoncetest.RemoveBinaries) }

var (
	orders = flag.Int("orders", 100, "how many orders TestOrdersThroughAGateway places at least")
	kills  = flag.Int("kills", 10, "how often it kills a server meanwhile")
)

func order(key string) string {
	return orderoncetest.Order(map[string]any{"metadata": map[string]any{"key": key}})
}

// The client sees nothing of a server that is killed between COMMIT and answer: the gateway asks the other one.
func TestAnswerCutAfterTheCommitIsReplayedByTheGateway(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*testing.T, *shop.Shop) (address string){
		"kill -9 of the server": func(t *testing.T, s *shop.Shop) string {
			t.Helper()
			return host(s.Serve(t, shop.Options{Faults: []string{string(faultpoint.BeforeResponse) + "=kill"}}))
		},
		"cut between server and gateway": func(t *testing.T, s *shop.Shop) string {
			t.Helper()
			wire := shop.NewNetwork(t, host(s.Serve(t, shop.Options{})))
			wire.Down.CutNext()
			t.Cleanup(func() {
				if wire.Down.Cuts() != 1 {
					t.Errorf("%d answers were cut", wire.Down.Cuts())
				}
			})
			return wire.Address
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shop.Open(t)
			other := s.Serve(t, shop.Options{})
			client := open(t, s.Token, cut(t, s), host(other)+" backup")
			key := orderoncetest.NewKey()
			a := client.Place(t, key, order(key))
			if a.Status != 201 || !a.Replayed() {
				t.Errorf("replayed=%v %d %s", a.Replayed(), a.Status, a.Body)
			}
			if again := client.Place(t, key, order(key)); again.Body != a.Body || !again.Replayed() {
				t.Errorf("replayed=%v %d %s", again.Replayed(), again.Status, again.Body)
			}
			s.WantAccount(t, shop.Balanced(1, 0))
		})
	}
}

// A server that is slow is given up by the gateway and works on: what the gateway asked the other server for meanwhile
// is the same order.
func TestSlowFirstIsAskedForTwiceByTheGateway(t *testing.T) {
	t.Parallel()
	s := shop.Open(t)
	held := t.TempDir() + "/held"
	slow := s.Serve(t, shop.Options{Faults: []string{string(faultpoint.AfterClaim) + "=pause:" + held}})
	other := s.Serve(t, shop.Options{})
	client := open(t, s.Token, host(slow), host(other)+" backup")
	key := orderoncetest.NewKey()
	if a := client.Place(t, key, order(key)); a.Status != 504 {
		t.Fatalf("the gateway's patience ends at both servers before either can answer, but: %d %s", a.Status, a.Body)
	}
	release(t, held)
	a := insist(t.Context(), t, client, key)
	if a.Status != 201 || !a.Replayed() {
		t.Errorf("replayed=%v %d %s", a.Replayed(), a.Status, a.Body)
	}
	s.WantAccount(t, shop.Balanced(1, 0))
}

// Whatever the gateway replays and whenever servers are killed: each client has one answer, and there are as many
// orders and events as clients that wanted one.
func TestOrdersThroughAGateway(t *testing.T) {
	t.Parallel()
	s := shop.Open(t)
	fleet := shop.NewFleet(t, s, 2, *kills)
	addresses := []string{freeAddress(t), freeAddress(t)}
	client := open(t, s.Token, addresses...)
	served, stop := context.WithCancel(t.Context())
	var servers, clients sync.WaitGroup
	servers.Go(func() { fleet.Serve(served, addresses...) })

	var begun, tries atomic.Int64
	var answers sync.Map // key to the first answer that its client got
	for range 8 {
		clients.Go(func() {
			for begun.Add(1) <= int64(*orders) || fleet.GoingOn() {
				key := orderoncetest.NewKey()
				a := insist(t.Context(), t, client, key, &tries)
				answers.Store(key, a.Body)
			}
		})
	}
	clients.Wait()

	// Once more, for everybody: the same bytes, marked as a replay.
	placed := 0
	answers.Range(func(key, body any) bool {
		placed++
		if a := insist(t.Context(), t, client, key.(string)); a.Body != body || !a.Replayed() {
			t.Errorf("key %s was told\n%s\nand now, replayed=%v,\n%s", key, body, a.Replayed(), a.Body)
		}
		return !t.Failed()
	})
	stop()
	servers.Wait()
	t.Logf("%d orders in %d tries of their clients, %d kills", placed, tries.Load(), fleet.Killed())
	if placed < *orders || fleet.Killed() < *kills {
		t.Errorf("%d orders and %d kills, want %d and %d", placed, fleet.Killed(), *orders, *kills)
	}
	s.WantAccount(t, shop.Balanced(placed, 0))
}

// insist tries until there is an answer for good, and counts the tries.
func insist(ctx context.Context, t *testing.T, client *orderoncetest.Client, key string, counts ...*atomic.Int64) orderoncetest.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		for _, count := range counts {
			count.Add(1)
		}
		a, err := client.TryPlace(ctx, key, order(key))
		switch {
		case err != nil, a.Status >= 502 && a.Status <= 504, a.Status == 409 && a.Code() == "idempotency_in_progress":
		case a.Status == 201:
			return a
		default:
			t.Errorf("no client can make anything of %d %s", a.Status, a.Body)
			return a
		}
		orderoncetest.Pause(ctx, rand.N(50*time.Millisecond))
	}
	t.Errorf("key %s got no answer", key)
	return orderoncetest.Answer{}
}
