-- name: InsertImportChunk :exec
INSERT INTO import_chunks (tenant_id, task_id, number, first_row, input)
VALUES (sqlc.arg(tenant_id), sqlc.arg(task_id), sqlc.arg(number), sqlc.arg(first_row), sqlc.arg(input))
ON CONFLICT (tenant_id, task_id, number) DO NOTHING;

-- name: ReadImportChunk :one
SELECT first_row, input FROM import_chunks
WHERE tenant_id = sqlc.arg(tenant_id) AND task_id = sqlc.arg(task_id) AND number = sqlc.arg(number);

-- name: ReadImportChunkOfRow :one
-- The chunk that holds an order, by its number in the import.
SELECT first_row, input FROM import_chunks
WHERE tenant_id = sqlc.arg(tenant_id) AND task_id = sqlc.arg(task_id) AND first_row <= sqlc.arg(row)
ORDER BY number DESC
LIMIT 1;

-- name: InsertImportRow :exec
-- A row count of 0 says that the row has its outcome already, and fails the write.
INSERT INTO import_rows (tenant_id, task_id, number, client_order_id, state, order_id, problem)
VALUES (
    sqlc.arg(tenant_id), sqlc.arg(task_id), sqlc.arg(number), sqlc.narg(client_order_id), sqlc.arg(state),
    sqlc.narg(order_id), sqlc.narg(problem)
)
ON CONFLICT (tenant_id, task_id, number) DO NOTHING;

-- name: SettleImportRow :exec
-- A row count of 0 says that the row does not wait any more, and fails the write.
UPDATE import_rows SET state = sqlc.arg(state), order_id = sqlc.narg(order_id), problem = sqlc.narg(problem)
WHERE tenant_id = sqlc.arg(tenant_id) AND task_id = sqlc.arg(task_id) AND number = sqlc.arg(number) AND state = 'waiting';

-- name: ListWaitingImportRows :many
SELECT number, order_id FROM import_rows
WHERE tenant_id = sqlc.arg(tenant_id) AND task_id = sqlc.arg(task_id) AND number > sqlc.arg(after) AND state = 'waiting'
ORDER BY number
LIMIT sqlc.arg(batch);

-- name: ListImportRows :many
SELECT * FROM import_rows
WHERE tenant_id = sqlc.arg(tenant_id) AND task_id = sqlc.arg(task_id) AND number > sqlc.arg(after)
  AND (sqlc.narg(state)::import_row_state IS NULL OR state = sqlc.narg(state))
ORDER BY number
LIMIT sqlc.arg(page_size);

-- name: PurgeImportRows :execrows
-- A bounded part of them; zero rows say that none are left.
DELETE FROM import_rows AS r
WHERE r.tenant_id = sqlc.arg(tenant_id) AND r.task_id = sqlc.arg(task_id)
  AND r.number IN (
    SELECT n.number FROM import_rows n
    WHERE n.tenant_id = sqlc.arg(tenant_id) AND n.task_id = sqlc.arg(task_id)
    ORDER BY n.number
    LIMIT sqlc.arg(batch)
  );

-- name: PurgeImportChunks :execrows
DELETE FROM import_chunks WHERE tenant_id = sqlc.arg(tenant_id) AND task_id = sqlc.arg(task_id);
