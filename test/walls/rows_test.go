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

// A task is in one state only: beside the one that is worked on there are one that has failed and one that is due.
var failedID, dueID = failed(victim), due(victim)

func failed(tenant string) string { return "e" + tenant[1:] }
func due(tenant string) string    { return "f" + tenant[1:] }

const (
	theirOther = "0193b1f0-0000-7000-8000-0000000000fa" // the id of each tenant's second webhook
	nobody     = "00000000-0000-0000-0000-000000000000"
)

// Three more effects: one of each tenant, of the same id, that waits for another; and two that the victim alone has, one
// in doubt and one that has succeeded.
const (
	blockedID   = "0193b1f0-0000-7000-8000-00000000000e"
	doubtfulID  = "0193b1f0-0000-7000-8000-00000000000f"
	succeededID = "0193b1f0-0000-7000-8000-000000000010"
)

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
	"batch": "10", "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",

	"checkout_id": theirName, "client_order_id": theirName, "customer_id": "customer-1", "currency": "EUR", "status": "cancelled",
	"items": "[]", "subtotal_minor": "100", "discount_minor": "0", "total_minor": "100", "shipping_address_id": "address-1",
	"metadata": "{}", "version": "2", "before": "ffffffff-ffff-ffff-ffff-ffffffffffff", "page_size": "10",
	"code": theirName, "coupon_code": theirName, "kind": "fixed", "percent": nil, "amount_minor": "5",
	"valid_from": "2026-01-01Z", "valid_until": "2200-01-01Z", "max_redemptions": "10",

	"aggregate_type": "order", "aggregate_id": theirID, "type": "orderonce.order.created.v1", "payload": "{}",
	"occurred_at": "2026-01-01Z", "first": "00000000-0000-0000-0000-000000000000", "last": "ffffffff-ffff-ffff-ffff-ffffffffffff",

	"ListStatesOfOrders.operation": "authorize",

	"delay":                "1 minute",
	"InsertTask.operation": "importOrders", "key_principal_id": theirID, "options": "{}", "total": "10",
	"checkpoint": "1", "succeeded": "1", "rejected": "0",
	"ListTasks.state": "processing", "ListTasks.before": intruder, "ListTasksOfTenant.state": "processing", "ListDueTasks.after": nobody,
	"ListDueTasks.operations": "{importOrders}", "of_each": "10",
	"ReleaseTask.state": "processing", "stalled": "true", "EndTask.state": "succeeded", "retryable": "false", "EndTask.reason": nil,
	"ReviveTask.id": failedID, "MarkTaskPurged.id": failedID, "TakeTask.id": dueID,

	"task_id": theirID, "number": "0", "first_row": "0", "input": `\x00`, "row": "0", "problem": nil, "after": "-1",
	"InsertImportRow.state": "succeeded", "SettleImportRow.state": "succeeded", "ListImportRows.state": "waiting",
	"url": "https://hooks.example/", "event_types": "{}", "subscription_id": theirID, "ended_at": "2026-06-01Z",
	"secret": hash, "EndSecrets.ends_at": "2025-06-01Z", "EnableSubscription.id": theirOther, "InsertSecret.id": absentID,
	"after_aggregate": nobody, "after_version": "0", "aggregate_ids": "{" + theirID + "}", "versions": "{1}",
	"PruneEvents.retention": "0", "PruneEffects.retention": "0",

	"order_ids": "{" + theirID + "}", "destinations": "{payment}", "lanes": `{""}`, "reverts": `{""}`,
	"InsertEffects.operations": "{authorize}", "event_ids": "{" + theirID + "}", "idempotency_keys": "{" + theirID + "}",
	"requests": `{"\\x7b7d"}`, "request_hashes": `{"` + `\` + hash + `"}`, "required": "{true}", "states": "{pending}",
	"InsertEffects.due": "{true}", "traceparents": `{""}`, "nothing_to_undo": "nothing to undo",
	"order_id": theirID, "destination": "payment", "lane": "", "after_tenant": nobody, "most": "10",
	"owner": "worker-1", "lease": "60000000", "retention": "60000000", "pause": "60000000", "attempts_back": "0", "unsent": "false",
	"last_error": "cut", "entry": "{}", "attempt_token": "0", "found": "pending", "state": "succeeded", "ListEffects.state": nil,
	"due": "false", "if_remembered": "false", "if_paused": "false", "doubt": "needs_human",
	"ReadEffectState.operation": "authorize",
	"back":                      "60000000", "forced": "true", "at": "2026-01-01Z", "listed_until": "2026-01-01Z", "ended_until": "2026-01-01Z",
	"ListEffectsOfOperations.operations": "{authorize}",
	"since":                              "2026-01-01Z", "until": "2200-01-01Z", "after_end": "2020-01-01Z", "after_id": "00000000-0000-0000-0000-000000000000",
	"InsertFinding.kind": "executed_twice", "InsertFinding.id": absentID,
	"ActivateEffect.id": blockedID, "ListRememberedKeys.ids": "{" + doubtfulID + "}",
}

// absent names rows of the victim's that are not there, and are free to be made.
var absent = changed(theirs, map[string]any{
	"id": absentID, "name": absentName, "idempotency_key": absentName, "CompleteKey.idempotency_key": absentName,
	"keys": "{" + absentName + "}", "checkout_id": absentName, "client_order_id": absentName, "code": absentName,
	"ids": "{" + absentID + "}", "EndOtherKeys.principal_id": absentID, "tenant_name": absentName, "subject": absentName,
	"task_id": absentID, "ReviveTask.id": absentID, "MarkTaskPurged.id": absentID, "TakeTask.id": absentID,
	"InsertTenant.tenant_id": absentID, "order_id": absentID, "aggregate_id": absentID, "aggregate_ids": "{" + absentID + "}",
	"order_ids": "{" + absentID + "}", "ActivateEffect.id": absentID,
	"ListRememberedKeys.ids": "{" + absentID + "}", "ListEffects.order_id": absentID,
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
	w.exec("INSERT INTO reconciliation_looks VALUES ('payment', '2026-01-01Z', '2026-01-01Z', '2026-01-01Z')")
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
			VALUES ('$id', '$id', 'order', '$id', 1, 'orderonce.order.created.v1', '{}', '$expires')`,
		`outbox_events (tenant_id, id, aggregate_type, aggregate_id, version, type, payload, occurred_at, dispatched_at)
			VALUES ('$id', gen_random_uuid(), 'order', '$id', 2, 'orderonce.order.cancelled.v1', '{}', now(), '$expires')`,
		`effects (tenant_id, id, destination, lane, operation, event_id, order_id, version, idempotency_key, request, request_hash,
				required, state, created_at, ended_at)
			VALUES ('$id', gen_random_uuid(), 'log', '', 'write', '$id', '$id', 1, '$id', '\x7b7d', '$hash', false, 'succeeded', now(), '$expires')`,
		`effects (tenant_id, id, destination, lane, operation, event_id, order_id, version, idempotency_key, request, request_hash,
				required, state, due_at, created_at)
			VALUES ('$id', '$id', 'payment', '', 'authorize', '$id', '$id', 1, '$id', '\x7b7d', '$hash', true, 'pending', '$expires', '$expires')`,
		`webhook_subscriptions (tenant_id, id, name, url, event_types, failing_since, created_at)
			VALUES ('$id', '$id', '$name', 'https://hooks.example/', '{}', now(), now())`,
		`webhook_subscriptions (tenant_id, id, name, url, event_types, active, disabled_reason, created_at)
			VALUES ('$id', '$other', '$name-off', 'https://hooks.example/', '{}', false, 'gone', now())`,
		`webhook_secrets (tenant_id, id, subscription_id, secret, created_at, expires_at)
			VALUES ('$id', '$id', '$id', '$hash', now(), '$expires')`,
		`effects (tenant_id, id, destination, lane, operation, event_id, order_id, version, idempotency_key, request, request_hash,
				required, state, created_at)
			VALUES ('$id', '` + blockedID + `', 'payment', 'blocked', 'void', '$id', '$id', 2, '$id', '\x7b7d', '$hash', false, 'pending', now())`,
		`effects (tenant_id, id, destination, lane, operation, event_id, order_id, version, idempotency_key, request, request_hash,
				required, state, key_valid_until, created_at)
			SELECT '$id', '` + doubtfulID + `', 'payment', 'doubt', 'authorize', '$id', '$id', 1, '$id', '\x7b7d', '$hash', true,
				'needs_human', '2200-01-01Z', now() WHERE '$id' = '` + victim + `'`,
		`effects (tenant_id, id, destination, lane, operation, event_id, order_id, version, idempotency_key, request, request_hash,
				required, state, first_sent_at, created_at, ended_at)
			SELECT '$id', '` + succeededID + `', 'payment', 'done', 'authorize', '$id', '$id', 1, '$id', '\x7b7d', '$hash', true,
				'succeeded', '2026-01-01Z', '2026-01-01Z', '2026-01-02Z' WHERE '$id' = '` + victim + `'`,
		`reconciliation_findings (tenant_id, id, destination, kind, idempotency_key, order_id, operation, details, found_at, cleared_at)
			VALUES ('$id', '$id', 'payment', 'success_denied', '$id', '$id', 'authorize', '{}', now(),
				CASE WHEN '$id' <> '` + victim + `' THEN now() END)`,
		`idempotency_requests (tenant_id, principal_id, operation, idempotency_key, fingerprint, fingerprint_version,
				field_digests, api_version, response_status, response_headers, response_body, created_at, completed_at, expires_at)
			VALUES ('$id', '$id', 'createOrder', '$name', '$hash', 1, '\x00', '2026-11-01', 201, '{}', '\x7b7d', now(), now(), '$expires')`,
		`idempotency_requests (tenant_id, principal_id, operation, idempotency_key, fingerprint,
				fingerprint_version, field_digests, api_version, created_at)
			VALUES ('$id', '$id', 'createOrder', '$name` + unfinished + `', '$hash', 1, '\x00', '2026-11-01', now())`,
		`tasks (tenant_id, id, operation, principal_id, key_principal_id, idempotency_key, options, state, total, attempt_token, owner,
				due_at, created_at, updated_at)
			VALUES ('$id', '$id', 'importOrders', '$id', '$id', '$name', '{}', 'processing', 10, 0, 'me', '2200-01-01Z', '$expires', now())`,
		`tasks (tenant_id, id, operation, principal_id, key_principal_id, idempotency_key, options, state, total, attempt_token,
				due_at, created_at, updated_at)
			VALUES ('$id', '` + due(id) + `', 'importOrders', '$id', '$id', '$name', '{}', 'processing', 10, 0, '$expires', '$expires', now())`,
		`tasks (tenant_id, id, operation, principal_id, key_principal_id, idempotency_key, options, state, reason, retryable, total,
				attempt_token, created_at, updated_at, ended_at, result_expires_at)
			VALUES ('$id', '` + failed(id) + `', 'importOrders', '$id', '$id', '$name', '{}', 'failed', 'stalled', true, 10,
				0, now(), now(), now(), '$expires')`,
		`import_chunks (tenant_id, task_id, number, first_row, input) VALUES ('$id', '$id', 0, 0, '\x00')`,
		`import_rows (tenant_id, task_id, number, client_order_id, state, order_id) VALUES ('$id', '$id', 0, 'mine', 'waiting', '$id')`,
	} {
		w.exec("INSERT INTO " + strings.NewReplacer("$id", id, "$name", name, "$hash", hash, "$expires", expires, "$other", theirOther).Replace(row))
	}
}
