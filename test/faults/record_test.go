package faults

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/test/shop"
)

// The purger comes between the INSERT that lost the key and the SELECT that would tell why. It is made to stand there:
// it waits for its lock behind the INSERT and before the SELECT, and the queue of a lock is first come, first served.
func TestRecordPurgedBetweenTheLosingInsertAndTheSelect(t *testing.T) {
	t.Parallel()
	s := shop.Open(t)
	server := s.Serve(t, shop.Options{})
	mould := orderoncetest.NewKey()
	wantFirst(t, server.Place(t, mould, order(mould)))
	orders := 1
	inTime(t, func() bool {
		key := orderoncetest.NewKey()
		winner := claimed(t, s, mould, key)
		loser := send(t, server, key, order(key))
		waiting(t, s, 1)
		purger, purged := s.Connect(t), make(chan error, 1)
		go func() {
			_, err := purger.Exec(t.Context(), `BEGIN; LOCK TABLE idempotency_requests;
				DELETE FROM idempotency_requests WHERE idempotency_key = '`+key+`'; COMMIT`)
			purged <- err
		}()
		waiting(t, s, 2)
		winner.end(t, pgx.Tx.Commit)
		if err := <-purged; err != nil {
			t.Fatal(err)
		}
		a := loser.answer(t)
		if inProgress(a) {
			return false
		}
		orders++
		provoked(t, "purge between the losing INSERT and the SELECT", 1)
		wantFirst(t, a)
		return true
	})
	s.WantAccount(t, shop.Balanced(orders, 0))
}

// A purger that runs all the time, on a key that is used all the time: each use either replays or is a new operation,
// and none is told of an error.
func TestRecordPurgedAllTheTime(t *testing.T) {
	t.Parallel()
	s := shop.Open(t)
	a, b := s.Serve(t, shop.Options{}), s.Serve(t, shop.Options{})
	key, body := orderoncetest.NewKey(), order("shared")
	var stop atomic.Bool
	var purging sync.WaitGroup
	purges := 0
	conn := s.Connect(t)
	purging.Go(func() {
		for !stop.Load() {
			tag, err := conn.Exec(t.Context(), `DELETE FROM idempotency_requests`)
			if err != nil {
				t.Error(err)
				return
			}
			purges += int(tag.RowsAffected())
		}
	})
	created := map[string]int{}
	for range 10 {
		for _, answer := range storm(t, 20, key, body, a, b) {
			switch {
			case answer.Status == 201 && !answer.Replayed():
				created[answer.OrderID()]++
			case answer.Status == 201:
			case inProgress(answer):
			default:
				t.Errorf("%d %s", answer.Status, answer.Body)
			}
		}
	}
	stop.Store(true)
	purging.Wait()
	provoked(t, "purge in a loop beside duplicates", purges)
	got := s.Account(t)
	if got.Orders != len(created) || got.Events != got.Orders || purges < got.Orders-1 {
		t.Errorf("%d orders and %d events of %d first answers and %d purges", got.Orders, got.Events, len(created), purges)
	}
}

// forgetful servers keep no outcomes in memory, and so see at once what a test does to the records.
var forgetful = shop.Options{Args: []string{"--replay-cache=0"}}

// After retention the key is free, but the checkout is not: it has its order for ever, and the answer says which.
func TestKeyExpiredCheckoutKnown(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{
		"expired": `UPDATE idempotency_requests SET created_at = created_at - interval '1 year',
			completed_at = completed_at - interval '1 year', expires_at = now() - interval '1 second'`,
		"purged": `DELETE FROM idempotency_requests`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shop.Open(t)
			a, b := s.Serve(t, forgetful), s.Serve(t, forgetful)
			key := orderoncetest.NewKey()
			body := order(key, "checkout_id", "checkout-1")
			first := a.Place(t, key, body)
			wantFirst(t, first)
			s.Exec(t, end)
			provoked(t, "key expired, checkout_id known", 1)

			second := b.Place(t, key, body)
			wantProblem(t, second, 409, "checkout_already_ordered")
			if second.Replayed() || second.Header.Get("Location") != first.Header.Get("Location") {
				t.Errorf("replayed=%v, Location %q, want %q", second.Replayed(), second.Header.Get("Location"), first.Header.Get("Location"))
			}
			third := a.Place(t, key, body)
			if !third.Replayed() || third.Status != second.Status || third.Body != second.Body {
				t.Errorf("the rejection was not stored: %d %s", third.Status, third.Body)
			}
			wantProblem(t, b.Place(t, orderoncetest.NewKey(), body), 409, "checkout_already_ordered")
			read, err := b.Do(t.Context(), "GET", first.Header.Get("Location"), "", nil)
			if err != nil || read.Status != 200 || read.Body != first.Body {
				t.Errorf("the old order reads %d %s %v", read.Status, read.Body, err)
			}
			if got := s.Account(t); got.Orders != 1 || got.Events != 1 || got.Created != 0 || got.Rejected != 2 || got.Incomplete != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Without a checkout an expired key is a new operation.
func TestKeyExpiredWithoutCheckout(t *testing.T) {
	t.Parallel()
	s := shop.Open(t)
	server := s.Serve(t, forgetful)
	key := orderoncetest.NewKey()
	first := server.Place(t, key, order(key))
	wantFirst(t, first)
	s.Exec(t, `UPDATE idempotency_requests SET expires_at = now() + interval '1 minute'`)
	wantReplayed(t, server.Place(t, key, order(key)))
	s.Exec(t, `UPDATE idempotency_requests SET expires_at = now()`)
	second := server.Place(t, key, order(key))
	wantFirst(t, second)
	if first.OrderID() == second.OrderID() {
		t.Error("both are the same order")
	}
	wantReplay(t, second, server.Place(t, key, order(key)))
	provoked(t, "key expired", 1)
}
