package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

func setupProxied(t *testing.T) (*fixture, *postgrestest.Proxy) {
	t.Helper()
	direct := setup(t)
	p, through := postgrestest.ThroughProxy(t, direct.url)
	direct.exec("DROP TABLE things")
	return setupThrough(t, direct.url, through), p
}

// Case 3: COMMIT went out and no answer came back. The unit is run again, and its claim tells what became of it: the
// client gets the one answer that is in the database, as the first answer, since it never saw another.
func TestUnansweredCommitIsDecidedByTheClaim(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		commit postgrestest.Fate
		winner int // the run whose thing is kept
	}{
		"lost on its way":       {postgrestest.Lost, 1},
		"arrived, not answered": {postgrestest.Unanswered, 0},
	} {
		for path, open := range map[string]bool{"staged": false, "open": true} {
			t.Run(name+", "+path, func(t *testing.T) {
				t.Parallel()
				f, p := setupProxied(t)
				create := f.create
				if open {
					create = f.createOpen
				}
				var answers []idempotency.Answer
				request := newRequest(t)
				p.AtCommit(c.commit)
				outcome := f.do(request, func(ctx context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
					answer, err := create(ctx, tx)
					answers = append(answers, answer)
					return answer, err
				})
				if len(answers) != 2 {
					t.Fatalf("work ran %d times, want once more after the unanswered COMMIT", len(answers))
				}
				if outcome.Replayed || !bytes.Equal(outcome.Body, answers[c.winner].Body) || outcome.Status != 201 {
					t.Errorf("the answer is %+v, want the one of run %d as a first answer", outcome, c.winner)
				}
				f.wantRows(1, 1)
				if again := f.do(request, create); !again.Replayed || !bytes.Equal(again.Body, outcome.Body) {
					t.Errorf("the retry is answered with %+v", again)
				}
			})
		}
	}
}

// The same while the COMMIT is still on its way: the second claim waits for it and does not take its absence for a
// rollback.
func TestSecondClaimWaitsForACommitUnderWay(t *testing.T) {
	t.Parallel()
	f, p := setupProxied(t)
	arrive := make(chan struct{})
	var slow postgrestest.Fate = func(cut, deliver func()) {
		cut()
		<-arrive
		deliver()
	}
	p.AtCommit(slow)
	waiting := f.start(f.keys, newRequest(t), f.create)
	f.poll("the second claim to wait for the first", func() bool { return f.waiters() == 1 })
	close(arrive)
	r := <-waiting
	if r.err != nil || r.Replayed || f.runs.Load() != 2 {
		t.Errorf("after %d runs: %+v, %v; want the first answer after 2", f.runs.Load(), r.Outcome, r.err)
	}
	f.wantRows(1, 1)
}

// Where the database cannot be asked any more, the client is told the truth: nobody knows, keep the key.
func TestCommitThatCannotBeDecidedIsUnknown(t *testing.T) {
	t.Parallel()
	f, p := setupProxied(t)
	p.AtCommit(p.Last)
	request := newRequest(t)
	_, err := f.keys.Do(t.Context(), request, f.create)
	f.wantFault(err, fault.OutcomeUnknown)
	var unknown *fault.Error
	if errors.As(err, &unknown) && unknown.RetryAfter <= 0 {
		t.Error("no pause is recommended")
	}
	f.poll("the COMMIT to have its effect", func() bool { return f.count("SELECT count(*) FROM things") == 1 })
	// The key was kept, the database is back: the retry finds what happened.
	back := setupThroughAgain(f)
	if again := back.do(request, back.create); !again.Replayed {
		t.Errorf("the retry is answered with %+v", again)
	}
	f.wantRows(1, 1)
}

// setupThroughAgain is a new process on the same database, past the proxy.
func setupThroughAgain(f *fixture) *fixture {
	f.t.Helper()
	f.exec("ALTER TABLE things RENAME TO things_before")
	again := setupThrough(f.t, f.url, f.url)
	f.exec("DROP TABLE things")
	f.exec("ALTER TABLE things_before RENAME TO things")
	return again
}

// Case 12: a client that goes away does not undo what was begun for it. Its retry replays.
func TestCancelledCallerIsStillRecorded(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, create idempotency.Work) {
		t.Helper()
		request := newRequest(t)
		ctx, cancel := context.WithCancel(t.Context())
		first, err := f.keys.Do(ctx, request, func(ctx context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
			cancel()
			if ctx.Err() != nil {
				t.Error("work is cancelled with its caller")
			}
			return create(ctx, tx)
		})
		if err != nil {
			t.Fatal(err)
		}
		f.wantRows(1, 1)
		if again := f.do(request, create); !again.Replayed || !bytes.Equal(again.Body, first.Body) {
			t.Errorf("the retry is answered with %+v", again)
		}

		// Who is gone before the claim has begun nothing.
		_, err = f.keys.Do(ctx, newRequest(t), create)
		f.wantFault(err, fault.Busy)
		f.wantRows(1, 1)
	})
}

// Case 19: a unit that PostgreSQL keeps rolling back ends after a bounded number of tries, and its key still works.
func TestEndlessSerializationFailureLeavesTheKeyUsable(t *testing.T) {
	t.Parallel()
	f := setup(t)
	request := newRequest(t)
	_, err := f.keys.Do(t.Context(), request, func(ctx context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
		db, err := tx.DB(ctx)
		if err != nil {
			return idempotency.Answer{}, err
		}
		f.runs.Add(1)
		_, err = db.Exec(ctx, "DO $$ BEGIN RAISE EXCEPTION 'not today' USING ERRCODE = '40001'; END $$")
		return idempotency.Answer{}, err
	})
	f.wantFault(err, fault.Busy)
	if runs := f.runs.Load(); runs < 2 || runs > 20 {
		t.Errorf("work ran %d times", runs)
	}
	f.wantRows(0, 0)
	if retried := f.do(request, f.create); retried.Replayed {
		t.Error("the retry is answered from a failure")
	}
	f.wantRows(1, 1)
}

// A connection that is lost before COMMIT has changed nothing; the client does not even notice.
func TestConnectionLostBeforeCommitIsRunAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	outcome := f.do(newRequest(t), func(ctx context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
		db, err := tx.DB(ctx)
		if err != nil {
			return idempotency.Answer{}, err
		}
		if f.runs.Load() == 0 {
			f.runs.Add(1)
			_, err := db.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			return idempotency.Answer{}, err
		}
		return f.create(ctx, tx)
	})
	if outcome.Replayed || f.runs.Load() != 2 {
		t.Errorf("after %d runs: %+v", f.runs.Load(), outcome)
	}
	f.wantRows(1, 1)
}

// The record may be purged between the claim that it refused and the read of it. Then the key is free, and claimed.
func TestRecordThatVanishesBeforeItsReadIsClaimedAgain(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, create idempotency.Work) {
		t.Helper()
		ctx := t.Context()
		work, claimed, end := f.held()
		request := newRequest(t)
		first := f.start(f.keys, request, work)
		<-claimed
		second := f.start(newProcess(f.db), request, create)
		f.poll("the second claim to wait for the first", func() bool { return f.waiters() == 1 })
		// The purger stands in line for the whole table, behind the two claims and before the read that comes after
		// them; nothing else decides who is next.
		purger, err := f.session().Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		purged := make(chan error, 1)
		go func() {
			_, err := purger.Exec(ctx, "LOCK TABLE idempotency_requests IN ACCESS EXCLUSIVE MODE")
			if err == nil {
				_, err = purger.Exec(ctx, "DELETE FROM idempotency_requests")
			}
			if err == nil {
				err = purger.Commit(ctx)
			}
			purged <- err
		}()
		f.poll("the purger to stand in line", func() bool { return f.waiters() == 2 })
		end <- nil

		one, two, purge := <-first, <-second, <-purged
		if err := errors.Join(one.err, two.err, purge); err != nil {
			t.Fatal(err)
		}
		if two.Replayed || bytes.Equal(one.Body, two.Body) {
			t.Errorf("the purged answer %q comes back as %+v", one.Body, two.Outcome)
		}
		f.wantRows(2, 1)
	})
}

// A row that was there before shows only when the table refuses it. The work then runs again, open, so that it can
// say so in an answer that is stored.
func TestWorkLearnsOfARefusedRowWhileItsTransactionIsOpen(t *testing.T) {
	t.Parallel()
	f := setup(t)
	name := "taken"
	f.exec("INSERT INTO things VALUES ($1, $2)", uuid.New(), name)
	request := newRequest(t)
	work := func(ctx context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
		f.runs.Add(1)
		kept, err := tx.Offer(ctx, thingKind, thing{ID: uuid.New(), Name: &name})
		if err != nil || kept {
			return idempotency.Answer{Status: 201}, err
		}
		return idempotency.Answer{Status: 409, Body: []byte("taken"), Rejected: true}, nil
	}
	first, second := f.do(request, work), f.do(request, work)
	if first.Status != 409 || first.Replayed || second.Status != 409 || !second.Replayed {
		t.Errorf("the answers are %+v and %+v", first, second)
	}
	f.wantRows(1, 1)
}
