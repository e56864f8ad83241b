package orders_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"orderonce/internal/fault"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
)

// Promise 2: what is answered, what is stored and what is told to the world are one order.
func TestPlacedOrderIsItsRowAndItsEvent(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]postgres.Unit{"staged": {}, "open": {Open: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.putCoupon(orders.Coupon{Code: "TENTH", Percent: 10})
			p := f.placement()
			checkout, code := "chk_1", "TENTH"
			p.CheckoutID, p.CouponCode = &checkout, &code
			p.Metadata = map[string]string{"gift": "yes", "note": `"<&>é`}
			order, err := f.place(unit, p)
			if err != nil {
				t.Fatal(err)
			}
			want := orders.Order{
				TenantID: p.TenantID, PrincipalID: p.PrincipalID, Version: 1, ID: order.ID, Status: orders.Pending,
				CheckoutID: &checkout, CustomerID: "cus_1", Currency: "EUR", Items: p.Items, ShippingAddressID: "adr_1",
				CouponCode: &code, Metadata: p.Metadata, SubtotalMinor: 1000, DiscountMinor: 100, TotalMinor: 900,
				CreatedAt: order.CreatedAt,
			}
			if diff := cmp.Diff(want, order); diff != "" {
				t.Errorf("the answer (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(order, f.find(order)); diff != "" {
				t.Errorf("the row (-answered +stored)\n%s", diff)
			}
			if order.ID.Version() != 7 || order.CreatedAt.Location() != time.UTC || !order.CreatedAt.Equal(order.CreatedAt.Truncate(time.Microsecond)) {
				t.Errorf("id %v, created at %v", order.ID, order.CreatedAt)
			}
			f.wantEvent(order)
			f.wantRows(1)
		})
	}
}

func (f *fixture) find(order orders.Order) (stored orders.Order) {
	f.t.Helper()
	err := f.db.Read(f.t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
		stored, err = orders.Find(ctx, db, order.TenantID, order.ID)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return stored
}

func (f *fixture) wantEvent(order orders.Order) {
	f.t.Helper()
	payload, err := json.Marshal(order)
	if err != nil {
		f.t.Fatal(err)
	}
	if n := f.count("SELECT count(*) FROM outbox_events WHERE tenant_id = $1 AND aggregate_type = 'order' AND aggregate_id = $2 "+
		"AND version = 1 AND type = 'orderonce.order.created.v1' AND occurred_at = $3 AND payload::text = $4",
		order.TenantID, order.ID, order.CreatedAt, string(payload)); n != 1 {
		f.t.Errorf("%d events say %s", n, payload)
	}
}

// No metadata is an empty object to all who read it, never null.
func TestNoMetadataIsAnEmptyObject(t *testing.T) {
	t.Parallel()
	f := setup(t)
	order := f.mustPlace(f.placement())
	stored := f.find(order)
	if order.Metadata == nil || stored.Metadata == nil || len(stored.Metadata) != 0 {
		t.Errorf("answered %v, stored %v", order.Metadata, stored.Metadata)
	}
	if n := f.count(`SELECT count(*) FROM orders o, outbox_events e WHERE o.metadata = '{}' AND e.payload->>'metadata' = '{}'`); n != 1 {
		t.Error("the row or the event has another")
	}
}

func TestWhatCannotBeAnOrderIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	currency := func(code string) func(*orders.Placement) {
		return func(p *orders.Placement) { p.Currency = code }
	}
	metadata := func(name string) func(*orders.Placement) {
		return func(p *orders.Placement) { p.Metadata = map[string]string{"good": "", name: "v"} }
	}
	for name, c := range map[string]struct {
		change func(*orders.Placement)
		at     string // "" for an order that can be
	}{
		"unknown currency":         {currency("ZZZ"), "/currency"},
		"lower case":               {currency("eur"), "/currency"},
		"no currency":              {currency(""), "/currency"},
		"a symbol":                 {currency("€"), "/currency"},
		"a currency of the past":   {currency("DEM"), "/currency"},
		"no minor unit":            {currency("JPY"), ""},
		"three digits":             {currency("KWD"), ""},
		"empty metadata name":      {metadata(""), "/metadata"},
		"64 characters of 2 bytes": {metadata(strings.Repeat("é", 64)), ""},
		"65 characters":            {metadata(strings.Repeat("a", 65)), "/metadata"},
		"past what an integer holds": {func(p *orders.Placement) {
			p.Items = []orders.Item{{Quantity: 1, UnitPriceMinor: math.MaxInt64}, {Quantity: 1, UnitPriceMinor: 1}}
		}, "/items"},
		"all that an integer holds": {func(p *orders.Placement) {
			p.Items = []orders.Item{{Quantity: 1, UnitPriceMinor: math.MaxInt64}}
		}, ""},
	} {
		before := f.count("SELECT count(*) FROM orders")
		p := f.placement()
		c.change(&p)
		order, err := f.place(postgres.Unit{}, p)
		if c.at == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if diff := cmp.Diff(order, f.find(order)); diff != "" {
				t.Errorf("%s: (-answered +stored)\n%s", name, diff)
			}
			continue
		}
		if invalid := faultOf(t, err, fault.ValidationFailed); len(invalid.Fields) != 1 || invalid.Fields[0].Pointer != c.at {
			t.Errorf("%s: %v, want it at %s", name, err, c.at)
		}
		f.wantRows(before)
	}
}

// The checkout is an order's name for ever. A staged unit only learns that it is taken; run again, open, it names the
// order that has it, and its transaction is alive to store that.
func TestCheckoutHasOneOrderAndNamesIt(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p := f.placement()
	checkout := "chk_1"
	p.CheckoutID = &checkout
	first := f.mustPlace(p)

	_, err := f.place(postgres.Unit{}, p)
	var refused *postgres.Refused
	if !errors.As(err, &refused) || refused.By.Rank != postgres.RankOrder || refused.By.Busy != fault.CheckoutInProgress {
		t.Errorf("staged: %v, want the order's row to be refused", err)
	}
	_, err = f.place(postgres.Unit{Open: true}, p)
	if already := faultOf(t, err, fault.CheckoutAlreadyOrdered); already.Holder != first.ID.String() {
		t.Errorf("the holder is %q, want %v", already.Holder, first.ID)
	}
	err = f.db.InTx(t.Context(), postgres.Unit{Open: true, LockTimeout: patience}, func(ctx context.Context, tx *postgres.Tx) error {
		if _, err := orders.Place(ctx, tx, p); fault.KindOf(err) != fault.CheckoutAlreadyOrdered {
			return err
		}
		other := "chk_2" // in the same transaction, which case 5 would find aborted
		p := p
		p.CheckoutID = &other
		_, err := orders.Place(ctx, tx, p)
		return err
	})
	if err != nil {
		t.Errorf("after the refusal: %v", err)
	}

	// Another tenant's checkout of the same name, and orders without one, are in nobody's way.
	stranger := p
	stranger.TenantID = uuid.New()
	f.mustPlace(stranger)
	for range 2 {
		f.mustPlace(f.placement())
	}
	f.wantRows(5)
}

// Case 1, without any key: however many place for one checkout, there is one order.
func TestParallelOrdersOfOneCheckout(t *testing.T) {
	t.Parallel()
	f := setup(t)
	checkout := "chk_1"
	placed := make([]orders.Order, 50)
	errs := make([]error, len(placed))
	barrier := make(chan struct{})
	var group errgroup.Group
	for i := range placed {
		p := f.placement()
		p.CheckoutID = &checkout
		group.Go(func() error {
			<-barrier
			placed[i], errs[i] = f.place(postgres.Unit{Open: i%2 == 0}, p)
			return nil
		})
	}
	close(barrier)
	_ = group.Wait()
	f.wantRows(1)
	var holder string
	if err := f.watch.QueryRow(t.Context(), "SELECT id::text FROM orders").Scan(&holder); err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		switch {
		case err == nil:
			if placed[i].ID.String() != holder {
				t.Errorf("order %v is answered and not there", placed[i].ID)
			}
		case i%2 == 0:
			if already := faultOf(t, err, fault.CheckoutAlreadyOrdered); already.Holder != holder {
				t.Errorf("the holder is %q, want %s", already.Holder, holder)
			}
		default:
			if by := new(postgres.Refused); !errors.As(err, &by) {
				t.Errorf("staged: %v", err)
			}
		}
	}
}

// An order of the same checkout that is being placed is waited for, and then it is not known yet who has it.
func TestCheckoutBeingPlacedIsInProgress(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]bool{"staged": false, "open": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			p := f.placement()
			checkout := "chk_1"
			p.CheckoutID = &checkout
			placed, end, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			broken := errors.New("broken")
			go func() {
				done <- f.db.InTx(t.Context(), postgres.Unit{Open: true, LockTimeout: patience}, func(ctx context.Context, tx *postgres.Tx) error {
					_, err := orders.Place(ctx, tx, p)
					close(placed)
					<-end
					return errors.Join(err, broken)
				})
			}()
			<-placed
			_, err := f.place(postgres.Unit{Open: open, LockTimeout: brief}, p)
			if busy := faultOf(t, err, fault.CheckoutInProgress); busy.RetryAfter <= 0 {
				t.Error("no pause is recommended")
			}
			close(end)
			if err := <-done; !errors.Is(err, broken) || fault.KindOf(err) != fault.Internal {
				t.Fatal(err)
			}
			if _, err := f.place(postgres.Unit{Open: open}, p); err != nil {
				t.Errorf("after the rollback: %v", err)
			}
			f.wantRows(1)
		})
	}
}
