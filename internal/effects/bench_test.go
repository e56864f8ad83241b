package effects_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
)

// What a taking of 16 costs beside 200 000 effects that wait in one order, as a ratio to what it costs without them, in
// the same run: at most 3.
func BenchmarkTaking(b *testing.B) {
	f := setup(b)
	sql := takeEffects(b)
	for range 50 {
		f.fill(uuid.New(), 10, false, false)
	}
	conn, err := f.watch.Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Release()
	take := func(n int) time.Duration {
		b.Helper()
		began := time.Now()
		for range n {
			tx, err := conn.Begin(b.Context())
			if err == nil {
				_, err = tx.Exec(b.Context(), sql)
			}
			if err == nil {
				err = tx.Rollback(context.WithoutCancel(b.Context()))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(began) / time.Duration(n)
	}
	const rounds = 50
	take(rounds)
	f.exec("VACUUM ANALYZE effects")
	without := take(rounds)
	f.fill(uuid.New(), 200_000, true, true)
	f.exec("VACUUM ANALYZE effects")
	take(rounds)
	var with time.Duration
	for b.Loop() {
		with = take(rounds)
	}
	b.ReportMetric(float64(with)/float64(without), "ratio")
	b.ReportMetric(float64(with.Microseconds()), "µs/taking")
}
