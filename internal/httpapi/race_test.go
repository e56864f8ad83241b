package httpapi

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"orderonce/internal/orders"
)

var (
	distantPast   = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	distantFuture = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

var coupons = map[string]orders.Coupon{"WELCOME10": {Code: "WELCOME10", Percent: 10}}

// storm sends n requests that start together.
func storm(t *testing.T, n int, send func(i int) (answer, error)) []answer {
	t.Helper()
	answers, errs := make([]answer, n), make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			answers[i], errs[i] = send(i)
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

func (w *world) tryPlace(key, body string) (answer, error) {
	return w.try(http.MethodPost, "/orders", strings.NewReader(body), with("Content-Type", "application/json"), with(keyHeader, key))
}

// Case 1: one order, one record, one event, one answer.
func TestParallelDuplicatesPlaceOneOrder(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"an order that only writes": order(), "an order that reads": order(set("coupon_code", "TEN")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.coupon(orders.Coupon{Code: "TEN", Percent: 10})
			key := freshKey()
			bodies := map[string]int{}
			firsts := 0
			for _, a := range storm(t, 100, func(int) (answer, error) { return w.tryPlace(key, body) }) {
				switch {
				case a.status == http.StatusCreated:
					bodies[string(a.body)]++
					if a.header.Get("Idempotency-Replayed") == "false" {
						firsts++
					}
				case a.Code == "idempotency_in_progress" && a.header.Get("Retry-After") != "":
				default:
					t.Errorf("%d %s", a.status, a.body)
				}
			}
			if len(bodies) != 1 || firsts != 1 {
				t.Errorf("%d different answers, %d of them first", len(bodies), firsts)
			}
			w.wantRows(rows{1, 1, 1})
		})
	}
}

func TestParallelCheckoutsPlaceOneOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	body := order(set("checkout_id", "cart-1"))
	created := 0
	for _, a := range storm(t, 50, func(int) (answer, error) { return w.tryPlace(freshKey(), body) }) {
		if a.status == http.StatusCreated {
			created++
			continue
		}
		if a.Code != "checkout_already_ordered" && a.Code != "checkout_in_progress" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if got := w.rows(); created != 1 || got.orders != 1 || got.events != 1 {
		t.Errorf("%d created, %+v", created, got)
	}
}

func TestLimitedCouponIsRedeemedToItsLimit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.coupon(orders.Coupon{Code: "FIVE", Percent: 10, MaxRedemptions: 5})
	created := 0
	for _, a := range storm(t, 40, func(int) (answer, error) { return w.tryPlace(freshKey(), order(set("coupon_code", "FIVE"))) }) {
		if a.status == http.StatusCreated {
			created++
		} else if a.Code != "coupon_exhausted" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if created != 5 {
		t.Errorf("%d orders with a coupon for 5", created)
	}
}

// hold claims a key in a transaction of the test's own and keeps it open.
func (w *world) hold(key string) pgx.Tx {
	w.t.Helper()
	tx, err := w.connect().Begin(w.t.Context())
	w.must(err)
	_, err = tx.Exec(w.t.Context(), `INSERT INTO idempotency_requests (tenant_id, principal_id, operation, idempotency_key,
		fingerprint, fingerprint_version, field_digests, api_version, created_at)
		SELECT tenant_id, id, 'createOrder', $1, decode(repeat('00', 32), 'hex'), 1, '\x00', '', now() FROM principals`, key)
	w.must(err)
	return tx
}

// waiting returns once n sessions of the server wait for a lock.
func (w *world) waiting(n int) {
	w.t.Helper()
	conn := w.connect()
	for {
		var blocked int
		w.must(conn.QueryRow(w.t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&blocked))
		if blocked >= n {
			return
		}
	}
}

// Case 4: past the published bound the answer is 409, and the connection is free again.
func TestWaitEndsAtItsBound(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	held := w.hold(key)
	began := time.Now()
	a := w.place(key, order())
	wantProblem(t, a, 409, "idempotency_in_progress")
	t.Logf("answered after %s; the bound is 2s", time.Since(began).Round(time.Millisecond))
	if a.header.Get("Retry-After") != "1" || a.RetryAfterMS != 1000 || !a.Retryable || a.KeyAction != "keep" {
		t.Errorf("%v %s", a.header, a.body)
	}
	if n := w.db.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are still in use", n)
	}
	w.must(held.Rollback(w.t.Context()))
	wantCreated(t, w.place(key, order()), "false")
}

// The waiter of an owner that rolls back is the owner.
func TestWaiterTakesOver(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	held := w.hold(key)
	done := make(chan answer, 1)
	go func() {
		a, err := w.tryPlace(key, order())
		if err != nil {
			w.t.Error(err)
		}
		done <- a
	}()
	w.waiting(1)
	w.must(held.Rollback(w.t.Context()))
	wantCreated(t, <-done, "false")
	w.wantRows(rows{1, 1, 1})
}

// Case 12: once claimed, the work is finished and recorded, whether or not the client is still there.
func TestDisconnectedClientFindsItsOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.coupon(orders.Coupon{Code: "FIVE", Percent: 10, MaxRedemptions: 5})
	key, body := freshKey(), order(set("coupon_code", "FIVE"))
	lock, err := w.connect().Begin(w.t.Context())
	w.must(err)
	_, err = lock.Exec(w.t.Context(), `SELECT FROM coupons FOR UPDATE`)
	w.must(err)
	before := w.db.Stat().NewConnsCount()

	ctx, hangUp := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		//nolint:contextcheck // the request's own context is the one that ends
		_, _ = w.try(http.MethodPost, "/orders", strings.NewReader(body), with("Content-Type", "application/json"),
			with(keyHeader, key), func(r *http.Request) { *r = *r.WithContext(ctx) })
	}()
	w.waiting(1) // claimed, and working
	hangUp()
	<-done
	w.must(lock.Rollback(w.t.Context()))

	second := w.place(key, body)
	wantCreated(t, second, "true")
	w.wantRows(rows{1, 1, 1})
	if opened := w.db.Stat().NewConnsCount() - before; opened > 2 {
		t.Errorf("%d connections had to be opened anew", opened)
	}
}
