-- name: ClaimKey :exec
-- The primary key is the lock. A second claimer waits on this row until the first transaction ends or lock_timeout
-- fires; after a rollback the waiter owns the key. A row count of 0 says that the key is taken. The result is NULL
-- while the work is still to come, and complete where the work staged all it writes.
INSERT INTO idempotency_requests (
    tenant_id, principal_id, operation, idempotency_key,
    fingerprint, fingerprint_version, field_digests, api_version,
    response_status, response_headers, response_body, resource_type, resource_id, traceparent,
    created_at, completed_at, expires_at
) VALUES (
    sqlc.arg(tenant_id), sqlc.arg(principal_id), sqlc.arg(operation), sqlc.arg(idempotency_key),
    sqlc.arg(fingerprint), sqlc.arg(fingerprint_version), sqlc.arg(field_digests), sqlc.arg(api_version),
    sqlc.narg(response_status), sqlc.narg(response_headers), sqlc.narg(response_body),
    sqlc.narg(resource_type), sqlc.narg(resource_id), sqlc.narg(traceparent),
    sqlc.arg(created_at), sqlc.narg(completed_at), sqlc.narg(expires_at)
)
ON CONFLICT (tenant_id, principal_id, operation, idempotency_key) DO NOTHING;

-- name: CompleteKey :exec
-- Puts the result into a claim that this transaction made without one. Never a second time.
UPDATE idempotency_requests
SET response_status = sqlc.arg(response_status), response_headers = sqlc.arg(response_headers),
    response_body = sqlc.narg(response_body), resource_type = sqlc.narg(resource_type),
    resource_id = sqlc.narg(resource_id), completed_at = sqlc.arg(completed_at), expires_at = sqlc.narg(expires_at)
WHERE tenant_id = sqlc.arg(tenant_id) AND principal_id = sqlc.arg(principal_id)
  AND operation = sqlc.arg(operation) AND idempotency_key = sqlc.arg(idempotency_key)
  AND response_status IS NULL;

-- name: ReadOutcome :one
-- A statement of its own, never part of the losing INSERT: it needs a snapshot younger than the winner's COMMIT.
SELECT fingerprint, fingerprint_version, field_digests, api_version,
       response_status, response_headers, response_body, resource_type, resource_id, traceparent, completed_at, expires_at,
       coalesce(expires_at <= now(), false)::boolean AS expired
FROM idempotency_requests
WHERE tenant_id = sqlc.arg(tenant_id) AND principal_id = sqlc.arg(principal_id)
  AND operation = sqlc.arg(operation) AND idempotency_key = sqlc.arg(idempotency_key);

-- name: ListRecordsOfKey :many
-- An operator knows a key and not whose it is: the scopes that it can have are looked up one by one, by primary key.
SELECT principal_id, operation, api_version, response_status, resource_type, resource_id, traceparent,
       created_at, completed_at, expires_at
FROM idempotency_requests
WHERE tenant_id = sqlc.arg(tenant_id) AND principal_id = ANY(sqlc.arg(principal_ids)::uuid[])
  AND operation = ANY(sqlc.arg(operations)::text[]) AND idempotency_key = sqlc.arg(idempotency_key)
ORDER BY created_at;

-- name: ForgetExpiredKey :exec
-- Judges the expiry again: between the read and this statement the key may have been claimed anew.
DELETE FROM idempotency_requests
WHERE tenant_id = sqlc.arg(tenant_id) AND principal_id = sqlc.arg(principal_id)
  AND operation = sqlc.arg(operation) AND idempotency_key = sqlc.arg(idempotency_key)
  AND expires_at <= now();

-- name: EndRetention :exec
-- Begins the retention of a record whose outcome was a promise, now kept. One that is gone is none to speak of.
UPDATE idempotency_requests SET expires_at = now() + sqlc.arg(retention)::interval
WHERE tenant_id = sqlc.arg(tenant_id) AND principal_id = sqlc.arg(principal_id)
  AND operation = sqlc.arg(operation) AND idempotency_key = sqlc.arg(idempotency_key)
  AND completed_at IS NOT NULL;

-- name: OpenRetention :exec
-- Takes the expiry back: what the record promises is being worked on again.
UPDATE idempotency_requests SET expires_at = NULL
WHERE tenant_id = sqlc.arg(tenant_id) AND principal_id = sqlc.arg(principal_id)
  AND operation = sqlc.arg(operation) AND idempotency_key = sqlc.arg(idempotency_key)
  AND completed_at IS NOT NULL;

-- name: ListOverdueKeys :many
-- The oldest first, without a lock: several purgers may see the same keys, and PurgeKeys lets each have its own.
-- The purge is the operator's, over all tenants.
-- @sqlc-vet-disable names-tenant
SELECT tenant_id, principal_id, operation, idempotency_key, expires_at::timestamptz AS expires_at
FROM idempotency_requests
WHERE expires_at <= now()
ORDER BY expires_at
LIMIT sqlc.arg(batch);

-- name: PurgeKeys :execrows
-- By exact keys of one tenant, judging the expiry again. Rows that another transaction holds (a second purger, or a
-- request that forgets the expired key to claim it) are left to it. A record without a result or without an expiry, as
-- that of a task that still runs, is never touched.
DELETE FROM idempotency_requests AS r
WHERE r.tenant_id = sqlc.arg(tenant_id)
  AND (r.principal_id, r.operation, r.idempotency_key) IN (
    SELECT k.principal_id, k.operation, k.idempotency_key
    FROM idempotency_requests AS k
    JOIN ROWS FROM (
        unnest(sqlc.arg(principal_ids)::uuid[]), unnest(sqlc.arg(operations)::text[]), unnest(sqlc.arg(keys)::text[])
    ) AS overdue (principal_id, operation, idempotency_key)
      ON k.principal_id = overdue.principal_id AND k.operation = overdue.operation
     AND k.idempotency_key = overdue.idempotency_key
    WHERE k.tenant_id = sqlc.arg(tenant_id) AND k.expires_at <= now()
    FOR UPDATE OF k SKIP LOCKED
  )
  AND r.expires_at <= now();

-- name: CountOverdueKeys :one
-- What a purge would remove, counted up to a limit: an operator's dry run must not scan millions of rows.
-- The purge is the operator's, over all tenants.
-- @sqlc-vet-disable names-tenant
SELECT count(*) AS overdue, coalesce(extract(epoch FROM now() - min(expires_at)), 0)::float8 AS oldest_seconds
FROM (
    SELECT expires_at FROM idempotency_requests WHERE expires_at <= now() ORDER BY expires_at LIMIT sqlc.arg(most)
) AS overdue;

-- name: UndoClaim :exec
-- Takes back a claim that this transaction made for a unit which another table refused. Nobody has seen it.
DELETE FROM idempotency_requests
WHERE tenant_id = sqlc.arg(tenant_id) AND principal_id = sqlc.arg(principal_id)
  AND operation = sqlc.arg(operation) AND idempotency_key = sqlc.arg(idempotency_key);
