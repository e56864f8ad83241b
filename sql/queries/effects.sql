-- name: HoldLanes :many
-- All effects of the lanes, held until this transaction ends: the end of one that is open waits for what is decided here,
-- and finds the successor that was made for it; one that was ending is seen as ended. They are held from predecessor to
-- successor, as the end of one holds them. By LATERAL, for a plan that goes by the index whatever the statistics of a
-- young table say.
--
-- It names the tenants in the list that it joins with: a batch is of several.
-- @sqlc-vet-disable names-tenant
SELECT e.* FROM ROWS FROM (
    unnest(sqlc.arg(tenant_ids)::uuid[]), unnest(sqlc.arg(order_ids)::uuid[]),
    unnest(sqlc.arg(destinations)::text[]), unnest(sqlc.arg(lanes)::text[])
) AS l (tenant_id, order_id, destination, lane)
CROSS JOIN LATERAL (
    SELECT * FROM effects AS f
    WHERE f.tenant_id = l.tenant_id AND f.order_id = l.order_id AND f.destination = l.destination AND f.lane = l.lane
    ORDER BY f.version, f.id FOR SHARE
) AS e;

-- name: InsertEffects :many
-- Makes the effects that are not there yet, and returns the ids of those. One that has nothing to undo begins at its end.
INSERT INTO effects (
    tenant_id, id, destination, lane, operation, reverts, event_id, order_id, version, idempotency_key, request, request_hash,
    required, state, due_at, evidence, traceparent, created_at, ended_at
)
SELECT c.tenant_id, c.id, c.destination, c.lane, c.operation, nullif(c.reverts, ''), c.event_id, c.order_id, c.version,
    c.idempotency_key, c.request, c.request_hash, c.required, c.state::effect_state,
    CASE WHEN c.due THEN now() END,
    CASE c.state WHEN 'succeeded' THEN jsonb_build_array(jsonb_build_object('at', now(), 'detail', 'nothing to undo')) ELSE '[]' END,
    nullif(c.traceparent, ''), now(), CASE c.state WHEN 'succeeded' THEN now() END
FROM ROWS FROM (
    unnest(sqlc.arg(tenant_ids)::uuid[]), unnest(sqlc.arg(ids)::uuid[]), unnest(sqlc.arg(destinations)::text[]),
    unnest(sqlc.arg(lanes)::text[]), unnest(sqlc.arg(operations)::text[]), unnest(sqlc.arg(reverts)::text[]),
    unnest(sqlc.arg(event_ids)::uuid[]), unnest(sqlc.arg(order_ids)::uuid[]), unnest(sqlc.arg(versions)::bigint[]),
    unnest(sqlc.arg(idempotency_keys)::uuid[]), unnest(sqlc.arg(requests)::bytea[]), unnest(sqlc.arg(request_hashes)::bytea[]),
    unnest(sqlc.arg(required)::boolean[]), unnest(sqlc.arg(states)::text[]), unnest(sqlc.arg(due)::boolean[]),
    unnest(sqlc.arg(traceparents)::text[])
) AS c (
    tenant_id, id, destination, lane, operation, reverts, event_id, order_id, version, idempotency_key, request, request_hash,
    required, state, due, traceparent
)
ON CONFLICT (tenant_id, order_id, destination, lane, operation) DO NOTHING
RETURNING id;

-- name: ReadStanding :one
-- How far the effects are that the order waits for.
SELECT count(*) AS required, count(*) FILTER (WHERE state = 'succeeded') AS succeeded, count(*) FILTER (WHERE state = 'failed') AS failed
FROM effects WHERE tenant_id = sqlc.arg(tenant_id) AND order_id = sqlc.arg(order_id) AND required;

-- name: PruneEffects :execrows
-- The effects that ended longest ago, up to a number, but for those that the order waited for: a later cancellation
-- reverts them. Those that another pruning holds are left to it.
-- Pruning is the operator's, over all tenants.
-- @sqlc-vet-disable names-tenant
DELETE FROM effects AS e
WHERE (e.tenant_id, e.id) IN (
    SELECT o.tenant_id, o.id FROM effects AS o
    WHERE o.ended_at < now() - sqlc.arg(retention)::bigint * interval '1 microsecond' AND NOT o.required
    ORDER BY o.ended_at
    LIMIT sqlc.arg(batch)
    FOR UPDATE SKIP LOCKED
);

-- name: ReadEffect :one
SELECT * FROM effects WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id);

-- name: ListEffectsOfOrder :many
SELECT * FROM effects WHERE tenant_id = sqlc.arg(tenant_id) AND order_id = sqlc.arg(order_id) ORDER BY version, id;
