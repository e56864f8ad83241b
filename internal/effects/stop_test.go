package effects_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"orderonce/internal/effects"
)

// A worker that is stopped takes nothing more, lets the call under way end, and writes what came of it.
func TestStoppedWorkerFinishesWhatItHolds(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	held, release := make(chan struct{}), make(chan struct{})
	out.answer = func(http.ResponseWriter, *http.Request, int) {
		close(held)
		<-release
	}
	id := f.add(plan{})
	d := out.destination("payment", effects.Idempotent)
	d.Concurrency = 1
	w := f.worker(f.options(), d)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { defer close(ran); w.Run(ctx) }()
	<-held
	later := f.add(plan{})
	cancel()
	close(release)
	<-ran
	if e := f.find(id); e.State != effects.Succeeded {
		t.Errorf("the one under way is %s", e.State)
	}
	if e := f.find(later); e.State != effects.Pending || e.Attempts != 0 {
		t.Errorf("the next one is %s after %d attempts", e.State, e.Attempts)
	}
}

// What does not end in time is cut, and said honestly: what may have been executed is unknown, what was certainly not
// sent is as it was before.
func TestStoppedWorkerSaysHonestlyWhatItCut(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	held, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	out.answer = func(http.ResponseWriter, *http.Request, int) {
		close(held)
		<-release
	}
	sent := f.add(plan{})
	unsent := f.add(plan{destination: "far"})
	dialling := make(chan struct{})
	far := effects.Destination{
		Name: "far", Capability: effects.None, Concurrency: 1, Timeout: 5 * time.Second,
		Send: func(ctx context.Context, _ effects.Effect) effects.Result {
			close(dialling)
			<-ctx.Done() // no connection yet
			return effects.Result{Verdict: effects.NotExecuted, Detail: ctx.Err().Error()}
		},
	}
	o := f.options()
	o.Stop = time.Millisecond
	w := f.worker(o, out.destination("payment", effects.Idempotent), far)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { defer close(ran); w.Run(ctx) }()
	<-held
	<-dialling
	cancel()
	<-ran
	if e := f.find(sent); e.State != effects.Unknown || e.Attempts != 1 || e.KeyValidUntil == nil || e.Owner != nil {
		t.Errorf("what may have been executed: %+v", e)
	}
	if e := f.find(unsent); e.State != effects.Pending || e.Attempts != 0 || e.FirstSentAt != nil || e.KeyValidUntil != nil || len(f.entries(unsent)) != 0 {
		t.Errorf("what was not sent: %+v", e)
	}
}

// A process that dies leaves its effects in flight. When the lease has ended, they are possibly sent: never plain
// pending, and never sent again where the destination could execute them twice.
func TestDeadWorkersEffectsWerePossiblySent(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	sure, unsure := f.add(plan{}), f.add(plan{destination: "mail"})
	f.exec(`UPDATE effects SET state = 'in_flight', owner = 'dead', attempts = 1, attempt_token = 1, first_sent_at = now() - interval '1 minute',
		key_valid_until = now() + CASE destination WHEN 'mail' THEN interval '-1 minute' ELSE interval '1 hour' END, due_at = now() + interval '1 hour'`)
	w := f.worker(f.options(), out.destination("payment", effects.Idempotent), out.destination("mail", effects.None))
	f.run(w)
	f.await("the worker to look", func() bool { return w.Counts().Looks > 4 })
	if len(out.seen()) != 0 {
		t.Error("taken before the lease has ended")
	}
	f.expire()
	f.awaitState(sure, effects.Succeeded)
	f.awaitState(unsure, effects.NeedsHuman)
	if len(out.seen()) != 1 {
		t.Errorf("%d requests, want the one of the idempotent destination", len(out.seen()))
	}
}

// A worker that dies with each taking does not do so for ever.
func TestEffectThatKillsWorkersEnds(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	id := f.add(plan{})
	f.exec(`UPDATE effects SET state = 'in_flight', owner = 'dead', attempts = 12, attempt_token = 12, first_sent_at = now(),
		key_valid_until = now() + interval '1 hour', due_at = now()`)
	f.run(f.worker(f.options(), out.destination("payment", effects.Idempotent)))
	if e := f.awaitState(id, effects.NeedsHuman); len(out.seen()) != 0 || !strings.Contains(*e.LastError, "as often as it may be") {
		t.Errorf("%d requests, %v", len(out.seen()), e.LastError)
	}
}

// A destination's code that panics has sent something, or not.
func TestPanicOfADestinationIsAmbiguous(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	d := out.destination("payment", effects.Idempotent)
	send, first := d.Send, make(chan struct{}, 1)
	first <- struct{}{}
	d.Send = func(ctx context.Context, e effects.Effect) effects.Result {
		select {
		case <-first:
			panic("token sk_live_secret")
		default:
			return send(ctx, e)
		}
	}
	id := f.add(plan{})
	f.run(f.worker(f.options(), d))
	f.awaitState(id, effects.Succeeded)
	if entries := f.entries(id); len(entries) != 2 || entries[0].Verdict != effects.Ambiguous || strings.Contains(entries[0].Detail, "secret") {
		t.Errorf("evidence %+v", entries)
	}
}

// What is kept of a destination's words is short, one line, and without credentials, whatever the destination lets
// through.
func TestRecordsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{ //nolint:gosec // credentials of nobody
		"cut":                    "cut",
		"two\nlines\x00\x1b[31m": "two lines  [31m",
		"not \xff\xfe UTF-8":     "not ? UTF-8",
		`Post "https://u:pass@pay.example/v1?key=sk_1&x=y": EOF`: `Post "https://pay.example/v1": EOF`,
		"sent Authorization: Bearer sk_live_1 to it":             "sent Authorization: Bearer … to it",
		"sent basic dXNlcjpwYXNz":                                "sent basic …",
	} {
		if got := effects.Clean(said); got != want {
			t.Errorf("%q is kept as %q, want %q", said, got, want)
		}
	}
	if got := effects.Clean(strings.Repeat("é", 9999)); len([]rune(got)) != 500 {
		t.Errorf("%d characters are kept", len([]rune(got)))
	}
	f, out := setup(t), newOutside(t)
	d := out.destination("payment", effects.Idempotent)
	d.Send = func(context.Context, effects.Effect) effects.Result {
		return effects.Result{Verdict: effects.Ambiguous, Detail: "https://u:pass@pay.example \x00" + strings.Repeat("x", 9999)}
	}
	id := f.add(plan{})
	o := f.options()
	o.MaxAttempts = 100
	f.run(f.worker(o, d))
	e := f.awaitState(id, effects.NeedsHuman)
	entries := f.entries(id)
	if len(entries) != 64 || entries[0].Token != 1 || entries[63].Token != 100 || len(e.Evidence) > 64*1000 {
		t.Errorf("%d entries from %d to %d, %d bytes", len(entries), entries[0].Token, entries[len(entries)-1].Token, len(e.Evidence))
	}
	if strings.Contains(string(e.Evidence)+*e.LastError, "pass") {
		t.Errorf("a credential is kept: %s", *e.LastError)
	}
}
