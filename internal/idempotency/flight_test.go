package idempotency_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
)

// Promise 6: however many duplicates wait, they hold one connection, their leader's.
func TestFollowersHoldNoConnection(t *testing.T) {
	t.Parallel()
	f := setup(t)
	request := newRequest(t)
	work, claimed, end := f.held()
	leader := f.start(f.keys, request, work)
	<-claimed
	const followers = 256
	waiting := make([]<-chan result, followers)
	for i := range waiting {
		waiting[i] = f.start(f.keys, request, f.create)
	}
	f.poll("all to follow", func() bool { return f.keys.Followers() == followers })
	if inUse := f.db.Stat().AcquiredConns(); inUse != 1 {
		t.Errorf("%d connections are in use, want the leader's alone", inUse)
	}
	end <- nil
	first := <-leader
	for _, w := range waiting {
		if r := <-w; r.err != nil || !r.Replayed || string(r.Body) != string(first.Body) || !r.Expires.Equal(first.Expires) {
			t.Fatalf("a follower was given %+v, %v", r.Outcome, r.err)
		}
	}
	if first.Replayed || f.keys.Followers() != 0 {
		t.Errorf("the leader replays: %v; %d still follow", first.Replayed, f.keys.Followers())
	}
	f.wantRows(1, 1)
}

// A leader that rolls back hands leadership to one follower, whose outcome the others are given.
func TestLeadershipPassesOnAfterARollback(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]error{"an error": errors.New("the disk is full"), "a panic": errPanic} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			request := newRequest(t)
			work, claimed, end := f.held()
			leader := f.startRecovering(request, panicking(work))
			<-claimed
			var waiting []<-chan result
			for range 20 {
				waiting = append(waiting, f.start(f.keys, request, f.create))
			}
			f.poll("all to follow", func() bool { return f.keys.Followers() == 20 })
			end <- fail
			if r := <-leader; r.err == nil {
				t.Error("the leader's fault is lost")
			}
			first := 0
			for _, w := range waiting {
				r := <-w
				if r.err != nil {
					t.Fatal(r.err)
				}
				if !r.Replayed {
					first++
				}
			}
			if first != 1 {
				t.Errorf("%d followers took over", first)
			}
			f.wantRows(1, 1)
		})
	}
}

var errPanic = errors.New("panic")

// panicking lets work panic where it is told to, as net/http's handler would see it.
func panicking(work idempotency.Work) idempotency.Work {
	return func(ctx context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
		answer, err := work(ctx, tx)
		if errors.Is(err, errPanic) {
			panic(errPanic)
		}
		return answer, err
	}
}

// startRecovering does what a server does with a handler that panics: it goes on.
func (f *fixture) startRecovering(request idempotency.Request, work idempotency.Work) <-chan result {
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if bug := recover(); bug != nil {
				r.err = errPanic
			}
			done <- r
		}()
		r.Outcome, r.err = f.keys.Do(f.t.Context(), request, work)
	}()
	return done
}

// A follower is judged by its own parameters and its own rights.
func TestFollowersAreJudgedByThemselves(t *testing.T) {
	t.Parallel()
	f := setup(t)
	request := newRequest(t)
	other, denied := request, request
	other.Parameters = parameters(t, map[string]any{"name": "chair"})
	denied.Authorise = func(context.Context) error { return fault.New(fault.Unauthenticated, "") }
	work, claimed, end := f.held()
	leader := f.start(f.keys, request, work)
	<-claimed
	withOther, withoutRights := f.start(f.keys, other, f.create), f.start(f.keys, denied, f.create)
	f.poll("both to follow", func() bool { return f.keys.Followers() == 2 })
	end <- nil
	if r := <-leader; r.err != nil {
		t.Fatal(r.err)
	}
	var reused *fault.Error
	if r := <-withOther; !errors.As(r.err, &reused) || reused.Kind != fault.KeyReused || len(reused.Differing) != 1 || reused.Differing[0] != "/name" {
		t.Errorf("other parameters: %v", r.err)
	}
	if r := <-withoutRights; fault.KindOf(r.err) != fault.Unauthenticated || r.Body != nil {
		t.Errorf("without rights: %+v, %v", r.Outcome, r.err)
	}
	f.wantRows(1, 1)
}

// A follower waits its own bound and no longer, and a client that is gone not at all.
func TestFollowerLeaves(t *testing.T) {
	t.Parallel()
	f := setup(t)
	request := newRequest(t)
	work, claimed, end := f.held()
	leader := f.start(f.keys, request, work)
	<-claimed
	impatient := request
	impatient.Policy.Wait = 50 * time.Millisecond
	if r := <-f.start(f.keys, impatient, f.create); fault.KindOf(r.err) != fault.InProgress {
		t.Errorf("past its bound: %v", r.err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := f.keys.Do(ctx, request, f.create)
		done <- err
	}()
	f.poll("it to follow", func() bool { return f.keys.Followers() == 1 })
	hangUp()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("hung up: %v", err)
	}
	end <- nil
	if r := <-leader; r.err != nil {
		t.Error(r.err)
	}
	f.wantRows(1, 1)
}

// Waiters are bounded: past the bound the answer comes at once.
func TestFollowersAreBounded(t *testing.T) {
	t.Parallel()
	f := setup(t)
	request := newRequest(t)
	work, claimed, end := f.held()
	leader := f.start(f.keys, request, work)
	<-claimed
	var waiting []<-chan result
	for range idempotency.FollowersPerScope {
		waiting = append(waiting, f.start(f.keys, request, f.create))
	}
	f.poll("all to follow", func() bool { return f.keys.Followers() == idempotency.FollowersPerScope })
	if _, err := f.keys.Do(t.Context(), request, f.create); fault.KindOf(err) != fault.InProgress {
		t.Errorf("one too many: %v", err)
	}
	end <- nil
	<-leader
	for _, w := range waiting {
		if r := <-w; r.err != nil {
			t.Fatal(r.err)
		}
	}
}

// Case 24: one tenant's units that all wait leave connections for the others.
func TestOneTenantCannotTakeThePool(t *testing.T) {
	t.Parallel()
	f := setup(t)
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: f.url, MaxConns: 16, TenantShare: 12, Acquire: time.Second, Statement: patience,
		IdleInTransaction: patience, Deadline: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	keys := newProcess(db)
	lock, err := f.session().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), "INSERT INTO things (id, name) VALUES (gen_random_uuid(), 'held')"); err != nil {
		t.Fatal(err)
	}
	stuck := func(ctx context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
		name := "held"
		_, err := tx.Offer(ctx, thingKind, thing{ID: uuid.New(), Name: &name})
		return idempotency.Answer{Status: 201}, err
	}
	flood := newRequest(t)
	var floods []<-chan result
	for range 500 {
		one := flood
		one.Scope.Key = newRequest(t).Scope.Key
		floods = append(floods, f.start(keys, one, stuck))
	}
	f.poll("the tenant to use its share", func() bool { return f.waiters() == 12 })
	if _, err := keys.Do(t.Context(), newRequest(t), f.create); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, w := range floods {
		if r := <-w; r.err != nil && fault.KindOf(r.err) != fault.Busy {
			t.Errorf("one of the flood: %v", r.err)
		}
	}
}
