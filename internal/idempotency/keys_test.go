package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
)

// Case 13: the stored answer comes back as it was, whatever its bytes are. Case 14: so do its headers.
func TestReplayIsTheFirstAnswerByteForByte(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, create idempotency.Work) {
		t.Helper()
		for name, answer := range map[string]idempotency.Answer{
			"object in its own spelling": {Status: 201, Body: []byte("{ \"b\":1.0,\"a\" : 1e2,\n\"a\":2}\n")},
			"not UTF-8":                  {Status: 200, Body: []byte{0xff, 0xfe, 0x00, 0x80, '\\', 'x'}},
			"escapes":                    {Status: 200, Body: []byte(`"\u0000\ud800\u00e9é\/"`)},
			"empty":                      {Status: 204, Body: []byte{}},
			"none":                       {Status: 204},
			"large":                      {Status: 200, Body: bytes.Repeat([]byte("0123456789abcdef"), 1<<14)},
			"headers": {Status: 303, Header: map[string]string{
				"Location": `/things/1?a=<b>&c="d"\`, "Etag": `W/"1"`, "X-Empty": "", "x-lower": "é",
			}},
			"resource": {Status: 200, Resource: &idempotency.Resource{Type: "thing", ID: uuid.New()}},
		} {
			request := newRequest(t)
			work := func(ctx context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
				_, err := create(ctx, tx)
				return answer, err
			}
			first, second := f.do(request, work), f.do(request, work)
			if first.Status != answer.Status || !bytes.Equal(first.Body, answer.Body) {
				t.Errorf("%s: the first answer is %d %q, work's %d %q", name, first.Status, first.Body, answer.Status, answer.Body)
			}
			if first.Replayed || !second.Replayed {
				t.Errorf("%s: replayed is %v and then %v", name, first.Replayed, second.Replayed)
			}
			second.Replayed = false
			if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: the replay differs (-first +replay)\n%s", name, diff)
			}
			if n := f.count("SELECT count(*) FROM idempotency_requests WHERE idempotency_key = $1 AND expires_at = $2 "+
				"AND expires_at = completed_at + interval '1 hour'", string(request.Scope.Key), first.Expires); n != 1 {
				t.Errorf("%s: no record expires at %v, an hour after its completion", name, first.Expires)
			}
		}
		f.wantRows(8, 8)
	})
}

// Promise 5: the key with other parameters never executes and never gets the old result.
func TestOtherParametersAreRefusedAndRunNothing(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, create idempotency.Work) {
		t.Helper()
		request := newRequest(t)
		request.Parameters = parameters(t, map[string]any{"name": "lamp", "items": []any{map[string]any{"n": int64(1)}}})
		first := f.do(request, create)

		other := request
		other.Parameters = parameters(t, map[string]any{"name": "desk", "items": []any{map[string]any{"n": int64(2)}}, "color": "red"})
		outcome, err := f.keys.Do(t.Context(), other, create)
		f.wantFault(err, fault.KeyReused)
		var reused *fault.Error
		if errors.As(err, &reused) {
			if diff := cmp.Diff([]string{"/color", "/items/0/n", "/name"}, reused.Differing); diff != "" {
				t.Errorf("the places that differ (-want +got)\n%s", diff)
			}
		}
		if outcome.Status != 0 || outcome.Body != nil {
			t.Errorf("a refused request is given %+v", outcome)
		}
		// The same body meant for another operation of the API's history is another request too.
		older := request
		older.APIVersion = "2025-01-01"
		_, err = f.keys.Do(t.Context(), older, create)
		f.wantFault(err, fault.KeyReused)

		if again := f.do(request, create); !again.Replayed || !bytes.Equal(again.Body, first.Body) {
			t.Errorf("the first request now gets %+v", again)
		}
		f.wantRows(1, 1)
	})
}

// Case 21: the same key and body of another tenant, principal or operation is another intent.
func TestScopesAreApart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	request := newRequest(t)
	first := f.do(request, f.create)
	for name, change := range map[string]func(*idempotency.Scope){
		"tenant":    func(s *idempotency.Scope) { s.Tenant = uuid.New() },
		"principal": func(s *idempotency.Scope) { s.Principal = uuid.New() },
		"operation": func(s *idempotency.Scope) { s.Operation = "createOther" },
		"key":       func(s *idempotency.Scope) { s.Key += "x" },
		"key, case": func(s *idempotency.Scope) { s.Key = idempotency.Key(bytes.ToUpper([]byte(s.Key))) },
	} {
		other := request
		change(&other.Scope)
		if got := f.do(other, f.create); got.Replayed || bytes.Equal(got.Body, first.Body) {
			t.Errorf("another %s is given the first one's answer", name)
		}
	}
	f.wantRows(6, 6)
}

func TestTenantWideKeysAreSharedByTheTenantAlone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	request := newRequest(t)
	request.Policy.TenantWide = true
	tenant, key := uuid.New(), request.Scope.Key
	by := func(tenant, principal uuid.UUID) idempotency.Outcome {
		request.Scope = request.Policy.Scope(tenant, principal, "createThing", key)
		return f.do(request, f.create)
	}
	first := by(tenant, uuid.New())
	if colleague := by(tenant, uuid.New()); !colleague.Replayed || !bytes.Equal(colleague.Body, first.Body) {
		t.Error("another principal of the tenant does not share the key")
	}
	if stranger := by(uuid.New(), uuid.New()); stranger.Replayed {
		t.Error("another tenant is given the answer")
	}
	f.wantRows(2, 2)
}

// Case 16: only a definite outcome is pinned. What failed leaves the key as if it had never been sent.
func TestFailedWorkStoresNothing(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, create idempotency.Work) {
		t.Helper()
		request := newRequest(t)
		broken := errors.New("the disk is full")
		for _, failure := range []error{broken, fault.Invalid("/name", "is taken"), fault.New(fault.CouponExpired, "")} {
			_, err := f.keys.Do(t.Context(), request, func(ctx context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
				if _, err := create(ctx, tx); err != nil {
					return idempotency.Answer{}, err
				}
				return idempotency.Answer{}, failure
			})
			if !errors.Is(err, failure) {
				t.Errorf("error %v, want work's own: %v", err, failure)
			}
			f.wantRows(0, 0)
		}
		if f.runs.Load() != 3 {
			t.Errorf("work ran %d times in 3 requests", f.runs.Load())
		}
		if retried := f.do(request, create); retried.Replayed {
			t.Error("the retry is answered from a failure")
		}
		f.wantRows(1, 1)
	})
}

// A final "no" is stored like a success, and nothing else that its work wrote (trap 7).
func TestRejectionIsStoredAndItsSideWritesAreNot(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, create idempotency.Work) {
		t.Helper()
		request := newRequest(t)
		reject := func(ctx context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
			if tx.Opened() {
				t.Error("the unit is open before its work")
			}
			if _, err := create(ctx, tx); err != nil {
				return idempotency.Answer{}, err
			}
			if tx.Opened() { // written at once, not staged
				db, err := tx.DB(ctx)
				if err != nil {
					return idempotency.Answer{}, err
				}
				if err := (thing{ID: uuid.New()}).Write(ctx, db); err != nil {
					return idempotency.Answer{}, err
				}
			}
			return idempotency.Answer{Status: 409, Body: []byte(`{"code":"no"}`), Rejected: true}, nil
		}
		first := f.do(request, reject)
		f.wantRows(0, 1)
		second := f.do(request, create)
		if first.Replayed || !second.Replayed || second.Status != 409 || !bytes.Equal(first.Body, second.Body) {
			t.Errorf("the rejection is %+v and its replay %+v", first, second)
		}
		f.wantRows(0, 1)
	})
}

// Case 7: an expired key is a new one, even before the purger has come by.
func TestExpiredKeyIsFree(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, create idempotency.Work) {
		t.Helper()
		request := newRequest(t)
		first := f.do(request, create)
		const expire = "UPDATE idempotency_requests SET expires_at = now() + $1::interval"
		f.exec(expire, "1 minute")
		if before := f.do(request, create); !before.Replayed {
			t.Error("the key is forgotten before its time")
		}
		f.exec(expire, "-1 second")
		// Not even the parameters are held against it.
		request.Parameters = parameters(t, map[string]any{"name": "desk"})
		after := f.do(request, create)
		if after.Replayed || bytes.Equal(after.Body, first.Body) {
			t.Errorf("an expired answer comes back: %+v", after)
		}
		if again := f.do(request, create); !again.Replayed || !bytes.Equal(again.Body, after.Body) {
			t.Errorf("the new intent is answered with %+v", again)
		}
		if left := time.Until(after.Expires); left < 30*time.Minute {
			t.Errorf("the new record expires in %v", left)
		}
		f.wantRows(2, 1)
	})
}

// The schema cannot keep a record without a result from being committed by somebody. It is an alarm, never a licence
// to run: nobody knows what its first request did.
func TestIncompleteRecordRunsNothing(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, create idempotency.Work) {
		t.Helper()
		request := newRequest(t)
		f.do(request, create)
		f.exec("UPDATE idempotency_requests SET response_status = NULL, response_headers = NULL, response_body = NULL, " +
			"completed_at = NULL, expires_at = NULL, resource_type = NULL, resource_id = NULL")
		for range 2 {
			_, err := f.keys.Do(t.Context(), request, create)
			f.wantFault(err, fault.RecordIncomplete)
		}
		if n := f.count("SELECT count(*) FROM things"); n != 1 {
			t.Errorf("%d things, want the one from before", n)
		}
	})
}
