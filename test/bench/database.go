package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// database is what servers of this run work on: the product's schema, and an owner's connection to look behind them.
type database struct {
	cluster    *cluster
	binary     string
	url        string
	db         *pgx.Conn // the owner's
	credential string    // of the tenant bench
}

func (s *stage) newDatabase(ctx context.Context, name string) (*database, error) {
	d := &database{cluster: s.cluster, binary: s.binary}
	var err error
	if d.url, err = s.cluster.newDatabase(ctx, name); err != nil {
		return nil, err
	}
	if _, err := output(ctx, s.binary, "migrate", "up", "--database-url", d.url); err != nil {
		return nil, err
	}
	if d.credential, err = d.mint(ctx, "bench"); err != nil {
		return nil, err
	}
	d.db, err = pgx.Connect(ctx, d.url)
	return d, err
}

// mint makes a tenant where there is none of the name, and a key for it.
func (d *database) mint(ctx context.Context, tenant string) (string, error) {
	var key string
	for _, command := range [][]string{
		{"tenants", "create"},
		{"principals", "create", "--principal", "bench"},
		{"keys", "create", "--principal", "bench", "--name", uuid.NewString(), "--scopes", "orders:create,orders:read"},
	} {
		printed, err := output(ctx, d.binary, append(command, "--tenant", tenant, "--reason", "make bench", "--database-url", d.url)...)
		if err != nil {
			return "", err
		}
		key = strings.TrimSpace(printed) // the last one's
	}
	return key, nil
}

func (d *database) close(ctx context.Context) { _ = d.db.Close(context.WithoutCancel(ctx)) }

func (d *database) empty(ctx context.Context) error {
	if _, err := d.db.Exec(ctx, "TRUNCATE idempotency_requests, orders, outbox_events, effects CASCADE"); err != nil {
		return fmt.Errorf("empty the tables: %w", err)
	}
	return nil
}

func (d *database) rows(ctx context.Context) (rows, error) { return countRows(ctx, d.db, "public") }

// guarded lists the tables that row level security is on for.
func (d *database) guarded(ctx context.Context) ([]string, error) {
	found, err := d.db.Query(ctx, `SELECT relname::text FROM pg_class
		WHERE relrowsecurity AND relnamespace = 'public'::regnamespace ORDER BY relname`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowTo[string])
}

// guard switches row level security of these tables on or off; their policies stay.
func (d *database) guard(ctx context.Context, tables []string, on bool) error {
	verb := "DISABLE"
	if on {
		verb = "ENABLE"
	}
	for _, table := range tables {
		if _, err := d.db.Exec(ctx, "ALTER TABLE "+pgx.Identifier{table}.Sanitize()+" "+verb+" ROW LEVEL SECURITY"); err != nil {
			return fmt.Errorf("row level security of %s: %w", table, err)
		}
	}
	return nil
}
