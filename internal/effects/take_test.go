package effects_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects"
)

// fill makes n effects of a tenant at once, each of an order of its own or all of one, due or blocked.
func (f *fixture) fill(tenant uuid.UUID, n int, oneOrder, blocked bool) {
	f.t.Helper()
	f.exec(`INSERT INTO effects (tenant_id, id, destination, lane, operation, event_id, order_id, version, idempotency_key, request,
			request_hash, required, state, due_at, created_at)
		SELECT $1, gen_random_uuid(), 'payment', '', 'change-' || n, gen_random_uuid(), CASE WHEN $3 THEN $1 ELSE gen_random_uuid() END, n,
			gen_random_uuid(), '{}', '\x00', false, 'pending', CASE WHEN NOT $4 THEN now() - interval '1 hour' END, now()
		FROM generate_series(1, $2::int) AS n`, tenant, n, oneOrder, blocked)
	f.exec("ANALYZE effects")
}

// Case 38. Ten thousand older effects of one tenant do not keep back the one of another, nor do those of a hundred.
func TestOneTenantsBacklogDelaysNobody(t *testing.T) {
	t.Parallel()
	for name, crowd := range map[string]struct{ tenants, each int }{"one tenant": {1, 10_000}, "many tenants": {200, 20}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, out := setup(t), newOutside(t)
			for range crowd.tenants {
				f.fill(uuid.New(), crowd.each, false, false)
			}
			f.tenant = uuid.Max // its turn comes after everybody else's
			id := f.add(plan{})
			var arrived, place atomic.Int64
			key := f.find(id).Key.String()
			out.before = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
				if n := arrived.Add(1); r.Header.Get("Idempotency-Key") == key {
					place.Store(n)
				}
				return true
			}
			d := out.destination("payment", effects.Idempotent)
			stop := f.run(f.worker(f.options(), d))
			f.await("the one", func() bool { return place.Load() > 0 })
			stop()
			// One of each tenant may come first, and what is under way beside it.
			if bound := int64(crowd.tenants + 3*d.Concurrency); place.Load() > bound {
				t.Errorf("it was number %d, want at most %d", place.Load(), bound)
			}
		})
	}
}

// Case 37. What failed together comes back spread over the whole pause, and behind what the destination asked for. It is
// the distribution that is judged: 2000 draws of each pause.
func TestRetriesAreSpread(t *testing.T) {
	t.Parallel()
	o := effects.Options{BackoffBase: time.Second, BackoffCap: time.Minute}
	for _, c := range []struct {
		attempts        int32
		wish, from, top time.Duration
	}{
		{1, 0, 0, time.Second},
		{4, 0, 0, 8 * time.Second},
		{7, 0, 0, time.Minute},
		{40, 0, 0, time.Minute},
		{1_000_000, 0, 0, time.Minute},
		{3, 30 * time.Second, 30 * time.Second, 34 * time.Second},
		{1, -time.Hour, 0, time.Second},
		{1, 1000 * time.Hour, time.Hour, time.Hour + time.Second}, // nobody puts an effect off for ever
	} {
		var tenths [10]int
		for range 2000 {
			pause := effects.PauseOf(o, c.attempts, c.wish)
			if pause < c.from || pause >= c.top {
				t.Fatalf("after %d attempts, asked for %s: %s, want %s to %s", c.attempts, c.wish, pause, c.from, c.top)
			}
			tenths[(pause-c.from)*10/(c.top-c.from)]++
		}
		for i, n := range tenths { // 200 each are expected; 100 are off by more than seven deviations
			if n < 100 || n > 300 {
				t.Errorf("after %d attempts, asked for %s: %d of 2000 in tenth %d, want about 200: %v", c.attempts, c.wish, n, i, tenths)
			}
		}
	}
}

// The same by what is written: a destination that is off for a while finds those that failed at once due at times that
// are spread.
func TestEffectsThatFailTogetherAreDueApart(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	out.before = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	}
	for range 100 {
		f.add(plan{})
	}
	o := f.options()
	o.BackoffBase, o.BackoffCap = 1000*time.Second, 1000*time.Second
	f.run(f.worker(o, out.destination("payment", effects.Idempotent)))
	f.await("all to fail", func() bool {
		return f.count("SELECT count(*) FROM effects WHERE attempts = 1 AND owner IS NULL") == 100
	})
	if n := f.count("SELECT count(*) FROM effects WHERE due_at < now() + interval '570 seconds'"); n != 0 {
		t.Errorf("%d come before the destination asked for them", n)
	}
	// Ten slices of 100 s: were they in step, one slice would have them all.
	if n := f.count(`SELECT max(n) FROM (SELECT count(*) AS n FROM effects GROUP BY floor(extract(epoch FROM due_at) / 100)) AS s`); n > 30 {
		t.Errorf("%d of 100 come in one tenth of the time", n)
	}
}

// A taking looks at what is due and at nothing else: 200 000 effects that wait for a predecessor, or 50 000 that wait
// for their time, cost it no more pages than none.
func TestTakingCostsNoMoreForABacklog(t *testing.T) {
	t.Parallel()
	f := setup(t)
	sql := takeEffects(t)
	for range 50 {
		f.fill(uuid.New(), 1, false, false)
	}
	take := func() (pages float64) {
		t.Helper()
		tx, err := f.watch.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
		var plans []byte
		if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql).Scan(&plans); err != nil {
			t.Fatal(err)
		}
		var explained []struct{ Plan map[string]any }
		if err := json.Unmarshal(plans, &explained); err != nil || len(explained) != 1 {
			t.Fatalf("%v: %s", err, plans)
		}
		return explained[0].Plan["Shared Hit Blocks"].(float64) + explained[0].Plan["Shared Read Blocks"].(float64)
	}
	f.exec("VACUUM ANALYZE effects")
	take()
	without := take()
	one := uuid.New()
	f.fill(one, 200_000, true, true)
	f.exec(`INSERT INTO effects SELECT tenant_id, gen_random_uuid(), destination, lane, 'later-' || version, reverts, event_id, gen_random_uuid(), version,
		gen_random_uuid(), request, request_hash, required, state, attempts, attempt_token, now() + interval '1 hour', owner, first_sent_at,
		key_valid_until, last_error, evidence, traceparent, created_at, ended_at FROM effects WHERE tenant_id = $1 LIMIT 50000`, one)
	f.exec("VACUUM ANALYZE effects")
	take()
	with := take()
	t.Logf("%v pages without the backlog, %v with it", without, with)
	if with > 3*without {
		t.Errorf("a taking reads %v pages beside the backlog, and %v without", with, without)
	}
}

// takeEffects is the statement, with values.
func takeEffects(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile("../../sql/queries/effects.sql")
	if err != nil {
		tb.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "-- name: TakeEffects :many\n")
	sql, _, _ := strings.Cut(after, "-- name:")
	for name, value := range map[string]string{
		"destination": "'payment'", "after_tenant": "'" + uuid.Nil.String() + "'", "most": "16", "owner": "'tester'", "lease": "1000000", "retention": "1000000",
	} {
		sql = strings.ReplaceAll(sql, fmt.Sprintf("sqlc.arg(%s)", name), value)
	}
	return sql
}

// A destination that fails each call is left alone: its effects are not taken, and cost nothing. It is tried with one
// call, and goes on when that succeeds.
func TestCircuitLeavesAFailingDestinationAlone(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	var well atomic.Bool
	out.before = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		if !well.Load() {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		return well.Load()
	}
	for range 40 {
		f.add(plan{})
	}
	o := f.options()
	o.Failures, o.Open, o.MaxAttempts = 3, 200*time.Millisecond, 100
	d := out.destination("payment", effects.Idempotent)
	d.Concurrency = 1
	w := f.worker(o, d)
	f.run(w)
	f.await("three tries of the open circuit", func() bool { return len(out.seen()) == 6 })
	if c := w.Counts(); c.Taken > c.Sent+1 || f.count("SELECT sum(attempts) FROM effects") > c.Sent+1 {
		t.Errorf("effects were taken in vain: %+v", c)
	}
	well.Store(true)
	f.await("all to be done", func() bool { return f.count("SELECT count(*) FROM effects WHERE state = 'succeeded'") == 40 })
}

// The circuit of one lane is its own: what was taken for it goes back as it was, and the other lanes go on.
func TestCircuitOfALaneKeepsTheOthersGoing(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	out.before = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Header.Get("X-Lane") == "broken" {
			w.WriteHeader(http.StatusTooManyRequests)
			return false
		}
		return true
	}
	d := out.destination("payment", effects.Idempotent)
	d.Send = func(ctx context.Context, e effects.Effect) effects.Result {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, out.URL, http.NoBody)
		if err != nil {
			return effects.Result{Verdict: effects.Impossible, Detail: err.Error()}
		}
		r.Header.Set("Idempotency-Key", e.Key.String())
		r.Header.Set("X-Lane", e.Lane)
		return verdict(http.DefaultClient.Do(r))
	}
	for range 50 {
		f.add(plan{lane: "broken"})
		f.add(plan{lane: "well"})
	}
	o := f.options()
	o.Failures, o.Open, o.MaxAttempts = 4, time.Hour, 100
	o.BackoffBase, o.BackoffCap = time.Hour, time.Hour
	w := f.worker(o, d)
	stop := f.run(w)
	f.await("the lane that is well", func() bool { return f.count("SELECT count(*) FROM effects WHERE state = 'succeeded'") == 50 })
	f.await("the other to be left alone", func() bool {
		return f.count("SELECT count(*) FROM effects WHERE due_at <= now() OR owner IS NOT NULL") == 0
	})
	stop()
	http.DefaultClient.CloseIdleConnections()
	sent := f.count("SELECT sum(attempts) FROM effects WHERE lane = 'broken'")
	if sent < 4 || sent > 8 {
		t.Errorf("%d calls for the broken lane, want about the 4 that open its circuit", sent)
	}
	if n := f.count("SELECT count(*) FROM effects WHERE lane = 'broken' AND (state <> 'pending' OR (attempts = 0) <> (first_sent_at IS NULL AND evidence = '[]') AND attempts = 0)"); n != 0 {
		t.Errorf("%d effects of the broken lane are not as they were", n)
	}
}
