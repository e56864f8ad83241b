DROP TABLE reconciliation_looks, reconciliation_findings, idempotency_requests, webhook_secrets, webhook_subscriptions, effects, outbox_events, orders,
    coupons, audit_log, api_keys, principals, tenants;
DROP TYPE effect_state, order_status;

-- The roles stay: they are of the whole server, and another database may need them.
REVOKE ALL ON schema_migrations FROM orderonce_request, orderonce_worker;

DO $schema$
BEGIN
    EXECUTE format('REVOKE USAGE ON SCHEMA %I FROM orderonce_request, orderonce_worker', current_schema());
END
$schema$;
