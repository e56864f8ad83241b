-- name: FindCredential :one
-- A scope of operators counts in an operators' tenant alone, however it came into the row.
-- A credential arrives before its tenant is known: this read, by the key's own id, tells the tenant.
-- @sqlc-vet-disable names-tenant
SELECT k.tenant_id, k.id, k.principal_id, k.secret_hash,
       ARRAY(SELECT s FROM unnest(k.scopes) AS s WHERE t.operator OR s NOT LIKE 'ops:%')::text[] AS scopes,
       (p.active AND t.active AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now()))::boolean AS live
FROM api_keys k
JOIN principals p ON p.tenant_id = k.tenant_id AND p.id = k.principal_id
JOIN tenants t ON t.tenant_id = k.tenant_id
WHERE k.id = sqlc.arg(id);

-- name: ConfirmCredential :exec
-- The truth of this moment, read in the transaction that acts on it: one row where the key still lives, its secret
-- is still the one that was shown and its scopes still hold the operation's; none otherwise. FindCredential says why
-- a scope of operators may not count.
SELECT 1
FROM api_keys k
JOIN principals p ON p.tenant_id = k.tenant_id AND p.id = k.principal_id
JOIN tenants t ON t.tenant_id = k.tenant_id
WHERE k.tenant_id = sqlc.arg(tenant_id) AND k.id = sqlc.arg(id) AND k.secret_hash = sqlc.arg(secret_hash)
  AND sqlc.arg(scope)::text = ANY (k.scopes) AND (t.operator OR sqlc.arg(scope)::text NOT LIKE 'ops:%')
  AND p.active AND t.active AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now());

-- name: RecordUses :exec
-- The keys are locked in the order of their ids, so that two servers never wait for each other in a circle. A use that
-- came after the key's end was refused, and is none. Each key is named with its tenant, many at once.
-- @sqlc-vet-disable names-tenant
WITH used AS (
    SELECT k.tenant_id, k.id, u.used_at
    FROM api_keys k
    JOIN (
        SELECT unnest(sqlc.arg(tenant_ids)::uuid[]) AS tenant_id, unnest(sqlc.arg(ids)::uuid[]) AS id,
               unnest(sqlc.arg(used_at)::timestamptz[]) AS used_at
    ) AS u ON u.tenant_id = k.tenant_id AND u.id = k.id
    WHERE u.used_at < least(k.revoked_at, k.expires_at, 'infinity')
      AND u.used_at > coalesce(k.last_used_at, '-infinity')
    ORDER BY k.id
    FOR NO KEY UPDATE OF k
)
UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, used.used_at)
FROM used
WHERE k.tenant_id = used.tenant_id AND k.id = used.id;

-- name: InsertTenant :execrows
-- Zero rows: the name is taken.
INSERT INTO tenants (tenant_id, name, operator, created_at)
VALUES (sqlc.arg(tenant_id), sqlc.arg(name), sqlc.arg(operator), sqlc.arg(created_at))
ON CONFLICT (name) DO NOTHING;

-- name: FindTenant :one
-- By name, to learn the id.
-- @sqlc-vet-disable names-tenant
SELECT * FROM tenants WHERE name = sqlc.arg(name);

-- name: ReadTenant :one
SELECT * FROM tenants WHERE tenant_id = sqlc.arg(tenant_id);

-- name: ListTenants :many
-- Newest first: the ids are time-ordered. For operators, who see every tenant.
-- @sqlc-vet-disable names-tenant
SELECT * FROM tenants WHERE tenant_id < sqlc.arg(before) ORDER BY tenant_id DESC LIMIT sqlc.arg(page_size);

-- name: SetTenantActive :execrows
-- Zero rows: there is no such tenant, or it is so already.
UPDATE tenants SET active = sqlc.arg(active) WHERE tenant_id = sqlc.arg(tenant_id) AND active <> sqlc.arg(active);

-- name: InsertPrincipal :execrows
-- Zero rows: the name is taken.
INSERT INTO principals (tenant_id, id, name, created_at)
VALUES (sqlc.arg(tenant_id), sqlc.arg(id), sqlc.arg(name)::text, sqlc.arg(created_at))
ON CONFLICT (tenant_id, name) DO NOTHING;

-- name: FindPrincipal :one
SELECT * FROM principals WHERE tenant_id = sqlc.arg(tenant_id) AND name = sqlc.arg(name)::text;

-- name: ReadPrincipal :one
SELECT * FROM principals WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id);

-- name: LockPrincipal :one
-- Held while one of its keys is made or rotated: the names are taken and the other keys are ended one by one.
SELECT * FROM principals WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) FOR UPDATE;

-- name: ListPrincipals :many
SELECT * FROM principals
WHERE tenant_id = sqlc.arg(tenant_id) AND id < sqlc.arg(before)
ORDER BY id DESC
LIMIT sqlc.arg(page_size);

-- name: SetPrincipalActive :execrows
-- Zero rows: there is no such principal, or it is so already.
UPDATE principals SET active = sqlc.arg(active)
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND active <> sqlc.arg(active);

-- name: InsertAPIKey :one
INSERT INTO api_keys (tenant_id, id, principal_id, name, secret_hash, scopes, created_at, expires_at)
VALUES (
    sqlc.arg(tenant_id), sqlc.arg(id), sqlc.arg(principal_id), sqlc.arg(name), sqlc.arg(secret_hash), sqlc.arg(scopes),
    sqlc.arg(created_at), sqlc.narg(expires_at)
)
RETURNING *;

-- name: FindAPIKey :one
SELECT * FROM api_keys
WHERE tenant_id = sqlc.arg(tenant_id) AND principal_id = sqlc.arg(principal_id) AND name = sqlc.arg(name);

-- name: ReadAPIKey :one
SELECT * FROM api_keys WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id);

-- name: ListAPIKeys :many
SELECT * FROM api_keys
WHERE tenant_id = sqlc.arg(tenant_id) AND id < sqlc.arg(before)
  AND (sqlc.narg(principal_id)::uuid IS NULL OR principal_id = sqlc.narg(principal_id))
ORDER BY id DESC
LIMIT sqlc.arg(page_size);

-- name: EndOtherKeys :many
-- The principal's keys but one live until then and no longer. Those that end before are left as they are.
UPDATE api_keys SET expires_at = sqlc.arg(ends_at)
WHERE tenant_id = sqlc.arg(tenant_id) AND principal_id = sqlc.arg(principal_id) AND id <> sqlc.arg(id)
  AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > sqlc.arg(ends_at))
RETURNING id;

-- name: RevokeAPIKey :execrows
-- Zero rows: there is no such key, or it is revoked already.
UPDATE api_keys SET revoked_at = sqlc.arg(revoked_at)
WHERE tenant_id = sqlc.arg(tenant_id) AND id = sqlc.arg(id) AND revoked_at IS NULL;

-- name: InsertAuditEntry :exec
INSERT INTO audit_log (tenant_id, id, actor, action, subject_type, subject_id, reason, details, occurred_at)
VALUES (
    sqlc.arg(tenant_id), sqlc.arg(id), sqlc.arg(actor), sqlc.arg(action), sqlc.arg(subject_type), sqlc.arg(subject_id),
    sqlc.arg(reason), sqlc.arg(details), sqlc.arg(occurred_at)
);

-- name: FindSubject :one
-- A token names its tenant, which tells the id, and its issuer's subject, whose principal is missing until the first
-- sight of it.
-- @sqlc-vet-disable names-tenant
SELECT t.tenant_id, t.active AS tenant_active, t.operator, p.id AS principal_id, p.active AS principal_active
FROM tenants t
LEFT JOIN principals p
    ON p.tenant_id = t.tenant_id AND p.issuer = sqlc.arg(issuer)::text AND p.subject = sqlc.arg(subject)::text
WHERE t.name = sqlc.arg(tenant_name);

-- name: PutSubject :exec
-- The unique constraint makes one principal of any number of first requests.
INSERT INTO principals (tenant_id, id, issuer, subject, created_at)
VALUES (
    sqlc.arg(tenant_id), sqlc.arg(id), sqlc.arg(issuer)::text, sqlc.arg(subject)::text, sqlc.arg(created_at)
)
ON CONFLICT (tenant_id, issuer, subject) DO NOTHING;

-- name: ConfirmSubject :exec
-- As ConfirmCredential, of a principal that showed a token: whether the token grants the scope never changes, and is
-- handed in; what the tenant may be granted can.
SELECT 1
FROM principals p
JOIN tenants t ON t.tenant_id = p.tenant_id
WHERE p.tenant_id = sqlc.arg(tenant_id) AND p.id = sqlc.arg(id) AND p.active AND t.active
  AND sqlc.arg(granted)::boolean AND (t.operator OR NOT sqlc.arg(operators)::boolean);

-- name: ListAuditLog :many
-- Newest first, of every tenant: for operators.
-- @sqlc-vet-disable names-tenant
SELECT * FROM audit_log WHERE id < sqlc.arg(before) ORDER BY id DESC LIMIT sqlc.arg(page_size);

-- name: ListAuditLogOfTenant :many
SELECT * FROM audit_log
WHERE tenant_id = sqlc.arg(tenant_id) AND id < sqlc.arg(before)
ORDER BY id DESC
LIMIT sqlc.arg(page_size);
