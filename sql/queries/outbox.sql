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
