-- name: ClaimLook :one
-- Claims the next look at a destination, where it is due or forced. The first one begins some time back. No row: somebody
-- else has looked lately, or is looking.
--
-- A destination's look is of no tenant.
-- @sqlc-vet-disable names-tenant
INSERT INTO reconciliation_looks AS l (destination, listed_until, ended_until, next_at)
VALUES (sqlc.arg(destination), now() - sqlc.arg(back)::bigint * interval '1 microsecond', now() - sqlc.arg(back)::bigint * interval '1 microsecond',
    now() + sqlc.arg(pause)::bigint * interval '1 microsecond')
ON CONFLICT (destination) DO UPDATE SET next_at = excluded.next_at WHERE l.next_at <= now() OR sqlc.arg(forced)::boolean
RETURNING l.listed_until, l.ended_until, now()::timestamptz AS at;

-- name: AdvanceLook :one
-- Says how far a look has come, which never goes back, and keeps others from looking until the time that it returns.
--
-- A destination's look is of no tenant.
-- @sqlc-vet-disable names-tenant
UPDATE reconciliation_looks SET
    listed_until = greatest(listed_until, sqlc.arg(listed_until)), ended_until = greatest(ended_until, sqlc.arg(ended_until)),
    next_at = now() + sqlc.arg(pause)::bigint * interval '1 microsecond'
WHERE destination = sqlc.arg(destination)
RETURNING next_at;

-- name: ListEffectsOfOperations :many
-- The effects of a destination that ask for the same operations of the same orders. By LATERAL, for a plan that goes by
-- the index whatever the statistics say.
--
-- It names the tenants in the list that it joins with: a destination's page is of several.
-- @sqlc-vet-disable names-tenant
SELECT e.* FROM ROWS FROM (
    unnest(sqlc.arg(tenant_ids)::uuid[]), unnest(sqlc.arg(order_ids)::uuid[]), unnest(sqlc.arg(operations)::text[])
) AS l (tenant_id, order_id, operation)
CROSS JOIN LATERAL (
    SELECT * FROM effects AS f
    WHERE f.tenant_id = l.tenant_id AND f.order_id = l.order_id AND f.destination = sqlc.arg(destination) AND f.operation = l.operation
    ORDER BY f.lane
) AS e;

-- name: ListSucceededEffects :many
-- Effects that were sent and have succeeded, in the order of their ends, from one of them on.
--
-- The check of a destination is of all tenants.
-- @sqlc-vet-disable names-tenant
SELECT * FROM effects
WHERE destination = sqlc.arg(destination) AND state = 'succeeded' AND first_sent_at IS NOT NULL
    AND ended_at >= sqlc.arg(since)::timestamptz AND ended_at < sqlc.arg(until)::timestamptz
    AND (ended_at, id) > (sqlc.arg(after_end)::timestamptz, sqlc.arg(after_id)::uuid)
ORDER BY ended_at, id LIMIT sqlc.arg(page_size);

-- name: InsertFinding :execrows
-- No row: it was found before. One that a person has cleared stays so.
INSERT INTO reconciliation_findings (tenant_id, id, destination, kind, idempotency_key, order_id, operation, details, found_at)
VALUES (sqlc.arg(tenant_id), sqlc.arg(id), sqlc.arg(destination), sqlc.arg(kind), sqlc.arg(idempotency_key), sqlc.arg(order_id),
    sqlc.arg(operation), sqlc.arg(details), now())
ON CONFLICT (tenant_id, destination, idempotency_key, kind) DO NOTHING;

-- name: ClearFinding :execrows
UPDATE reconciliation_findings SET cleared_at = now()
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND cleared_at IS NULL;

-- name: ReadFinding :one
SELECT * FROM reconciliation_findings WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id);

-- name: ListOpenFindings :many
-- What was found and is not cleared, newest first.
--
-- For whoever runs the installation: no tenant is named because all are looked at.
-- @sqlc-vet-disable names-tenant
SELECT * FROM reconciliation_findings
WHERE cleared_at IS NULL AND destination = sqlc.arg(destination) AND id < sqlc.arg(before) ORDER BY id DESC LIMIT sqlc.arg(page_size);

-- name: CountOpenFindings :many
-- Few, or somebody has been told long ago; the index holds nothing else.
--
-- A gauge is of all tenants.
-- @sqlc-vet-disable names-tenant
SELECT destination, kind, count(*) AS open FROM reconciliation_findings WHERE cleared_at IS NULL GROUP BY destination, kind;
