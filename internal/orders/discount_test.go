package orders

import (
	"errors"
	"testing"
	"time"

	"orderonce/internal/fault"
	"orderonce/internal/orders/internal/ordersdb"
)

// The rules of a coupon to the microsecond and the minor unit, where a test against the clock could not hit them.
func TestCouponsRules(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC)
	valid := func(c ordersdb.Coupon) ordersdb.Coupon {
		if c.ValidFrom.IsZero() {
			c.ValidFrom = now.Add(-time.Hour)
		}
		if c.ValidUntil.IsZero() {
			c.ValidUntil = now.Add(time.Hour)
		}
		return c
	}
	percent := func(n int16) ordersdb.Coupon { return valid(ordersdb.Coupon{Kind: "percent", Percent: &n}) }
	fixed := func(amount int64, currency string) ordersdb.Coupon {
		return valid(ordersdb.Coupon{Kind: "fixed", AmountMinor: &amount, Currency: &currency})
	}
	between := func(from, until time.Time) ordersdb.Coupon {
		c := percent(10)
		c.ValidFrom, c.ValidUntil = from, until
		return c
	}
	redeemed := func(times, most int32) ordersdb.Coupon {
		c := percent(10)
		c.Redemptions, c.MaxRedemptions = times, &most
		return c
	}
	const tick = time.Microsecond
	const none = fault.Internal
	for name, c := range map[string]struct {
		coupon   ordersdb.Coupon
		subtotal int64
		want     int64
		rejected fault.Kind
	}{
		"percent":                  {percent(10), 1000, 100, none},
		"percent, rounded down":    {percent(10), 999, 99, none},
		"percent of too little":    {percent(1), 99, 0, none},
		"percent of nothing":       {percent(100), 0, 0, none},
		"all of it":                {percent(100), 999, 999, none},
		"fixed":                    {fixed(250, "EUR"), 1000, 250, none},
		"fixed, exactly":           {fixed(1000, "EUR"), 1000, 1000, none},
		"fixed, never more":        {fixed(1001, "EUR"), 1000, 1000, none},
		"fixed of nothing":         {fixed(1, "EUR"), 0, 0, none},
		"fixed, other currency":    {fixed(250, "USD"), 1000, 0, fault.CouponNotApplicable},
		"from now on":              {between(now, now.Add(tick)), 1000, 100, none},
		"not yet":                  {between(now.Add(tick), now.Add(time.Hour)), 1000, 0, fault.CouponNotApplicable},
		"until just after":         {between(now.Add(-time.Hour), now.Add(tick)), 1000, 100, none},
		"until now, which is over": {between(now.Add(-time.Hour), now), 1000, 0, fault.CouponExpired},
		"long over":                {between(now.Add(-2*time.Hour), now.Add(-time.Hour)), 1000, 0, fault.CouponExpired},
		"the last redemption":      {redeemed(2, 3), 1000, 100, none},
		"redeemed to the end":      {redeemed(3, 3), 1000, 0, fault.CouponExhausted},
		"redeemed to the end, fixed": {func() ordersdb.Coupon {
			c := redeemed(1, 1)
			f := fixed(1, "EUR")
			f.MaxRedemptions, f.Redemptions = c.MaxRedemptions, 1
			return f
		}(), 1000, 0, fault.CouponExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := coupon{c.coupon}
			got, err := held.discount(Order{CreatedAt: now, Currency: "EUR", SubtotalMinor: c.subtotal})
			var f *fault.Error
			switch {
			case c.rejected == none && (err != nil || got != c.want):
				t.Errorf("takes off %d, %v; want %d", got, err, c.want)
			case c.rejected != none && (!errors.As(err, &f) || f.Kind != c.rejected || !f.Kind.Rejection() || f.Detail == ""):
				t.Errorf("takes off %d, %v; want %v for good, explained", got, err, c.rejected)
			}
		})
	}
}
