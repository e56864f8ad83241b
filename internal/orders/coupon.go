package orders

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/orders/internal/ordersdb"
	"orderonce/internal/postgres"
)

// Coupon is a discount that a tenant gives: a percentage of the subtotal, rounded down to the minor unit, or a fixed
// amount in one currency, never more than the subtotal.
type Coupon struct {
	TenantID       uuid.UUID
	Code           string
	Percent        int16 // 1 to 100, or 0 for a fixed amount
	AmountMinor    int64
	Currency       string // of the fixed amount
	ValidFrom      time.Time
	ValidUntil     time.Time // exclusive
	MaxRedemptions int32     // 0 for no limit
}

// PutCoupon adds a coupon; one of the same code stays as it is.
func PutCoupon(ctx context.Context, tx *postgres.Tx, c Coupon) error {
	db, err := tx.DB(ctx)
	if err != nil {
		return err
	}
	params := ordersdb.PutCouponParams{
		TenantID: c.TenantID, Code: c.Code, Kind: "fixed", AmountMinor: &c.AmountMinor, Currency: &c.Currency,
		ValidFrom: c.ValidFrom, ValidUntil: c.ValidUntil,
	}
	if c.Percent > 0 {
		params.Kind, params.Percent, params.AmountMinor, params.Currency = "percent", &c.Percent, nil, nil
	}
	if c.MaxRedemptions > 0 {
		params.MaxRedemptions = &c.MaxRedemptions
	}
	if err := queries.PutCoupon(ctx, db, params); err != nil {
		return fmt.Errorf("put coupon %s: %w", c.Code, err)
	}
	return nil
}

// couponKind's row is locked already when it is written.
var couponKind = &postgres.Kind{Name: "coupon", Rank: postgres.RankCoupon, Busy: fault.Busy}

type coupon struct{ ordersdb.Coupon }

// findCoupon reads the coupon and, where its redemptions are limited, holds it: its last redemption goes to one order.
// Coupons without a limit are not locked, so that a popular one does not line its orders up.
func findCoupon(ctx context.Context, tx *postgres.Tx, tenant uuid.UUID, code string) (*coupon, error) {
	db, err := tx.DB(ctx)
	if err != nil {
		return nil, err
	}
	row, err := queries.ReadCoupon(ctx, db, ordersdb.ReadCouponParams{TenantID: tenant, Code: code})
	if err == nil && row.MaxRedemptions != nil {
		row, err = queries.LockCoupon(ctx, db, ordersdb.LockCouponParams{TenantID: tenant, Code: code})
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.New(fault.CouponUnknown, "There is no such coupon.")
	}
	if err != nil {
		return nil, fmt.Errorf("read a coupon: %w", err)
	}
	return &coupon{row}, nil
}

// discount is what the coupon takes off the order, or the rejection.
func (c *coupon) discount(order Order) (int64, error) {
	switch {
	case !order.CreatedAt.Before(c.ValidUntil):
		return 0, fault.New(fault.CouponExpired, "The coupon has expired.")
	case order.CreatedAt.Before(c.ValidFrom):
		return 0, fault.New(fault.CouponNotApplicable, "The coupon is not valid yet.")
	case c.Currency != nil && *c.Currency != order.Currency:
		return 0, fault.New(fault.CouponNotApplicable, "The coupon is for another currency.")
	case c.MaxRedemptions != nil && c.Redemptions >= *c.MaxRedemptions:
		return 0, fault.New(fault.CouponExhausted, "The coupon has been redeemed as often as it can be.")
	}
	if c.Percent != nil {
		return share(order.SubtotalMinor, *c.Percent), nil
	}
	return min(*c.AmountMinor, order.SubtotalMinor), nil
}

// redeem counts the redemption of a limited coupon.
func (c *coupon) redeem(tx *postgres.Tx) {
	if c.MaxRedemptions != nil {
		tx.Stage(couponKind, redemption{TenantID: c.TenantID, Code: c.Code})
	}
}

type redemption ordersdb.RedeemCouponParams

func (r redemption) Write(ctx context.Context, db postgres.DBTX) error {
	return queries.RedeemCoupon(ctx, db, ordersdb.RedeemCouponParams(r))
}
