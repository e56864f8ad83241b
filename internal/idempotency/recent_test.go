package idempotency_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
)

// remembering is a process that keeps outcomes in memory.
func (f *fixture) remembering() { f.keys = idempotency.New(f.db, patience, 10) }

// behind makes the request pass a check of the database first.
func behind(request idempotency.Request, passes bool) idempotency.Request {
	request.Before = []postgres.Staged{{Kind: checkKind, Row: check{passes}}}
	return request
}

// A replay from memory is the record's, and the caller's rights of now are asked of the database all the same.
func TestReplayFromMemoryIsBehindTheCallersChecks(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, create idempotency.Work) {
		t.Helper()
		f.remembering()
		request := behind(newRequest(t), true)
		first := f.do(request, create)
		// Only memory can still answer: the record is out of sight.
		f.exec("ALTER TABLE idempotency_requests RENAME TO elsewhere")
		replay := f.do(request, create)
		if !replay.Replayed || string(replay.Body) != string(first.Body) || !replay.Expires.Equal(first.Expires) ||
			replay.Header["Location"] != first.Header["Location"] || replay.Status != first.Status {
			t.Errorf("%+v replays %+v", replay, first)
		}
		outcome, err := f.keys.Do(t.Context(), behind(request, false), create)
		if postgres.RefusedBy(err) != checkKind || outcome.Body != nil {
			t.Errorf("%+v, %v; want the check's refusal", outcome, err)
		}
		f.exec("ALTER TABLE elsewhere RENAME TO idempotency_requests")
		f.wantRows(1, 1)
	})
}

// Memory answers the same request of the same caller and nobody else's.
func TestMemoryIsOfOneRequestInOneScope(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.remembering()
	request := newRequest(t)
	f.do(request, f.create)
	other := request
	other.Parameters = parameters(t, map[string]any{"name": "chair"})
	_, err := f.keys.Do(t.Context(), other, f.create)
	f.wantFault(err, fault.KeyReused)
	for name, change := range map[string]func(*idempotency.Scope){
		"tenant":    func(s *idempotency.Scope) { s.Tenant = uuid.New() },
		"principal": func(s *idempotency.Scope) { s.Principal = uuid.New() },
		"operation": func(s *idempotency.Scope) { s.Operation = "createOther" },
	} {
		other := request
		change(&other.Scope)
		if f.do(other, f.create).Replayed {
			t.Errorf("another %s is given a replay", name)
		}
	}
	f.wantRows(4, 4)
}

// Only the database's clock knows when a key expires. Near its end memory does not answer.
func TestMemoryStopsBeforeTheKeyExpires(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.remembering()
	request := newRequest(t)
	request.Policy.Retention = 50 * time.Second
	f.do(request, f.create)
	f.exec("UPDATE idempotency_requests SET expires_at = now()")
	if f.do(request, f.create).Replayed {
		t.Error("an expired key is replayed from memory")
	}
	f.wantRows(2, 1)
}

// lock keeps every writer out of a table until release.
func (f *fixture) lock(table string) (release func()) {
	f.t.Helper()
	tx, err := f.session().Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := tx.Exec(f.t.Context(), "LOCK TABLE "+table+" IN EXCLUSIVE MODE"); err != nil {
		f.t.Fatal(err)
	}
	return func() {
		f.t.Helper()
		if err := tx.Rollback(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
}

// What is kept by reference is so because it must not be kept: neither in memory.
func TestMemoryKeepsNoBodyOfAnAnswerByReference(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.remembering()
	request := newRequest(t)
	request.Policy.Reference = true
	first := f.do(request, f.create)
	replay := f.do(request, f.create)
	if replay.Body != nil || !replay.ByReference || replay.Resource.ID != first.Resource.ID {
		t.Errorf("%+v, want a reference", replay)
	}
}

// A body that is too large for memory is read again, and is the same.
func TestLargeAnswerIsReplayedFromTheRecord(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.remembering()
	request := newRequest(t)
	large := func(context.Context, *postgres.Tx) (idempotency.Answer, error) {
		return idempotency.Answer{Status: 200, Body: []byte(strings.Repeat("x", 8<<10))}, nil
	}
	f.do(request, large)
	f.exec("UPDATE idempotency_requests SET response_body = response_body || 'y'::bytea")
	if replay := f.do(request, large); !replay.Replayed || len(replay.Body) != 8<<10+1 {
		t.Errorf("replayed %v with %d bytes", replay.Replayed, len(replay.Body))
	}
}

// A key that looks like a retry is read first. Whatever is found or not found there, the claim decides.
func TestOldKeyIsReadBeforeItIsClaimed(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, create idempotency.Work) {
		t.Helper()
		old := uuid.Must(uuid.NewV7())
		copy(old[:6], []byte{1, 0x80, 0, 0, 0, 0}) // minted in 2022
		request := newRequest(t)
		request.Scope.Key = idempotency.Key(old.String())
		first := f.do(behind(request, true), create) // an old key may be at its first request all the same
		if first.Replayed {
			t.Error("the first is a replay")
		}
		release := f.lock("idempotency_requests") // no claim comes through; a read does
		replay := f.do(behind(request, true), create)
		if !replay.Replayed || string(replay.Body) != string(first.Body) {
			t.Errorf("%+v replays %+v", replay, first)
		}
		release()
		_, err := f.keys.Do(t.Context(), behind(request, false), create)
		if postgres.RefusedBy(err) != checkKind {
			t.Errorf("error %v, want the check's refusal", err)
		}
		f.exec("UPDATE idempotency_requests SET expires_at = now()")
		if f.do(behind(request, true), create).Replayed {
			t.Error("an expired key is replayed")
		}
		f.wantRows(2, 1)
	})
}

// A database that cannot be read at that moment is no answer: the claim has tries of its own.
func TestReadThatFailedIsNoAnswer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.remembering()
	request := newRequest(t)
	f.do(request, f.create)
	f.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'orderonce' AND datname = current_database()")
	if outcome, err := f.keys.Do(t.Context(), request, f.create); err != nil || !outcome.Replayed {
		t.Errorf("%+v, %v; want a replay", outcome, err)
	}
	f.wantRows(1, 1)
}
