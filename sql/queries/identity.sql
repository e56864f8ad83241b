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
