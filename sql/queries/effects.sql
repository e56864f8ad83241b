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
    CASE c.state WHEN 'succeeded' THEN jsonb_build_array(jsonb_build_object(
        'at', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'token', 0, 'detail', sqlc.arg(nothing_to_undo)::text)) ELSE '[]' END,
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

-- name: ListStatesOfOrders :many
SELECT order_id, state FROM effects
WHERE tenant_id = sqlc.arg(tenant_id) AND destination = sqlc.arg(destination) AND operation = sqlc.arg(operation)
  AND lane = '' AND order_id = ANY (sqlc.arg(order_ids)::uuid[]);

-- name: TakeEffects :many
-- Takes up to `most` due effects of a destination and leases them: what was pending is in flight, committed before a
-- byte of it leaves; what is found in flight was possibly sent, and is unknown. Each of the next 64 tenants behind
-- `after_tenant` that have anything under way gives its share, so that no tenant waits for another's backlog, and
-- nothing is looked at that is neither due nor a tenant's next. Each row says how many tenants were looked at, and
-- which was the last; where nothing was due, one row without an effect does.
--
-- It names no tenant: whose effects are due is what it finds out.
-- @sqlc-vet-disable names-tenant
WITH RECURSIVE near AS (
    (SELECT e.tenant_id, 1 AS place FROM effects AS e
     WHERE e.destination = sqlc.arg(destination) AND e.due_at IS NOT NULL AND e.tenant_id > sqlc.arg(after_tenant)::uuid
     ORDER BY e.tenant_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, near.place + 1 FROM near CROSS JOIN LATERAL (
        SELECT e.tenant_id FROM effects AS e
        WHERE e.destination = sqlc.arg(destination) AND e.due_at IS NOT NULL AND e.tenant_id > near.tenant_id
        ORDER BY e.tenant_id LIMIT 1
    ) AS n WHERE near.place < 64
), due AS MATERIALIZED (
    SELECT d.tenant_id, d.id FROM near CROSS JOIN LATERAL (
        SELECT e.tenant_id, e.id FROM effects AS e
        WHERE e.destination = sqlc.arg(destination) AND e.tenant_id = near.tenant_id AND e.due_at <= now()
        ORDER BY e.due_at LIMIT greatest(1, sqlc.arg(most)::int / (SELECT count(*) FROM near)) FOR UPDATE SKIP LOCKED
    ) AS d LIMIT sqlc.arg(most)::int
), taken AS (
    UPDATE effects AS e SET
        state = CASE WHEN e.state = 'pending' THEN 'in_flight'::effect_state ELSE 'unknown'::effect_state END,
        attempts = e.attempts + 1, attempt_token = e.attempt_token + 1, owner = sqlc.arg(owner)::text,
        due_at = now() + sqlc.arg(lease)::bigint * interval '1 microsecond',
        first_sent_at = coalesce(e.first_sent_at, now()),
        key_valid_until = coalesce(e.key_valid_until, now() + sqlc.arg(retention)::bigint * interval '1 microsecond')
    FROM due WHERE e.tenant_id = due.tenant_id AND e.id = due.id
    RETURNING e.*
)
SELECT seen.tenants, seen.last_tenant, now()::timestamptz AS taken_at, t.*
FROM (SELECT count(*) AS tenants,
        coalesce((array_agg(near.tenant_id ORDER BY near.place DESC))[1], sqlc.arg(after_tenant)::uuid)::uuid AS last_tenant
    FROM near) AS seen
LEFT JOIN taken AS t ON true;

-- name: FinishEffect :one
-- Writes what a taking has found out, or gives it back. No row: the lease was lost to another taking, or a person has
-- decided meanwhile, and nothing is written. With no pause nobody looks at it again by itself. The first and the latest
-- entries of the evidence are kept.
UPDATE effects AS e SET
    state = sqlc.arg(state)::effect_state, owner = NULL, attempts = e.attempts - sqlc.arg(attempts_back)::int,
    due_at = now() + sqlc.narg(pause)::bigint * interval '1 microsecond',
    ended_at = CASE WHEN sqlc.arg(state)::effect_state IN ('succeeded', 'failed') THEN now() END,
    first_sent_at = CASE WHEN sqlc.arg(unsent)::boolean THEN NULL ELSE e.first_sent_at END,
    key_valid_until = CASE WHEN sqlc.arg(unsent)::boolean THEN NULL ELSE e.key_valid_until END,
    last_error = coalesce(sqlc.narg(last_error), e.last_error),
    evidence = CASE WHEN sqlc.narg(entry)::jsonb IS NULL THEN e.evidence
        ELSE (CASE WHEN jsonb_array_length(e.evidence) >= 64 THEN e.evidence - 1 ELSE e.evidence END) || jsonb_build_array(
            jsonb_build_object('at', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) || sqlc.narg(entry)::jsonb)
        END
WHERE e.tenant_id = sqlc.arg(tenant_id) AND e.id = sqlc.arg(id)
    AND e.attempt_token = sqlc.arg(attempt_token) AND e.state = sqlc.arg(found)::effect_state
RETURNING e.*;

-- name: MoveEffect :one
-- Writes what a person decided, and takes the effect away from whoever has it. The caller holds its row. No row: its key
-- may be forgotten, where it must not be; or it is due already, where there is a pause to end.
UPDATE effects AS e SET
    state = sqlc.arg(state)::effect_state, owner = NULL, attempt_token = e.attempt_token + 1,
    due_at = CASE WHEN sqlc.arg(due)::boolean THEN now() END,
    ended_at = CASE WHEN sqlc.arg(state)::effect_state IN ('succeeded', 'failed') THEN now() END,
    first_sent_at = CASE WHEN sqlc.arg(unsent)::boolean THEN NULL ELSE e.first_sent_at END,
    key_valid_until = CASE WHEN sqlc.arg(unsent)::boolean THEN NULL ELSE e.key_valid_until END,
    evidence = (CASE WHEN jsonb_array_length(e.evidence) >= 64 THEN e.evidence - 1 ELSE e.evidence END) || jsonb_build_array(
        jsonb_build_object('at', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) || sqlc.arg(entry)::jsonb)
WHERE e.tenant_id = sqlc.arg(tenant_id) AND e.id = sqlc.arg(id)
    AND (NOT sqlc.arg(if_remembered)::boolean OR e.key_valid_until IS NULL OR clock_timestamp() < e.key_valid_until)
    AND (NOT sqlc.arg(if_paused)::boolean OR e.due_at > clock_timestamp())
RETURNING e.*;

-- name: LockEffect :one
-- Holds the effect for a person's move.
SELECT * FROM effects WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) FOR UPDATE;

-- name: ListRememberedKeys :many
-- Which of the effects have a key that their destination still knows, by the database's clock.
SELECT id FROM effects
WHERE tenant_id = sqlc.arg(tenant_id) AND id = ANY(sqlc.arg(ids)::uuid[]) AND clock_timestamp() < key_valid_until;

-- name: DeferLane :exec
-- Lets up to 1000 due effects of a lane wait, each for up to twice the pause, and takes none.
UPDATE effects AS e SET due_at = now() + (0.5 + 1.5 * random()) * sqlc.arg(pause)::bigint * interval '1 microsecond'
FROM (
    SELECT d.tenant_id, d.id FROM effects AS d
    WHERE d.tenant_id = sqlc.arg(tenant_id) AND d.destination = sqlc.arg(destination) AND d.lane = sqlc.arg(lane)
        AND d.due_at <= now() AND d.state IN ('pending', 'unknown') AND d.owner IS NULL
    ORDER BY d.due_at LIMIT 1000 FOR UPDATE SKIP LOCKED
) AS due WHERE e.tenant_id = due.tenant_id AND e.id = due.id;

-- name: ReadFirstOfLane :one
-- The oldest effect of a lane that has not ended. After the end of its predecessor, in the same transaction, it is the
-- one that waited for that: whoever makes one at the same time waits for the predecessor's row, and finds it ended.
SELECT * FROM effects
WHERE tenant_id = sqlc.arg(tenant_id) AND order_id = sqlc.arg(order_id) AND destination = sqlc.arg(destination) AND lane = sqlc.arg(lane)
    AND ended_at IS NULL
ORDER BY version, id LIMIT 1;

-- name: ReadEffectState :one
SELECT state FROM effects
WHERE tenant_id = sqlc.arg(tenant_id) AND order_id = sqlc.arg(order_id) AND destination = sqlc.arg(destination)
    AND lane = sqlc.arg(lane) AND operation = sqlc.arg(operation);

-- name: ActivateEffect :exec
UPDATE effects SET due_at = now()
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND state = 'pending' AND due_at IS NULL;

-- name: ListEffects :many
SELECT * FROM effects
WHERE tenant_id = sqlc.arg(tenant_id) AND id < sqlc.arg(before)
    AND (sqlc.narg(state)::effect_state IS NULL OR state = sqlc.narg(state)::effect_state)
    AND (sqlc.narg(destination)::text IS NULL OR destination = sqlc.narg(destination)::text)
    AND (sqlc.narg(order_id)::uuid IS NULL OR order_id = sqlc.narg(order_id)::uuid)
ORDER BY id DESC LIMIT sqlc.arg(page_size);

-- name: ListEffectsInDoubt :many
-- What waits for an outcome or a person, of all tenants.
--
-- For whoever runs the installation: no tenant is named because all are looked at.
-- @sqlc-vet-disable names-tenant
SELECT * FROM effects
WHERE id < sqlc.arg(before) AND state = sqlc.arg(doubt)::effect_state AND state IN ('unknown', 'needs_human')
    AND (sqlc.narg(destination)::text IS NULL OR destination = sqlc.narg(destination)::text)
ORDER BY id DESC LIMIT sqlc.arg(page_size);

-- name: MeasureEffects :many
-- The effects that are on their way or in doubt, by destination and state, each kind counted up to a number, and for how
-- long the oldest of them has been so. What waits for a predecessor is in no index, and not counted.
-- The figures are the operator's, over all tenants.
-- @sqlc-vet-disable names-tenant
SELECT destination, state::text AS state, count(*) AS effects,
       coalesce(extract(epoch FROM now() - min(since)), 0)::float8 AS oldest_seconds
FROM (
    (SELECT destination, state, created_at AS since FROM effects
     WHERE due_at IS NOT NULL AND created_at <= now() AND state IN ('pending', 'in_flight') LIMIT sqlc.arg(most))
    UNION ALL
    (SELECT destination, state, coalesce(first_sent_at, created_at) FROM effects
     WHERE state IN ('unknown', 'needs_human') ORDER BY state, id LIMIT sqlc.arg(most))
) AS open
GROUP BY destination, state;
