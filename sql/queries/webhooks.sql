-- name: InsertSubscription :execrows
-- Zero rows: the name is taken.
INSERT INTO webhook_subscriptions (tenant_id, id, name, url, event_types, created_at)
VALUES (
    sqlc.arg(tenant_id), sqlc.arg(id), sqlc.arg(name), sqlc.arg(url), sqlc.arg(event_types), sqlc.arg(created_at)
)
ON CONFLICT (tenant_id, name) DO NOTHING;

-- name: FindSubscription :one
SELECT * FROM webhook_subscriptions WHERE tenant_id = sqlc.arg(tenant_id) AND name = sqlc.arg(name);

-- name: ReadSubscription :one
SELECT * FROM webhook_subscriptions WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id);

-- name: LockSubscription :one
-- Held while its secrets change, which are counted and ended one by one.
SELECT * FROM webhook_subscriptions WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) FOR UPDATE;

-- name: ListSubscriptions :many
SELECT * FROM webhook_subscriptions
WHERE tenant_id = sqlc.arg(tenant_id) AND id < sqlc.arg(before)
ORDER BY id DESC
LIMIT sqlc.arg(page_size);

-- name: CountActiveSubscriptions :one
SELECT count(*) FROM webhook_subscriptions WHERE tenant_id = sqlc.arg(tenant_id) AND active;

-- name: ListActiveSubscriptions :many
-- Those of all tenants that a batch of events is of.
-- @sqlc-vet-disable names-tenant
SELECT tenant_id, id, event_types FROM webhook_subscriptions
WHERE tenant_id = ANY (sqlc.arg(tenant_ids)::uuid[]) AND active
ORDER BY tenant_id, id;

-- name: EnableSubscription :execrows
-- Zero rows: there is no such subscription, or it is active already.
UPDATE webhook_subscriptions SET active = true, disabled_reason = NULL, failing_since = NULL
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND NOT active;

-- name: DisableSubscription :execrows
-- Zero rows: there is no such subscription, or it is disabled already, for its first reason.
UPDATE webhook_subscriptions SET active = false, disabled_reason = sqlc.arg(reason)::text
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND active;

-- name: MarkFailing :one
-- Tells since when the receiver has not been reached, and writes only where that is news.
WITH news AS (
    UPDATE webhook_subscriptions SET failing_since = now()
    WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND active AND failing_since IS NULL
)
SELECT coalesce(s.failing_since, now())::timestamptz AS failing_since, now()::timestamptz AS now
FROM webhook_subscriptions s
WHERE s.tenant_id = sqlc.arg(tenant_id) AND s.id = sqlc.arg(id);

-- name: MarkReached :exec
UPDATE webhook_subscriptions SET failing_since = NULL
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND failing_since IS NOT NULL;

-- name: ReadDelivery :one
-- What a delivery needs of its subscription: where to, and the live secrets, newest first.
SELECT s.url, s.active, s.failing_since, ARRAY(
    SELECT k.secret FROM webhook_secrets k
    WHERE k.tenant_id = s.tenant_id AND k.subscription_id = s.id AND (k.expires_at IS NULL OR k.expires_at > now())
    ORDER BY k.id DESC
)::bytea[] AS secrets
FROM webhook_subscriptions s
WHERE s.tenant_id = sqlc.arg(tenant_id) AND s.id = sqlc.arg(id);

-- name: InsertSecret :exec
INSERT INTO webhook_secrets (tenant_id, id, subscription_id, secret, created_at)
VALUES (sqlc.arg(tenant_id), sqlc.arg(id), sqlc.arg(subscription_id), sqlc.arg(secret), sqlc.arg(created_at));

-- name: CountSecrets :one
SELECT count(*) FROM webhook_secrets WHERE tenant_id = sqlc.arg(tenant_id) AND subscription_id = sqlc.arg(subscription_id);

-- name: EndSecrets :exec
-- Those that live longer live until then and no longer.
UPDATE webhook_secrets SET expires_at = sqlc.arg(ends_at)
WHERE tenant_id = sqlc.arg(tenant_id) AND subscription_id = sqlc.arg(subscription_id)
  AND (expires_at IS NULL OR expires_at > sqlc.arg(ends_at));

-- name: DeleteEndedSecrets :exec
DELETE FROM webhook_secrets
WHERE tenant_id = sqlc.arg(tenant_id) AND subscription_id = sqlc.arg(subscription_id)
  AND expires_at <= sqlc.arg(ended_at);
