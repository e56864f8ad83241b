-- name: InsertEvent :exec
-- A row count of 0 can only be an id used twice, and fails the unit.
INSERT INTO outbox_events (
    tenant_id, id, aggregate_type, aggregate_id, version, type, payload, traceparent, occurred_at
) VALUES (
    sqlc.arg(tenant_id), sqlc.arg(id), sqlc.arg(aggregate_type), sqlc.arg(aggregate_id), sqlc.arg(version),
    sqlc.arg(type), sqlc.arg(payload), sqlc.narg(traceparent), sqlc.arg(occurred_at)
)
ON CONFLICT (tenant_id, id) DO NOTHING;

-- name: UndoEvent :exec
-- Takes back an event that this transaction wrote for a unit which was refused. Nobody has seen it.
DELETE FROM outbox_events WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id);

-- name: ListEventsBetween :many
-- The events of an aggregate among those whose ids, and so whose times, lie between two: as many rows are read as the
-- tenant had events in that time.
SELECT id, version, type, occurred_at
FROM outbox_events
WHERE tenant_id = sqlc.arg(tenant_id) AND id BETWEEN sqlc.arg(first) AND sqlc.arg(last)
  AND aggregate_type = sqlc.arg(aggregate_type) AND aggregate_id = sqlc.arg(aggregate_id)
ORDER BY version;
-- name: TakeEvents :many
-- The next events that nobody has dispatched, held until this transaction ends; those that another dispatcher holds are
-- its own. The versions of an aggregate come in order. Going on behind the last batch passes by what was left there, and
-- the dead entries of what was not.
-- The dispatcher's work is over all tenants.
-- @sqlc-vet-disable names-tenant
SELECT tenant_id, id, aggregate_type, aggregate_id, version, type, payload, traceparent, occurred_at
FROM outbox_events
WHERE dispatched_at IS NULL
  AND (aggregate_id, version) > (sqlc.arg(after_aggregate)::uuid, sqlc.arg(after_version)::bigint)
ORDER BY aggregate_id, version
LIMIT sqlc.arg(batch)
FOR UPDATE SKIP LOCKED;

-- name: ListUndispatched :many
-- Which of these versions are still to be dispatched, whoever holds them now. A version is committed before the next one
-- is made, so what is not found here has been dispatched.
-- The dispatcher's work is over all tenants.
-- @sqlc-vet-disable names-tenant
SELECT e.aggregate_id, e.version
FROM ROWS FROM (unnest(sqlc.arg(aggregate_ids)::uuid[]), unnest(sqlc.arg(versions)::bigint[])) AS v (aggregate_id, version)
JOIN outbox_events AS e ON e.aggregate_id = v.aggregate_id AND e.version = v.version AND e.dispatched_at IS NULL;

-- name: MarkDispatched :execrows
-- It names the tenants in the list that it joins with: a batch is of several.
-- @sqlc-vet-disable names-tenant
UPDATE outbox_events AS e SET dispatched_at = now()
FROM ROWS FROM (unnest(sqlc.arg(tenant_ids)::uuid[]), unnest(sqlc.arg(ids)::uuid[])) AS d (tenant_id, id)
WHERE e.tenant_id = d.tenant_id AND e.id = d.id AND e.dispatched_at IS NULL;

-- name: AreEventsWaiting :one
-- Whether an event of the aggregate is still to be dispatched.
SELECT EXISTS (
    SELECT FROM outbox_events
    WHERE tenant_id = sqlc.arg(tenant_id) AND aggregate_id = sqlc.arg(aggregate_id) AND dispatched_at IS NULL
);

-- name: PruneEvents :execrows
-- The events that were dispatched longest ago, up to a number. Those that another pruning holds are left to it.
-- Pruning is the operator's, over all tenants.
-- @sqlc-vet-disable names-tenant
DELETE FROM outbox_events AS e
WHERE (e.tenant_id, e.id) IN (
    SELECT o.tenant_id, o.id FROM outbox_events AS o
    WHERE o.dispatched_at < now() - sqlc.arg(retention)::bigint * interval '1 microsecond'
    ORDER BY o.dispatched_at
    LIMIT sqlc.arg(batch)
    FOR UPDATE SKIP LOCKED
);

-- name: MeasureOutbox :one
-- How many events wait, counted up to a number, and since when the oldest of those does: a look at the left edge of the
-- index of what was not dispatched.
-- The figures are the operator's, over all tenants.
-- @sqlc-vet-disable names-tenant
SELECT count(*) AS pending, coalesce(extract(epoch FROM now() - min(occurred_at)), 0)::float8 AS oldest_seconds
FROM (
    SELECT occurred_at FROM outbox_events
    WHERE dispatched_at IS NULL AND occurred_at <= now()
    ORDER BY aggregate_id, version
    LIMIT sqlc.arg(most)
) AS waiting;

-- name: ListOldestUndispatched :many
-- In the order of their dispatch.
-- The operators' look over all tenants.
-- @sqlc-vet-disable names-tenant
SELECT tenant_id, id, aggregate_type, aggregate_id, version, type, occurred_at
FROM outbox_events WHERE dispatched_at IS NULL AND occurred_at <= now()
ORDER BY aggregate_id, version LIMIT sqlc.arg(most);
