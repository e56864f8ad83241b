package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"orderonce/internal/load"
)

// rows counts what is in the tables of a contender: one row each for every order.
type rows struct{ orders, records, events int64 }

func (r rows) since(before rows) rows {
	return rows{r.orders - before.orders, r.records - before.records, r.events - before.events}
}

func (r rows) String() string {
	return fmt.Sprintf("%d orders, %d idempotency records and %d events", r.orders, r.records, r.events)
}

func countRows(ctx context.Context, db *pgx.Conn, schema string) (rows, error) {
	count := func(table string) string {
		return "(SELECT count(*) FROM " + pgx.Identifier{schema, table}.Sanitize() + ")"
	}
	// Overdue records are those of the leg that purges them: see purging.
	live := strings.TrimSuffix(count("idempotency_requests"), ")") + " WHERE expires_at > now())"
	var r rows
	err := db.QueryRow(ctx, "SELECT "+count("orders")+", "+live+", "+count("outbox_events")).
		Scan(&r.orders, &r.records, &r.events)
	if err != nil {
		return rows{}, fmt.Errorf("count the rows of %s: %w", schema, err)
	}
	return r, nil
}

// sample is a row of each table as the server writes them.
type sample struct {
	Tenant, Principal         string
	Fingerprint, FieldDigests []byte
	Headers, Metadata         string
	Body                      []byte
	Payload                   string
	CustomerPrefix            string
	Order, Checkout           string
}

func (s sample) original() original { return original{s.Order, s.Checkout} }

// takeSample returns the order whose event is of middling length.
func takeSample(ctx context.Context, db *pgx.Conn) (sample, error) {
	s := sample{CustomerPrefix: load.CustomerPrefix}
	err := db.QueryRow(ctx, `
		SELECT r.tenant_id::text, r.principal_id::text, r.fingerprint, r.field_digests, r.response_headers::text,
		       o.metadata::text, r.response_body, e.payload::text,
		       o.id::text, o.checkout_id
		FROM idempotency_requests r
		JOIN orders o ON (o.tenant_id, o.id) = (r.tenant_id, r.resource_id)
		JOIN outbox_events e ON (e.tenant_id, e.aggregate_id) = (o.tenant_id, o.id)
		ORDER BY length(e.payload::text)
		OFFSET (SELECT count(*) / 2 FROM orders) LIMIT 1`).
		Scan(&s.Tenant, &s.Principal, &s.Fingerprint, &s.FieldDigests, &s.Headers, &s.Metadata, &s.Body, &s.Payload,
			&s.Order, &s.Checkout)
	if err != nil {
		return sample{}, fmt.Errorf("look at an order of the server: %w", err)
	}
	return s, nil
}
