package faults

import (
	"strings"
	"syscall"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/faultpoint"
	"orderonce/test/shop"
)

// Case 6: kill -9 at every step; the retry that follows at once, at another server, is answered. It runs where the
// database had no COMMIT, and replays where it had one; the account is the same.
func TestServerKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for point, row := range map[faultpoint.Point]string{
		faultpoint.BeforeClaim:    "before claim, kill -9 server",
		faultpoint.AfterClaim:     "after claim, before COMMIT, kill -9 server",
		faultpoint.AfterCommit:    "after COMMIT, before response, kill -9 server",
		faultpoint.BeforeResponse: "after COMMIT, before response, kill -9 server",
	} {
		committed := point == faultpoint.AfterCommit || point == faultpoint.BeforeResponse
		key := orderoncetest.NewKey()
		for name, w := range ways(key) {
			t.Run(string(point)+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := shop.Open(t)
				doomed, other := s.Serve(t, shop.Options{Faults: []string{string(point) + "=kill"}, Args: w.args}), s.Serve(t, shop.Options{Args: w.args})
				send(t, doomed, key, w.body).lost(t)
				if status := doomed.Wait(t); status != -1 {
					t.Fatalf("the server ended with status %d", status)
				}
				provoked(t, row, 1)

				if committed {
					s.WantAccount(t, shop.Balanced(1, 0))
				} else {
					s.WantAccount(t, shop.Balanced(0, 0))
				}
				second := other.Place(t, key, w.body)
				if committed {
					wantReplayed(t, second)
				} else {
					wantFirst(t, second)
				}
				wantReplay(t, second, other.Place(t, key, w.body))
				s.WantAccount(t, shop.Balanced(1, 0))
			})
		}
	}
}

// A stored "no" is as durable as an order, and as little is left of one that was not stored.
func TestServerKilledAroundTheCommitOfARejection(t *testing.T) {
	t.Parallel()
	for stored, point := range []faultpoint.Point{faultpoint.AfterClaim, faultpoint.AfterCommit} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			s := shop.Open(t)
			doomed, other := s.Serve(t, shop.Options{Faults: []string{string(point) + "=kill"}}), s.Serve(t, shop.Options{})
			key := orderoncetest.NewKey()
			body := order(key, "coupon_code", "EXPIRED10")
			send(t, doomed, key, body).lost(t)
			doomed.Wait(t)
			provoked(t, "kill -9 server around the commit of a rejection", 1)

			s.WantAccount(t, shop.Balanced(0, stored))
			second := other.Place(t, key, body)
			wantProblem(t, second, 422, "coupon_expired")
			if second.Replayed() != (stored == 1) {
				t.Errorf("replayed=%v", second.Replayed())
			}
			// What was stored is the answer of then, whatever is true now.
			s.Exec(t, `UPDATE coupons SET valid_until = '2200-01-01'`)
			third := other.Place(t, key, body)
			if !third.Replayed() || third.Body != second.Body {
				t.Errorf("replayed=%v %s", third.Replayed(), third.Body)
			}
			s.WantAccount(t, shop.Balanced(0, 1))
		})
	}
}

// The client that lost its server stands at another one in the same moment, and need not wait for anything to expire:
// the dead owner's transaction ends with its connection.
func TestWaiterTakesOverWhenTheOwnersServerIsKilled(t *testing.T) {
	t.Parallel()
	key := orderoncetest.NewKey()
	for name, w := range ways(key) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shop.Open(t)
			inTime(t, func() bool {
				h := newHold(t)
				owner, other := s.Serve(t, shop.Options{Faults: []string{h.afterClaim()}, Args: w.args}), s.Serve(t, shop.Options{Args: w.args})
				first := send(t, owner, key, w.body)
				h.reached(t)
				waiter := send(t, other, key, w.body)
				waiting(t, s, 1)
				owner.Kill()
				first.lost(t)
				second := waiter.answer(t)
				if inProgress(second) {
					return false
				}
				provoked(t, "waiter when the owner rolls back", 1)
				wantFirst(t, second)
				wantReplay(t, second, other.Place(t, key, w.body))
				s.WantAccount(t, shop.Balanced(1, 0))
				return true
			})
		})
	}
}

// waiting returns once n sessions wait for a lock.
func waiting(t *testing.T, s *shop.Shop, n int) {
	t.Helper()
	waits(t, s, n, sent{})
}

// waits is waiting for as long as a request is under way, and says whether that was long enough.
func waits(t *testing.T, s *shop.Shop, n int, while sent) bool {
	t.Helper()
	conn := s.Connect(t)
	var blocked int
	orderoncetest.Poll(t, "a session to wait for a lock", func() bool {
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&blocked); err != nil {
			t.Fatal(err)
		}
		return blocked >= n || len(while.done) > 0
	})
	return blocked >= n
}

// PostgreSQL is killed while a claim stands in it, and is there again when the server goes on: the unit runs once more
// and the client notices nothing.
func TestPostgresKilledAfterTheClaim(t *testing.T) {
	t.Parallel()
	key := orderoncetest.NewKey()
	for name, w := range ways(key) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := shop.Killable(t, true)
			s, h := shop.OpenOn(t, database), newHold(t)
			server := s.Serve(t, shop.Options{Faults: []string{h.afterClaim()}, Args: w.args})
			first := send(t, server, key, w.body)
			h.reached(t)
			killed := database.PID()
			kill(t, killed)
			orderoncetest.Poll(t, "PostgreSQL to be started again", func() bool { return database.PID() != killed })
			s.WantAccount(t, shop.Balanced(0, 0))
			provoked(t, "after claim, before COMMIT, kill -9 PostgreSQL", 1)

			h.release(t)
			a := first.answer(t)
			wantFirst(t, a)
			wantReplay(t, a, server.Place(t, key, w.body))
			s.WantAccount(t, shop.Balanced(1, 0))
		})
	}
}

// And where PostgreSQL stays away, the client is told to keep its key: the server had sent COMMIT and cannot know.
func TestPostgresKilledAfterTheClaimAndAway(t *testing.T) {
	t.Parallel()
	database := shop.Killable(t, false)
	s, h := shop.OpenOn(t, database), newHold(t)
	server := s.Serve(t, shop.Options{Faults: []string{h.afterClaim()}})
	key := orderoncetest.NewKey()
	first := send(t, server, key, order(key))
	h.reached(t)
	kill(t, database.PID())
	<-database.Done()
	h.release(t)
	a := first.answer(t)
	wantProblem(t, a, 503, "outcome_unknown")
	if !strings.Contains(a.Body, `"key_action":"keep"`) || a.Header.Get("Retry-After") == "" {
		t.Errorf("%v %s", a.Header, a.Body)
	}
	provoked(t, "after claim, before COMMIT, kill -9 PostgreSQL", 1)

	startAgain(t, database)
	s.WantAccount(t, shop.Balanced(0, 0))
	wantFirst(t, untilServed(t, server, key, order(key)))
	s.WantAccount(t, shop.Balanced(1, 0))
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
