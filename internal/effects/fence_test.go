package effects_test

import (
	"net/http"
	"testing"

	"github.com/google/uuid"

	"orderonce/internal/effects"
)

// Case 30. A worker that finishes and one that finds the lease ended: one of them has it, and the effect ends once.
func TestFinishRacesTheEndOfTheLease(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	const effectsToEnd = 60
	o := f.options()
	o.MaxAttempts = 1000
	first, second := f.worker(o, out.destination("payment", effects.Idempotent)), f.workerOn(f.open(), o, out.destination("payment", effects.Idempotent))
	late := make(chan struct{}, 3) // so that there are places free for whoever takes it again
	out.before = func(_ http.ResponseWriter, r *http.Request, nth int) bool {
		// The lease ends while the answer is on its way, whoever's call it is, and both look for what is due.
		key := r.Header.Get("Idempotency-Key")
		var token int64
		err := f.watch.QueryRow(t.Context(), "UPDATE effects SET due_at = now() WHERE idempotency_key = $1 AND owner IS NOT NULL RETURNING attempt_token", key).Scan(&token)
		first.Wake()
		second.Wake()
		if err != nil || nth%3 != 0 {
			return true // and now they race
		}
		select {
		case late <- struct{}{}: // this answer comes too late for certain
			defer func() { <-late }()
			f.await("it to be taken again", func() bool {
				return f.count("SELECT attempt_token FROM effects WHERE idempotency_key = '"+key+"'") > token
			})
		default:
		}
		return true
	}
	for range effectsToEnd {
		f.add(plan{})
	}
	stop := f.run(first, second)
	f.await("all to be done", func() bool { return f.count("SELECT count(*) FROM effects WHERE state = 'succeeded'") == effectsToEnd })
	stop()
	if out.mostExecuted() != 1 {
		t.Errorf("%d executions of one key", out.mostExecuted())
	}
	times := map[uuid.UUID]int{}
	for _, e := range f.told() {
		times[e.ID]++
	}
	for id, n := range times {
		done := 0
		for _, entry := range f.entries(id) {
			if entry.Verdict == effects.Done {
				done++
			}
		}
		if n != 1 || done != 1 {
			t.Errorf("effect %s ended %d times, by %d entries", id, n, done)
		}
	}
	if len(times) != effectsToEnd || first.Counts().Fenced+second.Counts().Fenced == 0 {
		t.Errorf("%d ended; no outcome came too late: %+v, %+v", len(times), first.Counts(), second.Counts())
	}
}

// Case 32. The same process takes its own effect again, and its own earlier goroutine is refused: the name of a worker
// fences nothing.
func TestOwnLateAnswerIsRefused(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	held, release := make(chan struct{}), make(chan struct{})
	out.answer = func(w http.ResponseWriter, _ *http.Request, nth int) {
		if nth == 1 {
			close(held)
			<-release
			w.WriteHeader(http.StatusUnprocessableEntity) // a definite no, that would end it otherwise
		}
	}
	id := f.add(plan{})
	w := f.worker(f.options(), out.destination("payment", effects.Idempotent))
	f.run(w)
	<-held
	f.expire()
	e := f.awaitState(id, effects.Succeeded)
	close(release)
	f.await("the late answer to be refused", func() bool { return w.Counts().Fenced == 1 })
	if again := f.find(id); again.State != effects.Succeeded || again.Token != e.Token || len(f.told()) != 1 {
		t.Errorf("after the late answer: %s, token %d of %d, %d ends", again.State, again.Token, e.Token, len(f.told()))
	}
	if entries := f.entries(id); len(entries) != 1 || entries[0].Verdict != effects.Done {
		t.Errorf("evidence %+v", entries)
	}
}

// The same where the effect stands in the same state for both: what tells them apart is the token alone.
func TestLateAnswerIsRefusedThoughTheStateIsTheSame(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	held, release := make(chan int, 2), []chan struct{}{make(chan struct{}), make(chan struct{})}
	out.answer = func(w http.ResponseWriter, _ *http.Request, nth int) {
		held <- nth
		<-release[nth-1]
		if nth == 1 {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	}
	id := f.in(effects.Unknown, true)
	f.hurry()
	w := f.worker(f.options(), out.destination("payment", effects.Idempotent))
	f.run(w)
	<-held
	f.expire()
	<-held // both have it as unknown now, by their own account
	close(release[0])
	f.await("the late answer to be refused", func() bool { return w.Counts().Fenced == 1 })
	if e := f.find(id); e.State != effects.Unknown || e.Owner == nil || len(f.told()) != 0 {
		t.Errorf("while the other call is under way: %s of %v", e.State, e.Owner)
	}
	close(release[1])
	f.awaitState(id, effects.Succeeded)
}
