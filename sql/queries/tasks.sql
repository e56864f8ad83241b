-- name: InsertTask :exec
-- A row count of 0 can only be an id used twice, and fails the unit. It may be taken at once.
INSERT INTO tasks (
    tenant_id, id, operation, principal_id, key_principal_id, idempotency_key, options, state, total, due_at,
    traceparent, created_at, updated_at
) VALUES (
    sqlc.arg(tenant_id), sqlc.arg(id), sqlc.arg(operation), sqlc.arg(principal_id), sqlc.arg(key_principal_id),
    sqlc.arg(idempotency_key), sqlc.arg(options), 'processing', sqlc.arg(total), now(),
    sqlc.narg(traceparent), sqlc.arg(created_at), sqlc.arg(created_at)
)
ON CONFLICT (tenant_id, id) DO NOTHING;

-- name: ReadTask :one
-- With the database's clock, which alone says whether a lease or a retention is over.
SELECT tasks.*, now()::timestamptz AS read_at FROM tasks WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id);

-- name: LockTask :one
-- Holds the task until its change commits. Its owner's next write waits for that.
SELECT tasks.*, now()::timestamptz AS read_at FROM tasks
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id)
FOR UPDATE;

-- name: ListTasks :many
-- Newest first, of every tenant: for operators.
-- @sqlc-vet-disable names-tenant
SELECT tasks.*, now()::timestamptz AS read_at FROM tasks
WHERE id < sqlc.arg(before) AND (sqlc.narg(state)::task_state IS NULL OR state = sqlc.narg(state))
ORDER BY id DESC
LIMIT sqlc.arg(page_size);

-- name: ListTasksOfTenant :many
SELECT tasks.*, now()::timestamptz AS read_at FROM tasks
WHERE tenant_id = sqlc.arg(tenant_id) AND id < sqlc.arg(before)
  AND (sqlc.narg(state)::task_state IS NULL OR state = sqlc.narg(state))
ORDER BY id DESC
LIMIT sqlc.arg(page_size);

-- name: ListDueTasks :many
-- The tenants behind a cursor that have unfinished tasks, one index entry each, and of each tenant the tasks that have
-- been due for longest. Without a lock: TakeTask decides.
-- A worker takes for any tenant.
-- @sqlc-vet-disable names-tenant
WITH RECURSIVE unfinished AS (
    (SELECT t.tenant_id FROM tasks t WHERE t.due_at IS NOT NULL AND t.tenant_id > sqlc.arg(after) ORDER BY t.tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.tenant_id FROM tasks t WHERE t.due_at IS NOT NULL AND t.tenant_id > u.tenant_id ORDER BY t.tenant_id LIMIT 1)
    FROM unfinished u
    WHERE u.tenant_id IS NOT NULL
)
SELECT d.tenant_id, d.id, d.operation, d.attempt_token, d.takeovers
FROM unfinished u
CROSS JOIN LATERAL (
    SELECT t.tenant_id, t.id, t.operation, t.attempt_token, t.takeovers
    FROM tasks t
    WHERE t.tenant_id = u.tenant_id AND t.due_at <= now() AND t.operation = ANY (sqlc.arg(operations)::text[])
    ORDER BY t.due_at
    LIMIT sqlc.arg(of_each)
) AS d
LIMIT sqlc.arg(batch);

-- name: TakeTask :one
-- Compares and swaps: no row where somebody else has taken it since it was seen, or its lease was lengthened.
UPDATE tasks
SET attempt_token = attempt_token + 1, owner = sqlc.arg(owner)::text, due_at = now() + sqlc.arg(lease)::interval,
    takeovers = takeovers + (owner IS NOT NULL)::integer, stalls = stalls + 1
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND attempt_token = sqlc.arg(attempt_token) AND due_at <= now()
RETURNING *;

-- name: HoldTask :exec
-- The fence. Every write of a task begins with it: a row count of 0 says that the lease is over or somebody else's, and
-- nothing of the write may happen. It locks the task until the write commits, and lengthens the lease.
UPDATE tasks SET due_at = now() + sqlc.arg(lease)::interval
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND attempt_token = sqlc.arg(attempt_token)
  AND owner IS NOT NULL AND due_at > now();

-- name: CheckpointTask :exec
-- Behind HoldTask, in its transaction, as the two below. Only forwards: a row count of 0 fails the write.
UPDATE tasks
SET checkpoint = sqlc.arg(checkpoint), succeeded = succeeded + sqlc.arg(succeeded), rejected = rejected + sqlc.arg(rejected),
    state = 'processing', stalls = 0, updated_at = now()
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND attempt_token = sqlc.arg(attempt_token)
  AND checkpoint <= sqlc.arg(checkpoint);

-- name: ReleaseTask :exec
-- Lets go of the task until it is due again. A taking that was no stall is not counted as one.
UPDATE tasks
SET owner = NULL, due_at = now() + sqlc.arg(delay)::interval, state = sqlc.arg(state),
    stalls = CASE WHEN sqlc.arg(stalled)::boolean THEN stalls ELSE greatest(stalls - 1, 0) END,
    updated_at = CASE WHEN state = sqlc.arg(state) THEN updated_at ELSE now() END
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND attempt_token = sqlc.arg(attempt_token);

-- name: EndTask :exec
UPDATE tasks
SET state = sqlc.arg(state), retryable = sqlc.arg(retryable), reason = sqlc.narg(reason), owner = NULL, due_at = NULL,
    updated_at = now(), ended_at = now(), result_expires_at = now() + sqlc.arg(retention)::interval
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND attempt_token = sqlc.arg(attempt_token) AND ended_at IS NULL;

-- name: CountFencedWrite :exec
-- The one thing that an owner of before may still leave: a note that it was there.
UPDATE tasks SET fenced_writes = fenced_writes + 1
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND attempt_token >= sqlc.arg(attempt_token);

-- name: ReviveTask :exec
-- Behind LockTask.
UPDATE tasks
SET state = 'processing', retryable = false, reason = NULL, stalls = 0, due_at = now(), updated_at = now(), ended_at = NULL,
    result_expires_at = NULL
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND state = 'failed' AND purged_at IS NULL;

-- name: ListExpiredTasks :many
-- The oldest first, without a lock: several purgers may see the same tasks.
-- The purge is the operator's, over all tenants.
-- @sqlc-vet-disable names-tenant
SELECT tenant_id, id, operation FROM tasks
WHERE result_expires_at <= now() AND purged_at IS NULL
ORDER BY result_expires_at
LIMIT sqlc.arg(batch);

-- name: MarkTaskPurged :exec
-- Behind LockTask, once nothing is left of the results.
UPDATE tasks SET purged_at = now()
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND result_expires_at <= now() AND purged_at IS NULL;

-- name: MeasureTasks :many
-- The tasks that have not ended, by state, counted up to a number, and the age of the oldest of those.
-- The figures are the operator's, over all tenants.
-- @sqlc-vet-disable names-tenant
SELECT state::text AS state, count(*) AS tasks, coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS oldest_seconds
FROM (
    SELECT state, created_at FROM tasks WHERE due_at IS NOT NULL AND created_at <= now() LIMIT sqlc.arg(most)
) AS unfinished
GROUP BY state;
