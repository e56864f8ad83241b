package orders_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"orderonce/internal/fault"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
)

func (f *fixture) withCoupon(code string) orders.Placement {
	p := f.placement()
	p.CouponCode = &code
	return p
}

func (f *fixture) wantRedemptions(code string, want int) {
	f.t.Helper()
	if n := f.count("SELECT redemptions FROM coupons WHERE tenant_id = $1 AND code = $2", f.tenant, code); n != want {
		f.t.Errorf("coupon %s is redeemed %d times, want %d", code, n, want)
	}
}

func TestCouponTakesOffWhatItSays(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.putCoupon(orders.Coupon{Code: "WELCOME", Percent: 10})
	f.putCoupon(orders.Coupon{Code: "ODD", Percent: 33})
	f.putCoupon(orders.Coupon{Code: "FREE", Percent: 100})
	f.putCoupon(orders.Coupon{Code: "FIVE", AmountMinor: 500, Currency: "EUR"})
	f.putCoupon(orders.Coupon{Code: "FIFTY", AmountMinor: 5000, Currency: "EUR"})
	for code, want := range map[string]int64{"WELCOME": 99, "ODD": 329, "FREE": 999, "FIVE": 500, "FIFTY": 999} {
		p := f.withCoupon(code)
		p.Items = []orders.Item{{SKU: "LAMP", Quantity: 1, UnitPriceMinor: 999}}
		order := f.mustPlace(p)
		if order.SubtotalMinor != 999 || order.DiscountMinor != want || order.TotalMinor != 999-want || *order.CouponCode != code {
			t.Errorf("%s: %d - %d = %d with %q, want %d off", code, order.SubtotalMinor, order.DiscountMinor, order.TotalMinor, *order.CouponCode, want)
		}
		f.wantRedemptions(code, 0) // nobody counts what has no limit
	}
	f.wantRows(5)
}

// What a coupon says no to is final, and leaves nothing.
func TestCouponThatDoesNotApplyIsARejection(t *testing.T) {
	t.Parallel()
	f := setup(t)
	now := time.Now()
	f.putCoupon(orders.Coupon{Code: "OVER", Percent: 10, ValidFrom: now.Add(-2 * time.Hour), ValidUntil: now.Add(-time.Hour)})
	f.putCoupon(orders.Coupon{Code: "SOON", Percent: 10, ValidFrom: now.Add(time.Hour), ValidUntil: now.Add(2 * time.Hour)})
	f.putCoupon(orders.Coupon{Code: "DOLLAR", AmountMinor: 100, Currency: "USD"})
	f.putCoupon(orders.Coupon{Code: "ONCE", Percent: 10, MaxRedemptions: 1})
	f.mustPlace(f.withCoupon("ONCE"))
	f.wantRedemptions("ONCE", 1)
	for code, want := range map[string]fault.Kind{
		"OVER": fault.CouponExpired, "SOON": fault.CouponNotApplicable, "DOLLAR": fault.CouponNotApplicable,
		"ONCE": fault.CouponExhausted, "NEVER": fault.CouponUnknown, "over": fault.CouponUnknown, "": fault.CouponUnknown,
	} {
		_, err := f.place(postgres.Unit{}, f.withCoupon(code))
		if rejected := faultOf(t, err, want); !rejected.Kind.Rejection() || rejected.Detail == "" {
			t.Errorf("%s: %v is no explained rejection", code, err)
		}
	}
	// Promise 7: another tenant's coupon is like one that never was.
	stranger := f.withCoupon("ONCE")
	stranger.TenantID = uuid.New()
	_, err := f.place(postgres.Unit{}, stranger)
	wantFault(t, err, fault.CouponUnknown)
	f.wantRedemptions("ONCE", 1)
	f.wantRows(1)
}

// A coupon of the same code stays as it is, or a restart would hand out its redemptions again.
func TestPutCouponKeepsTheOneThatIsThere(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.putCoupon(orders.Coupon{Code: "ONCE", Percent: 10, MaxRedemptions: 1})
	f.mustPlace(f.withCoupon("ONCE"))
	f.putCoupon(orders.Coupon{Code: "ONCE", Percent: 50, MaxRedemptions: 100})
	_, err := f.place(postgres.Unit{}, f.withCoupon("ONCE"))
	wantFault(t, err, fault.CouponExhausted)
	f.wantRedemptions("ONCE", 1)
}

// Each of the last redemptions goes to one order, however many ask at once.
func TestLastRedemptionsAreNotGivenTwice(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const most, asking = 7, 50
	f.putCoupon(orders.Coupon{Code: "SEVEN", Percent: 10, MaxRedemptions: most})
	errs := make([]error, asking)
	barrier := make(chan struct{})
	var group errgroup.Group
	for i := range errs {
		group.Go(func() error {
			<-barrier
			_, errs[i] = f.place(postgres.Unit{}, f.withCoupon("SEVEN"))
			return nil
		})
	}
	close(barrier)
	_ = group.Wait()
	placed := 0
	for _, err := range errs {
		if err == nil {
			placed++
			continue
		}
		wantFault(t, err, fault.CouponExhausted)
	}
	if placed != most {
		t.Errorf("%d orders were placed, want %d", placed, most)
	}
	f.wantRedemptions("SEVEN", most)
	f.wantRows(most)
}

// A redemption belongs to its order: where the order is not kept, neither is the redemption.
func TestRedemptionIsUndoneWithItsOrder(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.putCoupon(orders.Coupon{Code: "ONCE", Percent: 10, MaxRedemptions: 1})
	checkout := "chk_1"
	taken := f.placement()
	taken.CheckoutID = &checkout
	f.mustPlace(taken)
	p := f.withCoupon("ONCE")
	p.CheckoutID = &checkout
	_, err := f.place(postgres.Unit{}, p)
	wantFault(t, err, fault.CheckoutAlreadyOrdered)

	// The same in a unit that is committed with the rejection in it (trap 7).
	err = f.db.InTx(t.Context(), postgres.Unit{LockTimeout: patience}, func(ctx context.Context, tx *postgres.Tx) error {
		if _, err := orders.Place(ctx, tx, f.withCoupon("ONCE")); err != nil {
			return err
		}
		tx.Undo()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	f.wantRedemptions("ONCE", 0)
	f.wantRows(1)
	f.mustPlace(f.withCoupon("ONCE"))
	f.wantRedemptions("ONCE", 1)
}

// Only a limited coupon makes its orders stand in line.
func TestOnlyLimitedCouponsAreLocked(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.putCoupon(orders.Coupon{Code: "ENDLESS", Percent: 10})
	f.putCoupon(orders.Coupon{Code: "LIMITED", Percent: 10, MaxRedemptions: 5})
	holder, err := f.session().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "SELECT FROM coupons FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.place(postgres.Unit{LockTimeout: brief}, f.withCoupon("ENDLESS")); err != nil {
		t.Errorf("an endless coupon waits: %v", err)
	}
	_, err = f.place(postgres.Unit{LockTimeout: brief}, f.withCoupon("LIMITED"))
	if busy := faultOf(t, err, fault.Busy); busy.RetryAfter <= 0 {
		t.Error("no pause is recommended")
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Error(err) // then nobody held the coupon
	}
	f.wantRows(1)
}
