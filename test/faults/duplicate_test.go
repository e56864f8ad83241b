package faults

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/test/shop"
)

const rowDuplicates = "duplicate during work, over two servers"

// storm sends n duplicates that start together, to one server after the other.
func storm(t *testing.T, n int, key, body string, servers ...*shop.Server) []orderoncetest.Answer {
	t.Helper()
	answers, errs := make([]orderoncetest.Answer, n), make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			answers[i], errs[i] = servers[i%len(servers)].TryPlace(t.Context(), key, body)
		})
	}
	close(start)
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return answers
}

// wantOneAnswer checks that all that were answered got the same bytes, and tells how many were told to wait instead.
func wantOneAnswer(t *testing.T, answers []orderoncetest.Answer) (firsts, waits int) {
	t.Helper()
	different := map[string]int{}
	for _, a := range answers {
		switch {
		case a.Status == 201:
			different[a.Body]++
			if !a.Replayed() {
				firsts++
			}
		case inProgress(a):
			waits++
		default:
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	if len(different) > 1 {
		t.Errorf("%d different answers", len(different))
	}
	return firsts, waits
}

// Cases 1 and 2: a hundred duplicates at two servers are one order, one event and one answer.
func TestParallelDuplicatesOverTwoServers(t *testing.T) {
	t.Parallel()
	key := orderoncetest.NewKey()
	for name, w := range ways(key) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shop.Open(t)
			a, b := s.Serve(t, shop.Options{Args: w.args}), s.Serve(t, shop.Options{Args: w.args})
			firsts, waits := wantOneAnswer(t, storm(t, 100, key, w.body, a, b))
			provoked(t, rowDuplicates, 100)
			if firsts != 1 {
				t.Errorf("%d of them first, %d told to wait", firsts, waits)
			}
			firsts, waits = wantOneAnswer(t, storm(t, 10, key, w.body, a, b))
			if firsts != 0 || waits != 0 {
				t.Errorf("afterwards %d were first and %d told to wait", firsts, waits)
			}
			s.WantAccount(t, shop.Balanced(1, 0))
		})
	}
}

// Case 4, while the work takes longer than the published wait, as only work that reads can: everybody is told when to
// come back, at both servers, and other keys are not held up; whoever comes back gets the first answer.
func TestDuplicatesOfLongWorkOverTwoServers(t *testing.T) {
	t.Parallel()
	s, h := shop.Open(t), newHold(t)
	a, b := s.Serve(t, shop.Options{Faults: []string{h.afterClaim()}}), s.Serve(t, shop.Options{})
	key := orderoncetest.NewKey()
	body := order(key, "coupon_code", "WELCOME10")
	first := send(t, a, key, body)
	h.reached(t)
	firsts, waits := wantOneAnswer(t, storm(t, 50, key, body, a, b))
	provoked(t, rowDuplicates, 50)
	if firsts != 0 || waits != 50 {
		t.Errorf("%d of 50 were told to wait, %d were first", waits, firsts)
	}
	for _, server := range []*shop.Server{a, b} {
		other := orderoncetest.NewKey()
		wantFirst(t, server.Place(t, other, order(other)))
	}
	h.release(t)
	done := first.answer(t)
	wantFirst(t, done)
	for _, again := range storm(t, 10, key, body, a, b) {
		wantReplay(t, done, again)
	}
	s.WantAccount(t, shop.Balanced(3, 0))
}

// And while it takes less: those who wait, in memory at the owner's server and on its row at the other, get the answer.
func TestDuplicatesWaitForTheFirstOverTwoServers(t *testing.T) {
	t.Parallel()
	s := shop.Open(t)
	inTime(t, func() bool {
		h, key := newHold(t), orderoncetest.NewKey()
		a, b := s.Serve(t, shop.Options{Faults: []string{h.afterClaim()}}), s.Serve(t, shop.Options{})
		first := send(t, a, key, order(key))
		h.reached(t)
		beside, across := send(t, a, key, order(key)), send(t, b, key, order(key))
		waiting(t, s, 1)
		h.release(t)
		done, besides, acrosses := first.answer(t), beside.answer(t), across.answer(t)
		wantFirst(t, done)
		if inProgress(besides) || inProgress(acrosses) {
			return false
		}
		provoked(t, rowDuplicates, 2)
		wantReplay(t, done, besides)
		wantReplay(t, done, acrosses)
		return true
	})
	if got := s.Account(t); got != shop.Balanced(got.Orders, 0) {
		t.Errorf("%+v", got)
	}
}

// A key that is used for something else runs nothing and tells nothing, neither during the first request nor later.
func TestDuplicateWithOtherParametersOverTwoServers(t *testing.T) {
	t.Parallel()
	s := shop.Open(t)
	refused := func(a orderoncetest.Answer) {
		t.Helper()
		wantProblem(t, a, 409, "idempotency_key_reused")
		if a.Header.Get("X-Should-Retry") != "false" || a.OrderID() != "" {
			t.Errorf("%v %s", a.Header, a.Body)
		}
	}
	tries := 0
	inTime(t, func() bool {
		tries++
		h, key := newHold(t), orderoncetest.NewKey()
		a, b := s.Serve(t, shop.Options{Faults: []string{h.afterClaim()}}), s.Serve(t, shop.Options{})
		other := order(key, "customer_id", "customer-2")
		first := send(t, a, key, order(key))
		h.reached(t)
		across := send(t, b, key, other)
		waiting(t, s, 1)
		h.release(t)
		done := first.answer(t)
		wantFirst(t, done)
		during := across.answer(t)
		refused(a.Place(t, key, other))
		refused(b.Place(t, key, other))
		wantReplay(t, done, b.Place(t, key, order(key)))
		if inProgress(during) {
			return false
		}
		refused(during)
		provoked(t, "duplicate, other parameters", 3)
		return true
	})
	s.WantAccount(t, shop.Balanced(tries, 0))
}

// untilDone retries as a client does while it is told that the first request still runs.
func untilDone(t *testing.T, server *shop.Server, key, body string) (a orderoncetest.Answer) {
	t.Helper()
	orderoncetest.Poll(t, "an answer that is not 409 in progress", func() bool {
		a = server.Place(t, key, body)
		return !inProgress(a)
	})
	return a
}

// claim is a record in a transaction of the test's own.
type claim struct{ tx pgx.Tx }

// claimed claims a key, with a copy of another key's record, and keeps the transaction open.
func claimed(t *testing.T, s *shop.Shop, mould, key string) claim {
	t.Helper()
	tx, err := s.Connect(t).Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `INSERT INTO idempotency_requests
			SELECT (jsonb_populate_record(r, jsonb_build_object('idempotency_key', $1::text))).*
			FROM idempotency_requests r WHERE idempotency_key = $2`, key, mould)
	}
	if err != nil {
		t.Fatal(err)
	}
	return claim{tx}
}

func (c claim) end(t *testing.T, how func(pgx.Tx, context.Context) error) {
	t.Helper()
	if err := how(c.tx, t.Context()); err != nil {
		t.Fatal(err)
	}
}

// backend is a session of PostgreSQL and the port that its client sends from.
type backend struct{ pid, port int }

// idleInTransaction is the one session that waits for the next statement of its transaction.
func idleInTransaction(t *testing.T, s *shop.Shop) (b backend) {
	t.Helper()
	err := s.Connect(t).QueryRow(t.Context(), `SELECT pid, client_port FROM pg_stat_activity
		WHERE datname = current_database() AND state = 'idle in transaction'`).Scan(&b.pid, &b.port)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
