DROP TABLE idempotency_requests, outbox_events, orders, coupons, api_keys, principals, tenants;
