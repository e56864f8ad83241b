-- name: ReadEffect :one
SELECT * FROM effects WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id);

-- name: ListEffectsOfOrder :many
SELECT * FROM effects WHERE tenant_id = sqlc.arg(tenant_id) AND order_id = sqlc.arg(order_id) ORDER BY version, id;
