package effects_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects"
)

// cut drops the connection without an answer.
func cut(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }

// Cases 25 and 44. The destination executes, the answer is lost five times: one execution, one key, the same bytes.
func TestAnswerLostFiveTimesIsOneExecution(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	out.answer = func(w http.ResponseWriter, r *http.Request, nth int) {
		if nth <= 5 {
			cut(w, r, nth)
		}
	}
	id := f.add(plan{request: "{\"b\":1,  \"a\":1.50}\n"}) // as nobody would encode it again
	f.run(f.worker(f.options(), out.destination("payment", effects.Idempotent)))
	e := f.awaitState(id, effects.Succeeded)
	seen := out.seen()
	for _, a := range seen {
		if a.key != e.Key.String() || a.body != "{\"b\":1,  \"a\":1.50}\n" {
			t.Errorf("sent %q under %s, want the stored bytes under %s", a.body, a.key, e.Key)
		}
	}
	if len(seen) != 6 || out.mostExecuted() != 1 || e.Attempts != 6 {
		t.Errorf("%d requests, %d executions, %d attempts; want 6, 1, 6", len(seen), out.mostExecuted(), e.Attempts)
	}
	var found []effects.Verdict
	for _, entry := range f.entries(id) {
		found = append(found, entry.Verdict)
		if entry.Owner != "tester" || entry.Token == 0 || entry.At.IsZero() {
			t.Errorf("the evidence %+v does not say who and when", entry)
		}
	}
	if want := slices.Concat(slices.Repeat([]effects.Verdict{effects.Ambiguous}, 5), []effects.Verdict{effects.Done}); !slices.Equal(found, want) {
		t.Errorf("evidence %v", found)
	}
	if len(f.told()) != 1 {
		t.Errorf("told of %d ends", len(f.told()))
	}
}

// A destination that executes each request it gets is never sent one twice while it may have executed the first.
func TestQueryableDestinationIsAskedBeforeItIsSentAgain(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	out.forgetful = true
	out.before = func(w http.ResponseWriter, r *http.Request, nth int) bool {
		if nth == 1 {
			cut(w, r, nth) // before it does anything
		}
		return true
	}
	out.answer = func(w http.ResponseWriter, r *http.Request, nth int) {
		if nth == 2 {
			cut(w, r, nth)
		}
	}
	id := f.add(plan{destination: "stock"})
	d := out.destination("stock", effects.Queryable)
	d.Timeout = time.Second
	f.run(f.worker(f.options(), d))
	e := f.awaitState(id, effects.Succeeded)
	if len(out.seen()) != 2 || out.mostExecuted() != 1 {
		t.Errorf("%d requests, %d executions", len(out.seen()), out.mostExecuted())
	}
	var found []string
	for _, entry := range f.entries(id) {
		found = append(found, fmt.Sprint(entry.Verdict, " ", entry.Asked))
	}
	if want := []string{"ambiguous false", "absent true", "ambiguous false", "done true"}; !slices.Equal(found, want) {
		t.Errorf("evidence %v, want %v", found, want)
	}
	if e.Attempts != 4 {
		t.Errorf("%d attempts", e.Attempts)
	}
}

// Promise 8, case 27. While a call is under way, the worker holds no connection, and so no transaction is open: not for
// a sending and not for a question.
func TestNoTransactionIsOpenDuringACall(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	var open, calls atomic.Int64
	watch := func(w http.ResponseWriter, r *http.Request, nth int) bool {
		calls.Add(1)
		open.Add(int64(f.db.Stat().AcquiredConns()))
		if nth%2 == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return false
		}
		return true
	}
	out.before = watch
	d := out.destination("stock", effects.Queryable)
	d.Concurrency, d.Timeout = 1, 50*time.Millisecond // then nobody else of this pool has business of its own
	ask := d.Query
	d.Query = func(ctx context.Context, e effects.Effect) effects.Result {
		calls.Add(1)
		open.Add(int64(f.db.Stat().AcquiredConns()))
		return ask(ctx, e)
	}
	for range 20 {
		f.add(plan{destination: "stock"})
	}
	stop := f.run(f.worker(f.options(), d))
	f.await("all to be done", func() bool { return f.count("SELECT count(*) FROM effects WHERE state = 'succeeded'") == 20 })
	stop()
	if calls.Load() < 40 || open.Load() != 0 {
		t.Errorf("%d connections were held in %d calls", open.Load(), calls.Load())
	}
}

// Case 36. Twelve workers try what cannot succeed as often as one would: once for each backoff, and no more in all than
// it may be tried.
func TestTwelveWorkersMakeOneAttemptPerBackoff(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	out.before = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	}
	id := f.add(plan{})
	o := f.options()
	o.BackoffBase, o.BackoffCap, o.MaxAttempts = 20*time.Minute, 20*time.Minute, 5
	var workers []*effects.Worker
	db := f.open()
	for range 12 {
		workers = append(workers, f.workerOn(db, o, out.destination("payment", effects.Idempotent)))
	}
	f.run(workers...)
	looked := func() (n int64) {
		for _, w := range workers {
			n += w.Counts().Looks
		}
		return n
	}
	for round := 1; round <= 5; round++ {
		f.await("the attempt to be written", func() bool {
			e := f.find(id)
			return e.Attempts == int32(round) && e.Owner == nil
		})
		before := looked()
		f.await("every worker to look for more", func() bool { return looked() >= before+24 })
		if n := len(out.seen()); n != round {
			t.Fatalf("%d requests in round %d", n, round)
		}
		f.hurry()
	}
	e := f.find(id)
	if e.State != effects.NeedsHuman || e.DueAt != nil || len(out.seen()) != 5 || len(f.told()) != 0 {
		t.Errorf("at the end of its attempts: %s, due %v, %d requests", e.State, e.DueAt, len(out.seen()))
	}
}

// Dead ends: a destination without any way to know, a key past its memory, an answer that no retry changes. Each waits
// for a person, with what is known, and blocks nobody else.
func TestPoisonedEffectBlocksNoOtherOrder(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	out.before = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		switch r.Header.Get("Idempotency-Key") {
		case effects.KeyOf(effects.Identity{Order: poisoned, Destination: "payment", Operation: "authorize"}, f.tenant).String():
			w.WriteHeader(http.StatusBadRequest)
			return false
		case effects.KeyOf(effects.Identity{Order: poisoned, Destination: "payment", Operation: "capture"}, f.tenant).String():
			cut(w, r, 0)
		}
		return true
	}
	bad := f.add(plan{order: poisoned})
	worse := f.add(plan{order: poisoned, operation: "capture"})
	behind := f.add(plan{order: poisoned, lane: "", operation: "void", version: 9, blocked: true})
	var good []uuid.UUID
	for range 30 {
		good = append(good, f.add(plan{}))
	}
	d := out.destination("payment", effects.Idempotent)
	d.Concurrency = 1
	f.run(f.worker(f.options(), d))
	for _, id := range good {
		f.awaitState(id, effects.Succeeded)
	}
	if e := f.awaitState(bad, effects.NeedsHuman); e.Attempts != 1 || e.LastError == nil && len(f.entries(bad)) != 1 {
		t.Errorf("%+v", e)
	}
	if e := f.awaitState(worse, effects.NeedsHuman); e.Attempts != 12 || len(f.entries(worse)) != 12 {
		t.Errorf("%d attempts, %d entries", e.Attempts, len(f.entries(worse)))
	}
	if e := f.find(behind); e.State != effects.Pending || e.DueAt != nil {
		t.Errorf("what waits for them is %s, due %v", e.State, e.DueAt)
	}
}

var poisoned = uuid.MustParse("0193b1f0-0000-7000-8000-000000000001")

// A key that the destination may have forgotten is never sent again, whoever asks for it: asked about where it can be,
// and otherwise left to a person.
func TestForgottenKeyIsNeverSentAgain(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	out.answer = cut
	o := f.options()
	o.BackoffBase, o.BackoffCap = time.Hour, time.Hour
	askable := out.destination("askable", effects.Queryable)
	askable.Capability, askable.Retention = effects.Idempotent, time.Hour
	id, other := f.add(plan{}), f.add(plan{destination: "askable"})
	f.run(f.worker(o, out.destination("payment", effects.Idempotent), askable))
	f.awaitState(id, effects.Unknown)
	f.awaitState(other, effects.Unknown)
	// Still remembered, but not for as long as a call may take: the margin.
	f.exec("UPDATE effects SET key_valid_until = now() + interval '5 seconds'")
	f.hurry()
	e := f.awaitState(id, effects.NeedsHuman)
	f.awaitState(other, effects.Succeeded)
	if len(out.seen()) != 2 || out.mostExecuted() != 1 {
		t.Errorf("%d requests of two effects", len(out.seen()))
	}
	if entries := f.entries(id); len(entries) != 2 || !strings.Contains(entries[1].Detail, "forgotten its key") || e.LastError == nil {
		t.Errorf("evidence %+v", entries)
	}
}

// 100 changes of each of three orders, eight workers: at the destination each order's versions only ever grow, and none
// is left out.

// One that others run may be away for longer than one of our own.
func TestDestinationMayHaveMoreAttempts(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	out.before = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	}
	few, more := f.add(plan{}), f.add(plan{destination: "webhooks"})
	o := f.options()
	o.MaxAttempts = 2
	patient := out.destination("webhooks", effects.Idempotent)
	patient.MaxAttempts, patient.BackoffCap = 4, time.Millisecond
	f.run(f.worker(o, out.destination("payment", effects.Idempotent), patient))
	for id, want := range map[uuid.UUID]int32{few: 2, more: 4} {
		f.awaitState(id, effects.NeedsHuman)
		if got := f.find(id).Attempts; got != want {
			t.Errorf("%d attempts, want %d", got, want)
		}
	}
}
