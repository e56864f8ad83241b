package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"orderonce/internal/load"
)

// Records by the million are made where they are to lie: PostgreSQL copies one order that the server has placed, with
// its record and its event, under ids that count up in time as real ones do. Every column that is not named here is as
// in the original, so a new one needs no word here.

// counting is load.ID in SQL, and a text of the original with the ids of its i-th copy: %[1]s is the original's order,
// %[2]s its checkout or nothing. PostgreSQL inlines functions of one immutable expression; others took twenty times as
// long.
const counting = `
CREATE FUNCTION pg_temp.id(kind text, begin_ms bigint, i bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
	SELECT (lpad(to_hex($2 + $3 / 16), 12, '0') || '7' || substr(md5($1 || $3::text), 1, 3) || '8' || substr(md5($1 || $3::text), 4, 15))::uuid
$$;
CREATE FUNCTION pg_temp.at(begin_ms bigint, i bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
	SELECT to_timestamp(($1 + $2 / 16) / 1000.0)
$$;
CREATE FUNCTION pg_temp.copied(original text, begin_ms bigint, i bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT replace(replace($1, '%[1]s', pg_temp.id('order', $2, $3)::text), '%[2]s', pg_temp.id('checkout', $2, $3)::text)
$$;
CREATE TEMP TABLE original AS SELECT * FROM %[3]s WHERE %[4]s = '%[1]s'`

// copied is a table that has its order's id in one column, and the columns that a copy gets anew: $1 is the time at which
// the ids begin.
type copied struct {
	table, order string
	anew         map[string]string
}

// The fingerprint stays that of the original: copies of an order without a checkout can be replayed, others are of
// another request than their record says.
var copies = []copied{
	{"orders", "id", map[string]string{
		"id":          "pg_temp.id('order', $1, i)",
		"checkout_id": "CASE WHEN t.checkout_id IS NOT NULL THEN pg_temp.id('checkout', $1, i)::text END",
		"created_at":  "pg_temp.at($1, i)",
	}},
	{"outbox_events", "aggregate_id", map[string]string{
		"id":           "pg_temp.id('event', $1, i)",
		"aggregate_id": "pg_temp.id('order', $1, i)",
		"payload":      "pg_temp.copied(t.payload::text, $1, i)::json",
		"occurred_at":  "pg_temp.at($1, i)",
	}},
	{"idempotency_requests", "resource_id", map[string]string{
		"idempotency_key":  "pg_temp.id('key', $1, i)::text",
		"response_headers": "pg_temp.copied(t.response_headers::text, $1, i)::jsonb",
		"response_body":    "convert_to(pg_temp.copied(convert_from(t.response_body, 'UTF8'), $1, i), 'UTF8')",
		"resource_id":      "pg_temp.id('order', $1, i)",
		"created_at":       "pg_temp.at($1, i)",
		"completed_at":     "pg_temp.at($1, i)",
		"expires_at":       "pg_temp.at($1, i) + (t.expires_at - t.completed_at)",
	}},
}

// statement copies the i from $2 to $3 into a table of these columns.
func (c copied) statement(columns []string) string {
	var values []string
	for _, column := range columns {
		value := c.anew[column]
		if value == "" {
			value = "t." + pgx.Identifier{column}.Sanitize()
		}
		values = append(values, value)
	}
	return "INSERT INTO " + c.table + " SELECT " + strings.Join(values, ", ") +
		" FROM original t, generate_series($2::bigint, $3::bigint) i"
}

// original is an order to be copied, with its checkout if it has one.
type original struct{ order, checkout string }

// fill makes so many copies and returns the time at which their ids begin. They are a minute old, or older.
func (d *database) fill(ctx context.Context, o original, count int) (begin int64, err error) {
	begin = time.Now().Add(-time.Minute).UnixMilli() - int64(count/load.IDsPerMillisecond)
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range copies {
		group.Go(func() error {
			if err := d.copy(ctx, c, o, begin, count); err != nil {
				return fmt.Errorf("fill %s: %w", c.table, err)
			}
			return nil
		})
	}
	return begin, group.Wait()
}

// chunk is how many rows are one transaction.
const chunk = 100_000

func (d *database) copy(ctx context.Context, c copied, o original, begin int64, count int) (err error) {
	db, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close(context.WithoutCancel(ctx))) }()
	// The log is written all the same, and a crash ends the run.
	setUp := "SET synchronous_commit = off;" + fmt.Sprintf(counting, o.order, o.checkout, c.table, c.order)
	if _, err := db.Exec(ctx, setUp); err != nil {
		return err
	}
	found, err := db.Query(ctx, `SELECT attname::text FROM pg_attribute
		WHERE attrelid = 'original'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`)
	if err != nil {
		return err
	}
	columns, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for from := 0; from < count; from += chunk {
		to := min(from+chunk, count) - 1
		done, err := db.Exec(ctx, c.statement(columns), begin, from, to)
		if err != nil {
			return err
		}
		if want := int64(to - from + 1); done.RowsAffected() != want {
			return fmt.Errorf("%d rows were made of %d", done.RowsAffected(), want)
		}
	}
	return nil
}

// plainClient is for single questions; it keeps no connection.
var plainClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// fillPlain makes records that can be replayed, and says how.
func (s *server) fillPlain(ctx context.Context, count int) (load.Filled, error) {
	body := load.PlainBody()
	key := load.ID("original", time.Now().UnixMilli(), 0).String()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/orders", bytes.NewReader(body))
	if err != nil {
		return load.Filled{}, err
	}
	request.Header = http.Header{
		"Authorization": {"Bearer " + s.credential}, "Content-Type": {"application/json"}, "Idempotency-Key": {key},
	}
	response, err := plainClient.Do(request)
	if err != nil {
		return load.Filled{}, s.complaint(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusCreated {
		return load.Filled{}, fmt.Errorf("place the order to copy: status %d: %.500s: %w", response.StatusCode, answer, err)
	}
	f := load.Filled{Count: count, Body: body, Answer: answer}
	err = s.db.QueryRow(ctx, "SELECT resource_id::text FROM idempotency_requests WHERE idempotency_key = $1", key).Scan(&f.Order)
	if err != nil {
		return load.Filled{}, fmt.Errorf("find the order to copy: %w", err)
	}
	f.Begin, err = s.fill(ctx, original{order: f.Order}, count)
	return f, err
}
