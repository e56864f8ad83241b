-- Every table is led by tenant_id: in the primary key, in every unique index and in every request's predicate,
-- so that plain PostgreSQL and a cluster sharded by tenant run the same statements. Ids are UUIDv7 made in Go:
-- time-ordered keys keep inserts at the right edge of the index however large the table grows.

CREATE TABLE tenants (
    tenant_id  uuid PRIMARY KEY,
    name       text NOT NULL CONSTRAINT tenants_name_form CHECK (name ~ '^[a-z][a-z0-9-]{0,62}$'),
    active     boolean NOT NULL DEFAULT true,
    -- Whoever runs the installation: only principals of such a tenant may hold the ops: scopes, which reach every tenant.
    operator   boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL
);

-- Tenants are the one thing that has no tenant above it: their names are unique in the whole installation.
CREATE UNIQUE INDEX tenants_name ON tenants (name);

-- A principal is known by a name that an operator gave it, or by the subject that an identity provider calls it: the
-- first lets it hold API keys, the second shows a token. The subject is unique only at its issuer.
CREATE TABLE principals (
    tenant_id  uuid NOT NULL REFERENCES tenants,
    id         uuid NOT NULL,
    name       text CONSTRAINT principals_name_form CHECK (name ~ '^[a-z][a-z0-9-]{0,62}$'),
    issuer     text,
    subject    text CONSTRAINT principals_subject_length CHECK (length(subject) BETWEEN 1 AND 255),
    active     boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, name),
    UNIQUE (tenant_id, issuer, subject),
    CONSTRAINT principals_known_by CHECK (
        CASE WHEN name IS NULL THEN issuer IS NOT NULL AND subject IS NOT NULL ELSE issuer IS NULL AND subject IS NULL END)
);

-- A principal may hold several live keys, so that rotating a key keeps the principal and with it the scope of
-- its idempotency keys. Only the hash of the 256-bit secret is kept.
CREATE TABLE api_keys (
    tenant_id    uuid NOT NULL,
    id           uuid NOT NULL,
    principal_id uuid NOT NULL,
    name         text NOT NULL CONSTRAINT api_keys_name_form CHECK (name ~ '^[a-z0-9][a-z0-9.-]{0,62}$'),
    secret_hash  bytea NOT NULL CONSTRAINT api_keys_hash_length CHECK (octet_length(secret_hash) = 32),
    scopes       text[] NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    -- Written now and then, not with each request: no older than the interval that docs/identity.md publishes.
    last_used_at timestamptz,
    PRIMARY KEY (tenant_id, id),
    -- What makes creating a key idempotent: a retry finds the name taken.
    UNIQUE (tenant_id, principal_id, name),
    FOREIGN KEY (tenant_id, principal_id) REFERENCES principals (tenant_id, id)
);

-- A credential arrives before its tenant is known.
CREATE INDEX api_keys_by_id ON api_keys (id);

-- What operators changed, written in the transaction that changed it. Under the tenant whose thing it was.
CREATE TABLE audit_log (
    tenant_id    uuid NOT NULL,
    id           uuid NOT NULL,
    actor        text NOT NULL,
    action       text NOT NULL,
    subject_type text NOT NULL,
    subject_id   uuid NOT NULL,
    reason       text NOT NULL CONSTRAINT audit_log_reason_length CHECK (length(reason) BETWEEN 3 AND 500),
    details      jsonb NOT NULL,
    occurred_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id)
);

CREATE INDEX audit_log_by_time ON audit_log (id);

CREATE TABLE coupons (
    tenant_id       uuid NOT NULL,
    code            text NOT NULL,
    kind            text NOT NULL CONSTRAINT coupons_kind CHECK (kind IN ('percent', 'fixed')),
    percent         smallint CONSTRAINT coupons_percent_range CHECK (percent BETWEEN 1 AND 100),
    amount_minor    bigint CONSTRAINT coupons_amount_positive CHECK (amount_minor > 0),
    currency        text,
    valid_from      timestamptz NOT NULL,
    valid_until     timestamptz NOT NULL,
    max_redemptions integer CONSTRAINT coupons_max_positive CHECK (max_redemptions > 0),
    redemptions     integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, code),
    CONSTRAINT coupons_value CHECK (CASE kind
        WHEN 'percent' THEN percent IS NOT NULL AND amount_minor IS NULL AND currency IS NULL
        ELSE percent IS NULL AND amount_minor IS NOT NULL AND currency IS NOT NULL END),
    CONSTRAINT coupons_redemptions_bounded CHECK (redemptions BETWEEN 0 AND coalesce(max_redemptions, redemptions))
);

CREATE TYPE order_status AS ENUM ('pending', 'confirmed', 'rejected', 'cancelled');

-- The tables that every request writes have few and short CHECKs: PostgreSQL reads the text of each one anew for every
-- statement, which was measured at 5 to 20 µs each, as much as the row itself. What a type can say, a type says; what
-- only the code could get wrong (the length of a hash it has just computed) is not said twice.
--
-- No foreign key to tenants or principals from the tables that every request writes: its row lock would be taken
-- by every order of a tenant. The credential is checked in the same transaction instead.
CREATE TABLE orders (
    tenant_id           uuid NOT NULL,
    id                  uuid NOT NULL,
    principal_id        uuid NOT NULL,
    checkout_id         text,
    client_order_id     text,
    customer_id         text NOT NULL,
    currency            text NOT NULL,
    status              order_status NOT NULL,
    items               jsonb NOT NULL,
    subtotal_minor      bigint NOT NULL,
    discount_minor      bigint NOT NULL,
    total_minor         bigint NOT NULL,
    coupon_code         text,
    shipping_address_id text NOT NULL,
    metadata            jsonb NOT NULL,
    version             bigint NOT NULL,
    created_at          timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT orders_totals CHECK (discount_minor BETWEEN 0 AND subtotal_minor
                                    AND total_minor = subtotal_minor - discount_minor)
);

-- The permanent business identities: they outlive every idempotency key. Orders without one cost no entry.
CREATE UNIQUE INDEX orders_checkout ON orders (tenant_id, checkout_id) WHERE checkout_id IS NOT NULL;
CREATE UNIQUE INDEX orders_client_order ON orders (tenant_id, client_order_id) WHERE client_order_id IS NOT NULL;

-- The payload's bytes are kept as written: what is delivered is what was committed.
CREATE TABLE outbox_events (
    tenant_id      uuid NOT NULL,
    id             uuid NOT NULL,
    aggregate_type text NOT NULL,
    aggregate_id   uuid NOT NULL,
    version        bigint NOT NULL,
    type           text NOT NULL,
    payload        json NOT NULL,
    -- W3C trace context of the request that added it, for the traces of what comes after.
    traceparent    text,
    occurred_at    timestamptz NOT NULL,
    dispatched_at  timestamptz,
    PRIMARY KEY (tenant_id, id)
);

-- Leads the dispatcher to what it has not seen, the versions of one aggregate side by side and in order. New aggregates
-- are added at the right edge.
CREATE INDEX outbox_events_undispatched ON outbox_events (aggregate_id, version) WHERE dispatched_at IS NULL;
-- Leads the pruning to what is oldest.
CREATE INDEX outbox_events_dispatched ON outbox_events (dispatched_at) WHERE dispatched_at IS NOT NULL;

-- One call to something outside this database. Its identity (tenant, order, destination, lane and operation) is
-- the inbox of every destination: an event that comes twice, or two events that ask for the same, make one effect.
CREATE TYPE effect_state AS ENUM ('pending', 'in_flight', 'unknown', 'needs_human', 'succeeded', 'failed');

CREATE TABLE effects (
    tenant_id       uuid NOT NULL,
    id              uuid NOT NULL,
    destination     text NOT NULL,
    -- What a destination keeps in order within one order: a subscription of its own for webhooks, nothing for the others.
    lane            text NOT NULL,
    operation       text NOT NULL,
    reverts         text, -- an operation; where that was not executed, there is nothing to do
    event_id        uuid NOT NULL, -- or another thing that asked for it, once
    order_id        uuid NOT NULL,
    version         bigint NOT NULL, -- of the order, when it was asked for
    -- What the destination knows it by, for ever: made of the identity above, never of an attempt or a time.
    idempotency_key uuid NOT NULL,
    request         bytea NOT NULL, -- resent unchanged
    request_hash    bytea NOT NULL,
    required        boolean NOT NULL, -- the order waits for it
    state           effect_state NOT NULL,
    attempts        integer NOT NULL DEFAULT 0,
    attempt_token   bigint NOT NULL DEFAULT 0,
    -- When somebody has to look at it next: pending, it may be sent; in flight, or being looked into, its lease ends;
    -- unknown, its outcome is looked for again. NULL waits for its predecessor, for a person, or for nothing any more.
    due_at          timestamptz,
    owner           text, -- of the lease
    first_sent_at   timestamptz,
    key_valid_until timestamptz,
    last_error      text,
    evidence        jsonb NOT NULL DEFAULT '[]',
    traceparent     text,
    created_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, order_id, destination, lane, operation),
    CONSTRAINT effects_end CHECK ((state IN ('succeeded', 'failed')) = (ended_at IS NOT NULL))
);

-- What is blocked or has ended is not in it, so that a claim costs the same however much of that there is.
CREATE INDEX effects_due ON effects (destination, tenant_id, due_at) WHERE due_at IS NOT NULL;
-- Leads the pruning to what ended longest ago.
CREATE INDEX effects_ended ON effects (ended_at) WHERE ended_at IS NOT NULL AND NOT required;
-- Leads from an effect to its successor, and from a new one to its predecessor, past all that have ended.
CREATE INDEX effects_open ON effects (tenant_id, order_id, destination, lane, version, id) WHERE ended_at IS NULL;
-- What people and alarms look at.
CREATE INDEX effects_in_doubt ON effects (state, id) WHERE state IN ('unknown', 'needs_human');

-- Leads the check against what the destinations say to what has lately succeeded.
CREATE INDEX effects_succeeded ON effects (destination, ended_at) WHERE state = 'succeeded';

-- Where the effects and what a destination says it did disagree. For people: nothing here repairs by itself.
CREATE TABLE reconciliation_findings (
    tenant_id       uuid NOT NULL, -- the nil UUID where the destination does not say whose it is
    id              uuid NOT NULL,
    destination     text NOT NULL,
    kind            text NOT NULL CONSTRAINT reconciliation_findings_kind CHECK (kind IN
                        ('executed_twice', 'executed_without_effect', 'executed_but_failed', 'success_denied')),
    idempotency_key text NOT NULL CONSTRAINT reconciliation_findings_key_length CHECK (char_length(idempotency_key) <= 255),
    order_id        uuid NOT NULL, -- the nil UUID, likewise
    operation       text NOT NULL,
    details         jsonb NOT NULL,
    found_at        timestamptz NOT NULL,
    cleared_at      timestamptz,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, destination, idempotency_key, kind)
);
-- What alarms count, and people look at.
CREATE INDEX reconciliation_findings_open ON reconciliation_findings (destination, id) WHERE cleared_at IS NULL;

-- How far each destination has been compared. Whoever moves next_at on has the next look to itself.
CREATE TABLE reconciliation_looks (
    destination  text PRIMARY KEY,
    listed_until timestamptz NOT NULL, -- by the destination's clock
    ended_until  timestamptz NOT NULL, -- by ours
    next_at      timestamptz NOT NULL
);

-- Where a tenant wants its events sent. The URL is the tenant's word: what it leads to is judged at each connection.
CREATE TABLE webhook_subscriptions (
    tenant_id       uuid NOT NULL,
    id              uuid NOT NULL,
    -- What makes subscribing idempotent: a retry finds the name taken.
    name            text NOT NULL CONSTRAINT webhook_subscriptions_name_form CHECK (name ~ '^[a-z0-9][a-z0-9.-]{0,62}$'),
    url             text NOT NULL CONSTRAINT webhook_subscriptions_url_length CHECK (length(url) BETWEEN 1 AND 2048),
    event_types     text[] NOT NULL, -- none of them: all
    active          boolean NOT NULL DEFAULT true,
    disabled_reason text,
    -- Since when no delivery has reached the receiver; NULL while they do.
    failing_since   timestamptz,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, name),
    CONSTRAINT webhook_subscriptions_disabled CHECK (active = (disabled_reason IS NULL))
);

-- Deliveries are signed with each that lives, so that a receiver may change from one to the next in its own time. A
-- signature needs the secret itself: no hash would do, and the requests' role may not read it.
CREATE TABLE webhook_secrets (
    tenant_id       uuid NOT NULL,
    id              uuid NOT NULL,
    subscription_id uuid NOT NULL,
    secret          bytea NOT NULL CONSTRAINT webhook_secrets_length CHECK (octet_length(secret) BETWEEN 24 AND 64),
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz, -- NULL: the newest one, which has no end
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, subscription_id) REFERENCES webhook_subscriptions (tenant_id, id)
);

CREATE INDEX webhook_secrets_of_subscription ON webhook_secrets (tenant_id, subscription_id);

-- The primary key is the only arbiter of who may run. The key's column is COLLATE "C": bytes, compared as bytes.
CREATE TABLE idempotency_requests (
    tenant_id           uuid NOT NULL,
    principal_id        uuid NOT NULL,
    operation           text NOT NULL,
    idempotency_key     text COLLATE "C" NOT NULL,
    fingerprint         bytea NOT NULL,
    fingerprint_version smallint NOT NULL,
    field_digests       bytea NOT NULL,
    api_version         text NOT NULL,
    response_status     smallint,
    response_headers    jsonb,
    response_body       bytea,
    resource_type       text,
    resource_id         uuid,
    -- The W3C trace context of the request that made the outcome, where its trace is kept: a replay's trace links to it.
    traceparent         text,
    created_at          timestamptz NOT NULL,
    completed_at        timestamptz,
    expires_at          timestamptz,
    PRIMARY KEY (tenant_id, principal_id, operation, idempotency_key),
    -- Whole or not at all: a result has its status, headers and time together, and a body, or by reference the
    -- resource to make the body of. What has no result has nothing of one.
    CONSTRAINT idempotency_requests_result_whole CHECK (CASE WHEN response_status IS NULL
        THEN completed_at IS NULL AND expires_at IS NULL AND response_body IS NULL AND resource_id IS NULL
        ELSE completed_at IS NOT NULL AND response_headers IS NOT NULL
             AND (response_body IS NOT NULL OR resource_id IS NOT NULL) END)
);

-- Leads the purge to what is overdue. Outcomes expire about in the order they came, so the entries are added at the
-- right edge and removed at the left one.
CREATE INDEX idempotency_requests_expiry ON idempotency_requests (expires_at) WHERE expires_at IS NOT NULL;

-- Long work behind a 202. One column of time says who may look at it next: held by an owner, due_at is the end of the
-- lease; without an owner, the time from which it may be taken; NULL once it has ended. Only attempt_token says whose
-- writes count, and it grows with each taking.
CREATE TYPE task_state AS ENUM ('processing', 'outcome_unknown', 'succeeded', 'failed');

CREATE TABLE tasks (
    tenant_id         uuid NOT NULL,
    id                uuid NOT NULL,
    operation         text NOT NULL, -- that accepted it, and knows how to go on with it
    principal_id      uuid NOT NULL,
    -- The record that answers the retries of the 202: it is kept until the task ends and sets its expiry.
    key_principal_id  uuid NOT NULL,
    idempotency_key   text COLLATE "C" NOT NULL,
    options           jsonb NOT NULL, -- of the operation
    state             task_state NOT NULL,
    retryable         boolean NOT NULL DEFAULT false,
    reason            text, -- why it failed
    total             integer NOT NULL,
    succeeded         integer NOT NULL DEFAULT 0,
    rejected          integer NOT NULL DEFAULT 0,
    checkpoint        integer NOT NULL DEFAULT 0, -- how much of its input the operation need not look at again
    attempt_token     bigint NOT NULL DEFAULT 0,
    takeovers         integer NOT NULL DEFAULT 0, -- takings from an owner who had not let go
    stalls            integer NOT NULL DEFAULT 0, -- takings since the last checkpoint
    fenced_writes     integer NOT NULL DEFAULT 0, -- that came from an owner of before, and changed nothing
    owner             text, -- of the lease
    due_at            timestamptz,
    traceparent       text,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    ended_at          timestamptz,
    result_expires_at timestamptz,
    purged_at         timestamptz, -- the results are gone; this row stays, to say so
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT tasks_end CHECK (CASE WHEN state IN ('succeeded', 'failed')
        THEN ended_at IS NOT NULL AND result_expires_at IS NOT NULL AND owner IS NULL AND due_at IS NULL
        ELSE ended_at IS NULL AND result_expires_at IS NULL AND purged_at IS NULL AND due_at IS NOT NULL END),
    CONSTRAINT tasks_failure CHECK (CASE WHEN state = 'failed' THEN reason IS NOT NULL ELSE reason IS NULL AND NOT retryable END),
    CONSTRAINT tasks_progress CHECK (succeeded >= 0 AND rejected >= 0 AND succeeded + rejected <= total)
);

-- What has not ended, by tenant, so that a taking costs the same however many one tenant has.
CREATE INDEX tasks_due ON tasks (tenant_id, due_at) WHERE due_at IS NOT NULL;
-- Leads the purge to the results that have outlived their retention.
CREATE INDEX tasks_expiry ON tasks (result_expires_at) WHERE result_expires_at IS NOT NULL AND purged_at IS NULL;
CREATE INDEX tasks_by_time ON tasks (id);

-- What an import was given: up to a hundred orders a row, compressed by the server, so that accepting thousands of them
-- is a short transaction.
CREATE TABLE import_chunks (
    tenant_id uuid NOT NULL,
    task_id   uuid NOT NULL,
    number    integer NOT NULL, -- from 0
    first_row integer NOT NULL, -- the number of its first order
    input     bytea NOT NULL,
    PRIMARY KEY (tenant_id, task_id, number)
);

ALTER TABLE import_chunks ALTER COLUMN input SET STORAGE EXTERNAL;

CREATE TYPE import_row_state AS ENUM ('waiting', 'succeeded', 'rejected');

-- What became of each order of an import.
CREATE TABLE import_rows (
    tenant_id       uuid NOT NULL,
    task_id         uuid NOT NULL,
    number          integer NOT NULL, -- as it stood in the import, from 0
    client_order_id text, -- NULL where the row has none that can be read
    state           import_row_state NOT NULL,
    order_id        uuid, -- of the order, or while the row waits, of the order to be
    problem         jsonb,
    PRIMARY KEY (tenant_id, task_id, number),
    CONSTRAINT import_rows_outcome CHECK (CASE WHEN state = 'rejected' THEN problem IS NOT NULL
        ELSE order_id IS NOT NULL AND client_order_id IS NOT NULL AND problem IS NULL END)
);

CREATE INDEX import_rows_waiting ON import_rows (tenant_id, task_id, number) WHERE state = 'waiting';

-- The second wall, behind the tenant that every statement names: a session sees only the tenants that its transaction
-- has named in orderonce.tenants, a list of canonical UUIDs separated by commas. Without it a session sees nothing.
-- Looking for a tenant in the text is cheaper than making an array of it for every statement, and safe because the list
-- holds nothing but whole UUIDs.
--
-- Requests run as orderonce_request. What belongs to no single tenant (authentication, operators, purging and other
-- work in the background) runs as orderonce_worker. Neither owns a table. Roles are of the whole server, not of this
-- database, so they may be there already, and they stay when this migration is undone.
DO $roles$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['orderonce_request', 'orderonce_worker'] LOOP
        IF to_regrole(role) IS NULL THEN -- or an owner who may not make roles could use none that were made for it
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- made this very moment
            END;
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), role);
        EXECUTE format('GRANT SELECT ON schema_migrations TO %I', role);
    END LOOP;
END
$roles$;

-- To the request role only what requests do. UPDATE lets a row be locked as well.
GRANT SELECT ON coupons, orders, outbox_events, idempotency_requests TO orderonce_request;
-- And of those who ask, what confirms a credential.
GRANT SELECT (tenant_id, active, operator) ON tenants TO orderonce_request;
GRANT SELECT (tenant_id, id, active) ON principals TO orderonce_request;
GRANT SELECT (tenant_id, id, principal_id, secret_hash, scopes, expires_at, revoked_at) ON api_keys TO orderonce_request;
GRANT INSERT, DELETE ON orders, outbox_events, idempotency_requests TO orderonce_request;
GRANT UPDATE ON idempotency_requests TO orderonce_request;
GRANT UPDATE (redemptions) ON coupons TO orderonce_request;
GRANT UPDATE (status, version) ON orders TO orderonce_request;
-- Effects are made, sent and ended in the background alone.
GRANT SELECT ON effects TO orderonce_request;
-- Tasks are accepted, looked at and sent on their way again by requests; the work is the background's.
GRANT SELECT, INSERT ON tasks TO orderonce_request;
GRANT UPDATE (state, retryable, reason, stalls, owner, due_at, updated_at, ended_at, result_expires_at) ON tasks TO orderonce_request;
GRANT INSERT, SELECT (tenant_id, task_id, number) ON import_chunks TO orderonce_request;
GRANT SELECT ON import_rows TO orderonce_request;
GRANT SELECT, INSERT ON webhook_subscriptions TO orderonce_request;
GRANT UPDATE (active, disabled_reason, failing_since) ON webhook_subscriptions TO orderonce_request;
-- A request makes secrets and ends them; it has no need to read one.
GRANT SELECT (tenant_id, id, subscription_id, created_at, expires_at), INSERT, UPDATE (expires_at), DELETE
    ON webhook_secrets TO orderonce_request;

GRANT SELECT, INSERT, UPDATE, DELETE ON
    tenants, principals, api_keys, coupons, orders, outbox_events, effects, webhook_subscriptions, webhook_secrets,
    idempotency_requests, tasks, import_chunks, import_rows TO orderonce_worker;
GRANT SELECT, INSERT, UPDATE ON reconciliation_findings, reconciliation_looks TO orderonce_worker;
GRANT SELECT, INSERT ON audit_log TO orderonce_worker; -- what was written there stays

DO $policies$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'tenants', 'principals', 'api_keys', 'audit_log', 'coupons', 'orders', 'outbox_events', 'effects',
        'webhook_subscriptions', 'webhook_secrets', 'idempotency_requests', 'reconciliation_findings',
        'tasks', 'import_chunks', 'import_rows'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY named_tenants ON %I TO orderonce_request
             USING (strpos(current_setting(''orderonce.tenants'', true), tenant_id::text) > 0)', name);
        EXECUTE format('CREATE POLICY every_tenant ON %I TO orderonce_worker USING (true)', name);
    END LOOP;
END
$policies$;
