package walls

import (
	"maps"
	"strings"
)

// The tenants. The victim is the one whose rows are asked for; intruder asks.
const (
	victim   = "0193b1f0-0000-7000-8000-00000000000a"
	intruder = "0193b1f0-0000-7000-8000-00000000000b"
	third    = "0193b1f0-0000-7000-8000-00000000000c"
)

// All things of a tenant have its id, so that one value of "id" finds any of them.
var theirID, absentID = victim, "0193b1f0-0000-7000-8000-00000000000d"

const (
	theirName, absentName = "acme-0123456789abcdef", "absent-0123456789abcdef"
	unfinished            = "-unfinished" // ends the key of a record that has no result yet
	hash                  = `\x0000000000000000000000000000000000000000000000000000000000000000`
)

// theirs names the victim's existing rows: by an argument's name, or a query's and an argument's.
var theirs = map[string]any{
	"tenant_id": victim, "id": theirID, "principal_id": theirID, "name": theirName, "created_at": "2026-01-01Z",

	"secret_hash": hash, "scope": "orders:read", "scopes": "{orders:read}", "operator": "false", "active": "false",
	"tenant_ids": "{" + victim + "}", "ids": "{" + theirID + "}", "used_at": "{2026-06-01Z}", "revoked_at": "2026-06-01Z",
	"EndOtherKeys.id": absentID, "ends_at": "2026-06-01Z",
	"tenant_name": theirName, "issuer": "https://id.example", "subject": theirName, "granted": "true", "operators": "false",
	"actor": "cli:root", "action": "api_key.revoked", "subject_type": "api_key", "subject_id": theirID, "reason": "for a test",
	"details": "{}",

	"operation": "createOrder", "idempotency_key": theirName, "CompleteKey.idempotency_key": theirName + unfinished,
	"fingerprint": hash, "fingerprint_version": "1", "field_digests": `\x00`, "api_version": "2026-11-01",
	"response_status": "201", "response_headers": "{}", "response_body": `\x7b7d`, "resource_type": "order", "resource_id": theirID,
	"completed_at": "2026-01-01Z", "expires_at": "2026-01-02Z",
	"principal_ids": "{" + theirID + "}", "operations": "{createOrder}", "keys": "{" + theirName + "}",
	"batch": "10", "most": "10", "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",

	"checkout_id": theirName, "client_order_id": theirName, "customer_id": "customer-1", "currency": "EUR", "status": "cancelled",
	"items": "[]", "subtotal_minor": "100", "discount_minor": "0", "total_minor": "100", "shipping_address_id": "address-1",
	"metadata": "{}", "version": "2", "before": "ffffffff-ffff-ffff-ffff-ffffffffffff", "page_size": "10",
	"code": theirName, "coupon_code": theirName, "kind": "fixed", "percent": nil, "amount_minor": "5",
	"valid_from": "2026-01-01Z", "valid_until": "2200-01-01Z", "max_redemptions": "10",

	"aggregate_type": "order", "aggregate_id": theirID, "type": "orderonce.order.created.v1", "payload": "{}",
	"occurred_at": "2026-01-01Z", "first": "00000000-0000-0000-0000-000000000000", "last": "ffffffff-ffff-ffff-ffff-ffffffffffff",

	"order_id": theirID,
}

// absent names rows of the victim's that are not there, and are free to be made.
var absent = changed(theirs, map[string]any{
	"id": absentID, "name": absentName, "idempotency_key": absentName, "CompleteKey.idempotency_key": absentName,
	"keys": "{" + absentName + "}", "checkout_id": absentName, "client_order_id": absentName, "code": absentName,
	"ids": "{" + absentID + "}", "EndOtherKeys.principal_id": absentID, "tenant_name": absentName, "subject": absentName,
	"InsertTenant.tenant_id": absentID, "order_id": absentID,
})

func changed(values, changes map[string]any) map[string]any {
	values = maps.Clone(values)
	maps.Copy(values, changes)
	return values
}

// fill gives each tenant a row in every table. Nothing of the others' is overdue, so that what a query over all tenants
// finds is the victim's.
func (w *world) fill() {
	w.t.Helper()
	w.tenant(victim, theirName, "2026-01-02Z")
	w.tenant(intruder, "globex-0123456789abcdef", "2200-01-01Z")
	w.tenant(third, "initech-0123456789abcdef", "2200-01-01Z")
	for _, table := range w.strings(tablesOfTenants) {
		if n := w.strings("SELECT count(DISTINCT tenant_id)::text FROM " + table); n[0] != "3" {
			w.t.Fatalf("%s has rows of %s tenants: let (*world).tenant write one of each", table, n[0])
		}
	}
}

func (w *world) tenant(id, name, expires string) {
	w.t.Helper()
	for _, row := range []string{
		`tenants (tenant_id, name, created_at) VALUES ('$id', '$name', now())`,
		`principals (tenant_id, id, name, created_at) VALUES ('$id', '$id', '$name', now())`,
		`api_keys (tenant_id, id, principal_id, name, secret_hash, scopes, created_at)
			VALUES ('$id', '$id', '$id', '$name', '$hash', '{orders:read}', now())`,
		`audit_log (tenant_id, id, actor, action, subject_type, subject_id, reason, details, occurred_at)
			VALUES ('$id', '$id', 'ops', 'api_key.revoked', 'api_key', '$id', 'left the company', '{}', now())`,
		`coupons (tenant_id, code, kind, percent, valid_from, valid_until, max_redemptions)
			VALUES ('$id', '$name', 'percent', 10, '2026-01-01Z', '2200-01-01Z', 10)`,
		`orders (tenant_id, id, principal_id, checkout_id, client_order_id, customer_id, currency, status, items,
				subtotal_minor, discount_minor, total_minor, shipping_address_id, metadata, version, created_at)
			VALUES ('$id', '$id', '$id', '$name', '$name', 'customer-1', 'EUR', 'cancelled', '[]', 100, 0, 100, 'address-1', '{}', 1, now())`,
		`outbox_events (tenant_id, id, aggregate_type, aggregate_id, version, type, payload, occurred_at)
			VALUES ('$id', '$id', 'order', '$id', 1, 'orderonce.order.created.v1', '{}', now())`,
		`effects (tenant_id, id, destination, lane, operation, event_id, order_id, version, idempotency_key, request, request_hash,
				required, state, due_at, created_at)
			VALUES ('$id', '$id', 'payment', '', 'authorize', '$id', '$id', 1, '$id', '\x7b7d', '$hash', true, 'pending', '$expires', now())`,
		`idempotency_requests (tenant_id, principal_id, operation, idempotency_key, fingerprint, fingerprint_version,
				field_digests, api_version, response_status, response_headers, response_body, created_at, completed_at, expires_at)
			VALUES ('$id', '$id', 'createOrder', '$name', '$hash', 1, '\x00', '2026-11-01', 201, '{}', '\x7b7d', now(), now(), '$expires')`,
		`idempotency_requests (tenant_id, principal_id, operation, idempotency_key, fingerprint,
				fingerprint_version, field_digests, api_version, created_at)
			VALUES ('$id', '$id', 'createOrder', '$name` + unfinished + `', '$hash', 1, '\x00', '2026-11-01', now())`,
	} {
		w.exec("INSERT INTO " + strings.NewReplacer("$id", id, "$name", name, "$hash", hash, "$expires", expires).Replace(row))
	}
}
