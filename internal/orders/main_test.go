package orders_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

const patience = 30 * time.Second

// brief is a bound that a test waits out.
const brief = 20 * time.Millisecond

type fixture struct {
	t      *testing.T
	url    string
	db     *postgres.DB
	watch  *pgx.Conn // another session, for the test's own goroutine
	tenant uuid.UUID
}

func setup(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, url: postgrestest.URL(t), tenant: uuid.New()}
	f.watch = f.session()
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: f.url, MaxConns: 16, Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	f.db = db
	return f
}

func (f *fixture) session() *pgx.Conn {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(f.t.Context())) })
	return conn
}

func (f *fixture) count(query string, args ...any) (n int) {
	f.t.Helper()
	if err := f.watch.QueryRow(f.t.Context(), query, args...).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// wantRows checks what other sessions see: so many orders, and an event of each.
func (f *fixture) wantRows(orders int) {
	f.t.Helper()
	got := [3]int{
		f.count("SELECT count(*) FROM orders"), f.count("SELECT count(*) FROM outbox_events"),
		f.count("SELECT count(*) FROM orders o JOIN outbox_events e ON e.tenant_id = o.tenant_id AND e.aggregate_id = o.id"),
	}
	if want := [3]int{orders, orders, orders}; got != want {
		f.t.Errorf("orders, events and pairs are %v, want %v", got, want)
	}
}

// placement is an order over 2 × 4.99 and 1 × 0.02: 10.00 EUR.
func (f *fixture) placement() orders.Placement {
	return orders.Placement{
		TenantID: f.tenant, PrincipalID: uuid.New(), CustomerID: "cus_1", Currency: "EUR", ShippingAddressID: "adr_1",
		Items: []orders.Item{{SKU: "LAMP", Quantity: 2, UnitPriceMinor: 499}, {SKU: "SCREW", Quantity: 1, UnitPriceMinor: 2}},
	}
}

func (f *fixture) place(unit postgres.Unit, p orders.Placement) (order orders.Order, err error) {
	if unit.LockTimeout == 0 {
		unit.LockTimeout = patience
	}
	err = f.db.InTx(f.t.Context(), unit, func(ctx context.Context, tx *postgres.Tx) (err error) {
		order, err = orders.Place(ctx, tx, p)
		return err
	})
	return order, err
}

func (f *fixture) mustPlace(p orders.Placement) orders.Order {
	f.t.Helper()
	order, err := f.place(postgres.Unit{}, p)
	if err != nil {
		f.t.Fatal(err)
	}
	return order
}

func (f *fixture) putCoupon(c orders.Coupon) {
	f.t.Helper()
	c.TenantID = f.tenant
	if c.ValidFrom.IsZero() {
		c.ValidFrom = time.Now().Add(-time.Hour)
	}
	if c.ValidUntil.IsZero() {
		c.ValidUntil = time.Now().Add(time.Hour)
	}
	err := f.db.InTx(f.t.Context(), postgres.Unit{LockTimeout: patience}, func(ctx context.Context, tx *postgres.Tx) error {
		return orders.PutCoupon(ctx, tx, c)
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func wantFault(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	_ = faultOf(t, err, kind)
}

// faultOf is wantFault for who looks into it.
func faultOf(t *testing.T, err error, kind fault.Kind) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != kind {
		t.Errorf("error %v, want %v", err, kind)
		return &fault.Error{}
	}
	return f
}
