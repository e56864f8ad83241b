package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
)

// result is what one of several calls was given.
type result struct {
	idempotency.Outcome
	err error
}

// start calls Do and hands its result over when it is there.
func (f *fixture) start(keys *idempotency.Keys, request idempotency.Request, work idempotency.Work) <-chan result {
	done := make(chan result, 1)
	go func() {
		outcome, err := keys.Do(f.t.Context(), request, work)
		done <- result{outcome, err}
	}()
	return done
}

// held is work that has its claim written, tells so, and goes on when it is told how to end.
func (f *fixture) held() (work idempotency.Work, claimed <-chan struct{}, end chan error) {
	working := make(chan struct{})
	end = make(chan error, 1)
	return func(ctx context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
		answer, err := f.createOpen(ctx, tx)
		close(working)
		return answer, errors.Join(err, <-end)
	}, working, end
}

// Cases 1 and 2: however many ask at once, in one process or in several, there is one thing and one answer.
func TestParallelDuplicatesRunOnce(t *testing.T) {
	t.Parallel()
	for name, processes := range map[string]int{"one process": 1, "ten processes": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachPath(t, func(t *testing.T, f *fixture, create idempotency.Work) {
				t.Helper()
				const requests = 100
				keys := make([]*idempotency.Keys, processes)
				for i := range keys {
					keys[i] = newProcess(f.db)
				}
				request := newRequest(t)
				barrier := make(chan struct{})
				results := make([]result, requests)
				var group errgroup.Group
				for i := range results {
					group.Go(func() error {
						<-barrier
						outcome, err := keys[i%processes].Do(t.Context(), request, create)
						results[i] = result{outcome, err}
						return nil
					})
				}
				close(barrier)
				_ = group.Wait()
				first := 0
				for _, r := range results {
					if r.err != nil {
						t.Fatal(r.err)
					}
					if !r.Replayed {
						first++
					}
					if r.Status != 201 || !bytes.Equal(r.Body, results[0].Body) || !r.Expires.Equal(results[0].Expires) {
						t.Fatalf("two answers: %+v and %+v", r, results[0])
					}
				}
				if first != 1 {
					t.Errorf("%d of %d answers are the first", first, requests)
				}
				f.wantRows(1, 1)
			})
		})
	}
}

// Case 1 for a key that has expired: forgetting it and claiming it anew must not let two in.
func TestParallelDuplicatesOfAnExpiredKeyRunOnce(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, create idempotency.Work) {
		t.Helper()
		request := newRequest(t)
		old := f.do(request, create)
		f.exec("UPDATE idempotency_requests SET expires_at = now()")
		barrier := make(chan struct{})
		outcomes := make([]idempotency.Outcome, 12) // each a process of its own, all with a connection
		var group errgroup.Group
		for i := range outcomes {
			keys := newProcess(f.db)
			group.Go(func() (err error) {
				<-barrier
				outcomes[i], err = keys.Do(t.Context(), request, create)
				return err
			})
		}
		close(barrier)
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, outcome := range outcomes {
			if bytes.Equal(outcome.Body, old.Body) || !bytes.Equal(outcome.Body, outcomes[0].Body) {
				t.Errorf("answers %q and %q after the expiry, %q before", outcome.Body, outcomes[0].Body, old.Body)
			}
		}
		f.wantRows(2, 1)
	})
}

// Case 4: the wait for the first request has an end, and that end costs neither the connection nor the key.
func TestDuplicateOfALongRequestIsToldToComeBack(t *testing.T) {
	t.Parallel()
	f := setup(t)
	work, claimed, end := f.held()
	request := newRequest(t)
	holder := f.start(f.keys, request, work)
	<-claimed

	impatient := request
	impatient.Policy.Wait = 20 * time.Millisecond
	for name, keys := range map[string]*idempotency.Keys{"same process": f.keys, "another process": newProcess(f.db)} {
		_, err := keys.Do(t.Context(), impatient, f.create)
		var told *fault.Error
		if !errors.As(err, &told) || told.Kind != fault.InProgress || told.RetryAfter <= 0 {
			t.Errorf("%s: error %v, want %v with a pause", name, err, fault.InProgress)
		}
		if inUse := f.db.Stat().AcquiredConns(); inUse != 1 {
			t.Errorf("%s: %d connections are in use, want the holder's", name, inUse)
		}
	}
	end <- nil
	first := <-holder
	if first.err != nil {
		t.Fatal(first.err)
	}
	if again := f.do(impatient, f.create); !again.Replayed || !bytes.Equal(again.Body, first.Body) {
		t.Errorf("coming back is answered with %+v", again)
	}
	f.wantRows(1, 1)
}

// A duplicate of another process waits for the row. What the holder ends with decides what the duplicate becomes.
func TestWaitingDuplicateBecomesOwnerOrReplays(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, ending := range map[string]error{"holder commits": nil, "holder rolls back": broken} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachPath(t, func(t *testing.T, f *fixture, create idempotency.Work) {
				t.Helper()
				work, claimed, end := f.held()
				request := newRequest(t)
				holder := f.start(f.keys, request, work)
				<-claimed
				waiter := f.start(newProcess(f.db), request, create)
				f.poll("the duplicate to wait for the claim", func() bool { return f.waiters() == 1 })
				end <- ending

				first, second := <-holder, <-waiter
				if !errors.Is(first.err, ending) || second.err != nil {
					t.Fatalf("the holder ends with %v, the waiter with %v", first.err, second.err)
				}
				if second.Replayed != (ending == nil) || ending == nil && !bytes.Equal(first.Body, second.Body) {
					t.Errorf("the holder's answer is %+v, the waiter's %+v", first.Outcome, second.Outcome)
				}
				f.wantRows(1, 1)
			})
		})
	}
}

// Two claims that hold each other's rows up are PostgreSQL's to part; the one it fails is run again, not failed.
func TestDeadlockedUnitIsRunAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.exec("INSERT INTO things VALUES ($1, 'a'), ($2, 'b')", uuid.New(), uuid.New())
	ready, met := make(chan struct{}, 2), make(chan struct{})
	crossing := func(first, second string) idempotency.Work {
		return func(ctx context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
			db, err := tx.DB(ctx)
			if err != nil {
				return idempotency.Answer{}, err
			}
			for _, name := range []string{first, second} {
				if _, err := db.Exec(ctx, "UPDATE things SET name = name WHERE name = $1", name); err != nil {
					return idempotency.Answer{}, err
				}
				select { // the second runs find it closed and pass
				case ready <- struct{}{}:
				default:
				}
				<-met
			}
			return f.create(ctx, tx)
		}
	}
	one, two := f.start(f.keys, newRequest(t), crossing("a", "b")), f.start(f.keys, newRequest(t), crossing("b", "a"))
	<-ready
	<-ready
	close(met)
	for _, done := range []<-chan result{one, two} {
		if r := <-done; r.err != nil || r.Replayed {
			t.Errorf("%+v, %v", r.Outcome, r.err)
		}
	}
	f.wantRows(4, 2)
}
