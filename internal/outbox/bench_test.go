package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

// What an event costs a dispatcher and PostgreSQL to be dispatched in a batch of 500, without what is made of it: CPU,
// which a busy machine does not change as much as it does the time.
func BenchmarkDispatch(b *testing.B) {
	const batch = 500
	url := postgrestest.URL(b)
	db, err := postgres.Open(b.Context(), postgres.Config{
		URL: url, Role: postgres.Worker, MaxConns: 1, Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	var pid int
	inTx := func(work func(ctx context.Context, db postgres.DBTX) error) {
		err := db.InTx(b.Context(), postgres.Unit{LockTimeout: patience}, func(ctx context.Context, tx *postgres.Tx) error {
			db, err := tx.DB(ctx)
			if err != nil {
				return err
			}
			return work(ctx, db)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	inTx(func(ctx context.Context, db postgres.DBTX) error {
		return db.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
	})
	payload := fmt.Sprintf(`{"items":[%s{}]}`, strings.Repeat(`{"sku":"MUG-BLUE","quantity":2},`, 15))
	d := outbox.NewDispatcher(db, func(context.Context, *postgres.Tx, []outbox.Recorded) error { return nil }, slog.New(slog.DiscardHandler))
	var server, client time.Duration
	for b.Loop() {
		ids := make([]uuid.UUID, batch)
		for i := range ids {
			ids[i] = uuid.Must(uuid.NewV7())
		}
		b.StopTimer()
		inTx(func(ctx context.Context, db postgres.DBTX) error {
			_, err := db.Exec(ctx, `INSERT INTO outbox_events (tenant_id, id, aggregate_type, aggregate_id, version, type, payload, occurred_at)
				SELECT '0193b1f0-0000-7000-8000-00000000000a', i, 'order', i, 1, 'orderonce.order.created.v1', $2::text::json, now()
				FROM unnest($1::uuid[]) AS i`, ids, payload)
			return err
		})
		server0, client0 := cpuOf(b, pid), ownCPU(b)
		b.StartTimer()
		if _, err := d.Round(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		server += cpuOf(b, pid) - server0
		client += ownCPU(b) - client0
		b.StartTimer()
	}
	events := float64(b.N * batch)
	b.ReportMetric(float64(server.Microseconds())/events, "pg-cpu-µs/event")
	b.ReportMetric(float64(client.Microseconds())/events, "go-cpu-µs/event")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/events, "µs/event")
}

// cpuOf is what a process has used, by the scheduler's own clock.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		b.Skip(err)
	}
	running, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseInt(running, 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(n)
}

func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
