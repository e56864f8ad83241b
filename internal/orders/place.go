package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/bojanz/currency"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/orders/internal/ordersdb"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
)

// maxMetadataName is in characters. OpenAPI 3.0 cannot say it: it has no propertyNames.
const maxMetadataName = 64

// Placement is what a caller asks for. Its lengths and ranges have been checked against the contract.
type Placement struct {
	TenantID          uuid.UUID
	PrincipalID       uuid.UUID
	CheckoutID        *string
	ClientOrderID     *string // the caller's own name for the order, for ever; see Put
	CustomerID        string
	Currency          string
	Items             []Item
	ShippingAddressID string
	CouponCode        *string
	Metadata          map[string]string
}

// Place writes an order and its event. It refuses with fault.ValidationFailed what cannot be an order, and rejects
// for good with fault.CheckoutAlreadyOrdered or a coupon's fault.
func Place(ctx context.Context, tx *postgres.Tx, p Placement) (Order, error) {
	order, err := draft(p)
	if err != nil {
		return Order{}, err
	}
	var redeemed *coupon
	if p.CouponCode != nil {
		if redeemed, err = findCoupon(ctx, tx, p.TenantID, *p.CouponCode); err != nil {
			return Order{}, err
		}
		if order.DiscountMinor, err = redeemed.discount(order); err != nil {
			return Order{}, err
		}
		order.TotalMinor -= order.DiscountMinor
	}
	kept, err := tx.Offer(ctx, orderKind, placed{order})
	if err != nil {
		return Order{}, err
	}
	if !kept {
		return Order{}, taken(ctx, tx, p)
	}
	if redeemed != nil {
		redeemed.redeem(tx)
	}
	return order, outbox.Add(ctx, tx, outbox.Event{
		Tenant: order.TenantID, AggregateType: "order", AggregateID: order.ID, Version: order.Version,
		Type: "orderonce.order.created.v1", Payload: order, OccurredAt: order.CreatedAt,
	})
}

// draft is the order before any coupon: everything that needs no database.
func draft(p Placement) (Order, error) {
	if p.Currency == "" || !currency.IsValid(p.Currency) { // the list takes "" for an amount of nothing
		return Order{}, fault.Invalid("/currency", "is no active ISO 4217 currency")
	}
	for name := range p.Metadata {
		if n := utf8.RuneCountInString(name); n < 1 || n > maxMetadataName {
			return Order{}, fault.Invalid("/metadata", fmt.Sprintf("names must have 1 to %d characters", maxMetadataName))
		}
	}
	total, err := subtotal(p.Items)
	if err != nil {
		return Order{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Order{}, fmt.Errorf("order id: %w", err)
	}
	if p.Metadata == nil {
		p.Metadata = map[string]string{}
	}
	return Order{
		TenantID: p.TenantID, PrincipalID: p.PrincipalID, Version: 1,
		ID: id, Status: Pending, CheckoutID: p.CheckoutID, ClientOrderID: p.ClientOrderID, CustomerID: p.CustomerID, Currency: p.Currency,
		Items: p.Items, ShippingAddressID: p.ShippingAddressID, CouponCode: p.CouponCode, Metadata: p.Metadata,
		SubtotalMinor: total, TotalMinor: total,
		CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
	}, nil
}

// errClientOrderTaken says that another unit made the client's order while this one was making it.
var errClientOrderTaken = errors.New("the client's order id has an order")

// taken says which identity the table refused. It runs in the transaction whose insert waited for the other order's
// commit, so that order can be read; orders are never deleted.
func taken(ctx context.Context, tx *postgres.Tx, p Placement) error {
	db, err := tx.DB(ctx)
	if err != nil {
		return err
	}
	if p.ClientOrderID != nil {
		_, err := FindByClientOrder(ctx, db, p.TenantID, *p.ClientOrderID)
		if err == nil {
			return errClientOrderTaken
		}
		if fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
	if p.CheckoutID == nil {
		return errors.New("an order was refused that has no identity of its own")
	}
	holder, err := queries.ReadOrderOfCheckout(ctx, db, ordersdb.ReadOrderOfCheckoutParams{
		TenantID: p.TenantID, CheckoutID: *p.CheckoutID,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return errors.New("the order that holds the checkout cannot be read")
	}
	if err != nil {
		return fmt.Errorf("read the order of a checkout: %w", err)
	}
	already := fault.New(fault.CheckoutAlreadyOrdered, "This checkout already has an order.")
	already.Holder = holder.String()
	return already
}

// placed is a new order's row.
type placed struct{ Order }

func (o placed) Write(ctx context.Context, db postgres.DBTX) error {
	items, err := json.Marshal(o.Items)
	if err != nil {
		return fmt.Errorf("encode the items: %w", err)
	}
	metadata, err := json.Marshal(o.Metadata)
	if err != nil {
		return fmt.Errorf("encode the metadata: %w", err)
	}
	return queries.InsertOrder(ctx, db, ordersdb.InsertOrderParams{
		TenantID: o.TenantID, ID: o.ID, PrincipalID: o.PrincipalID, CheckoutID: o.CheckoutID, ClientOrderID: o.ClientOrderID,
		CustomerID: o.CustomerID, Currency: o.Currency, Status: string(o.Status), Items: items,
		SubtotalMinor: o.SubtotalMinor, DiscountMinor: o.DiscountMinor, TotalMinor: o.TotalMinor,
		CouponCode: o.CouponCode, ShippingAddressID: o.ShippingAddressID, Metadata: metadata,
		Version: o.Version, CreatedAt: o.CreatedAt,
	})
}

// LockOrder is the order's identity: what another unit could wait for.
func (o placed) LockOrder() string {
	identity := string(o.ID[:])
	for _, name := range []*string{o.ClientOrderID, o.CheckoutID} {
		if name != nil {
			identity = *name + "\x00" + identity
		}
	}
	return identity
}

func (o placed) Undo(ctx context.Context, db postgres.DBTX) error {
	return queries.UndoOrder(ctx, db, ordersdb.UndoOrderParams{TenantID: o.TenantID, ID: o.ID})
}
