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
