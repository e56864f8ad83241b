package shop

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// Account is what stands in the tables.
type Account struct {
	Orders     int
	Events     int // of placed orders
	Created    int // records of a 201
	Rejected   int // records of a stored rejection
	Incomplete int // records without a result: must never be seen
	Torn       int // orders, events and records of a 201 that lack one of the other two
	Doubled    int // keys that have more than one order; each order says in its metadata whose it is
}

// Balanced is the account of so many orders and rejections, each with all that belongs to it.
func Balanced(orders, rejected int) Account {
	return Account{Orders: orders, Events: orders, Created: orders, Rejected: rejected}
}

// Account reads what stands in the tables, in one snapshot.
func (s *Shop) Account(tb testing.TB) (a Account) {
	tb.Helper()
	rows, err := s.Connect(tb).Query(tb.Context(), `SELECT
		(SELECT count(*) FROM orders) AS orders,
		(SELECT count(*) FROM outbox_events) AS events,
		(SELECT count(*) FROM idempotency_requests WHERE response_status = 201) AS created,
		(SELECT count(*) FROM idempotency_requests WHERE response_status >= 400) AS rejected,
		(SELECT count(*) FROM idempotency_requests WHERE response_status IS NULL) AS incomplete,
		(SELECT count(*) FROM orders o
			FULL JOIN outbox_events e ON e.tenant_id = o.tenant_id AND e.aggregate_id = o.id
			FULL JOIN (SELECT * FROM idempotency_requests WHERE response_status = 201) r
				ON r.tenant_id = o.tenant_id AND r.resource_id = o.id
			WHERE num_nulls(o.id, e.id, r.resource_id) > 0) AS torn,
		(SELECT count(*) FROM (SELECT FROM orders WHERE metadata ? 'key'
			GROUP BY metadata ->> 'key' HAVING count(*) > 1) d) AS doubled`)
	if err == nil {
		a, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Account])
	}
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// WantAccount fails the test where the tables hold anything else.
func (s *Shop) WantAccount(tb testing.TB, want Account) {
	tb.Helper()
	if diff := cmp.Diff(want, s.Account(tb)); diff != "" {
		tb.Errorf("the account does not balance (-want +got)\n%s", diff)
	}
}
