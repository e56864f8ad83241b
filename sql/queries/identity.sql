-- name: FindCredential :one
-- A credential arrives before its tenant is known: this read, by the key's own id, tells the tenant.
-- @sqlc-vet-disable names-tenant
SELECT k.tenant_id, k.id, k.principal_id, k.secret_hash, k.scopes,
       (p.active AND t.active AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now()))::boolean AS live
FROM api_keys k
JOIN principals p ON p.tenant_id = k.tenant_id AND p.id = k.principal_id
JOIN tenants t ON t.tenant_id = k.tenant_id
WHERE k.id = sqlc.arg(id);

-- name: ConfirmCredential :exec
-- The truth of this moment, read in the transaction that acts on it: one row where the key still lives, its secret
-- is still the one that was shown and its scopes still hold the operation's; none otherwise.
SELECT 1
FROM api_keys k
JOIN principals p ON p.tenant_id = k.tenant_id AND p.id = k.principal_id
JOIN tenants t ON t.tenant_id = k.tenant_id
WHERE k.tenant_id = sqlc.arg(tenant_id) AND k.id = sqlc.arg(id) AND k.secret_hash = sqlc.arg(secret_hash)
  AND sqlc.arg(scope)::text = ANY (k.scopes)
  AND p.active AND t.active AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now());

-- name: PutTenant :exec
INSERT INTO tenants (tenant_id, name, created_at)
VALUES (sqlc.arg(tenant_id), sqlc.arg(name), sqlc.arg(created_at))
ON CONFLICT (name) DO NOTHING;

-- name: FindTenant :one
-- By name, to learn the id.
-- @sqlc-vet-disable names-tenant
SELECT tenant_id FROM tenants WHERE name = sqlc.arg(name);

-- name: PutPrincipal :exec
INSERT INTO principals (tenant_id, id, name, created_at)
VALUES (sqlc.arg(tenant_id), sqlc.arg(id), sqlc.arg(name)::text, sqlc.arg(created_at))
ON CONFLICT (tenant_id, name) DO NOTHING;

-- name: FindPrincipal :one
SELECT id FROM principals WHERE tenant_id = sqlc.arg(tenant_id) AND name = sqlc.arg(name)::text;

-- name: InsertAPIKey :exec
INSERT INTO api_keys (tenant_id, id, principal_id, name, secret_hash, scopes, created_at, expires_at)
VALUES (
    sqlc.arg(tenant_id), sqlc.arg(id), sqlc.arg(principal_id), sqlc.arg(name), sqlc.arg(secret_hash), sqlc.arg(scopes),
    sqlc.arg(created_at), sqlc.narg(expires_at)
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
