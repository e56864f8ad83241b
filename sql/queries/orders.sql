-- name: InsertOrder :exec
-- A row count of 0 says that the checkout or the client's order id has an order already; reading both tells which. The
-- transaction survives it, so that the refusal can be stored. It waits for another transaction that is placing an order
-- of the same identity.
INSERT INTO orders (
    tenant_id, id, principal_id, checkout_id, client_order_id, customer_id, currency, status, items,
    subtotal_minor, discount_minor, total_minor, coupon_code, shipping_address_id, metadata, version, created_at
) VALUES (
    sqlc.arg(tenant_id), sqlc.arg(id), sqlc.arg(principal_id), sqlc.narg(checkout_id), sqlc.narg(client_order_id), sqlc.arg(customer_id),
    sqlc.arg(currency), sqlc.arg(status), sqlc.arg(items), sqlc.arg(subtotal_minor), sqlc.arg(discount_minor),
    sqlc.arg(total_minor), sqlc.narg(coupon_code), sqlc.arg(shipping_address_id), sqlc.arg(metadata),
    sqlc.arg(version), sqlc.arg(created_at)
)
ON CONFLICT DO NOTHING;

-- name: ReadOrder :one
SELECT * FROM orders WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id);

-- name: ReadOrderOfCheckout :one
SELECT id FROM orders WHERE tenant_id = sqlc.arg(tenant_id) AND checkout_id = sqlc.arg(checkout_id)::text;

-- name: ReadClientOrder :one
SELECT * FROM orders WHERE tenant_id = sqlc.arg(tenant_id) AND client_order_id = sqlc.arg(client_order_id)::text;

-- name: LockOrder :one
-- Holds the order until its change commits: its version is taken while it is held, and so has no gaps.
SELECT * FROM orders WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) FOR UPDATE;

-- name: ChangeOrderStatus :exec
-- A row count of 0 can only be an order that was not held, and fails the unit.
UPDATE orders SET status = sqlc.arg(status), version = sqlc.arg(version)
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND version = sqlc.arg(version) - 1;

-- name: ListOrders :many
-- Newest first: the ids are time-ordered, so the primary key is the order of the list.
SELECT * FROM orders
WHERE tenant_id = sqlc.arg(tenant_id)
  AND id < sqlc.arg(before)
  AND (sqlc.narg(status)::order_status IS NULL OR status = sqlc.narg(status))
  AND (sqlc.narg(checkout_id)::text IS NULL OR checkout_id = sqlc.narg(checkout_id))
ORDER BY id DESC
LIMIT sqlc.arg(page_size);

-- name: ReadCoupon :one
SELECT * FROM coupons WHERE tenant_id = sqlc.arg(tenant_id) AND code = sqlc.arg(code);

-- name: LockCoupon :one
-- Holds the coupon until the order that redeems it commits, so that its last redemption goes to one order.
SELECT * FROM coupons WHERE tenant_id = sqlc.arg(tenant_id) AND code = sqlc.arg(code) FOR UPDATE;

-- name: RedeemCoupon :exec
UPDATE coupons SET redemptions = redemptions + 1
WHERE tenant_id = sqlc.arg(tenant_id) AND code = sqlc.arg(code);

-- name: PutCoupon :exec
INSERT INTO coupons (tenant_id, code, kind, percent, amount_minor, currency, valid_from, valid_until, max_redemptions)
VALUES (
    sqlc.arg(tenant_id), sqlc.arg(code), sqlc.arg(kind), sqlc.narg(percent), sqlc.narg(amount_minor),
    sqlc.narg(currency), sqlc.arg(valid_from), sqlc.arg(valid_until), sqlc.narg(max_redemptions)
)
ON CONFLICT (tenant_id, code) DO NOTHING;

-- name: UndoOrder :exec
-- Takes back an order that this transaction wrote for a unit which was refused. Nobody has seen it.
DELETE FROM orders WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id);
