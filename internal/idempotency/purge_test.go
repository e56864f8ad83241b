package idempotency_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/idempotency"
)

func (f *fixture) purger() *idempotency.Purger {
	return idempotency.NewPurger(f.db, slog.New(slog.NewTextHandler(f.t.Output(), nil)))
}

// records adds n complete records of one tenant that expire at a time relative to now.
func (f *fixture) records(n int, expiry string) {
	f.t.Helper()
	f.exec(`INSERT INTO idempotency_requests (tenant_id, principal_id, operation, idempotency_key, fingerprint,
			fingerprint_version, field_digests, api_version, response_status, response_headers, response_body,
			created_at, completed_at, expires_at)
		SELECT $1, gen_random_uuid(), 'createThing', gen_random_uuid()::text, decode(repeat('00', 32), 'hex'), 1, '\x00', 'v',
			201, '{}', '', now(), now(), now() + $2::interval FROM generate_series(1, $3)`, uuid.New(), expiry, n)
}

// Promise 10: the purge removes what has outlived its retention, and nothing else.
func TestPurgeRemovesOnlyWhatIsOverdue(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.records(2500, "-1 second")
	f.records(300, "-3 hours")
	f.records(400, "1 minute")
	f.exec(`UPDATE idempotency_requests SET response_status = NULL, response_headers = NULL, response_body = NULL,
		completed_at = NULL, expires_at = NULL WHERE ctid IN (SELECT ctid FROM idempotency_requests WHERE expires_at < now() LIMIT 7)`)
	f.exec(`UPDATE idempotency_requests SET expires_at = NULL WHERE ctid IN
		(SELECT ctid FROM idempotency_requests WHERE expires_at < now() LIMIT 5)`) // a task that still runs
	p := f.purger()
	rows, oldest, err := p.Overdue(t.Context())
	if err != nil || rows != 2788 || oldest < 3*time.Hour || oldest > 4*time.Hour {
		t.Errorf("a dry run counts %d, the oldest %s, %v", rows, oldest, err)
	}
	if n := f.count("SELECT count(*) FROM idempotency_requests"); n != 3200 {
		t.Errorf("the dry run left %d", n)
	}
	done, err := p.Purge(t.Context())
	if err != nil || done.Rows != 2788 || done.Oldest < 3*time.Hour {
		t.Errorf("purged %+v, %v", done, err)
	}
	if n := f.count("SELECT count(*) FROM idempotency_requests"); n != 412 {
		t.Errorf("%d are left, want the 400 unexpired, the 7 without a result and the 5 without an expiry", n)
	}
}

// Any number of purgers, beside requests that use the expired keys again.
func TestPurgersShareTheWorkWithRequests(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.records(5000, "-1 second")
	request := newRequest(t)
	f.do(request, f.create)
	f.exec(`UPDATE idempotency_requests SET expires_at = now() - interval '1 second'`)
	var removed, renewed atomic.Int64
	var all sync.WaitGroup
	start := make(chan struct{})
	for range 4 {
		all.Go(func() {
			<-start
			done, err := f.purger().Purge(t.Context())
			if err != nil {
				t.Error(err)
			}
			removed.Add(done.Rows)
		})
	}
	all.Go(func() {
		<-start
		outcome, err := f.keys.Do(t.Context(), request, f.create)
		if err != nil || outcome.Replayed {
			t.Errorf("the expired key: replayed %v, %v", outcome.Replayed, err)
		}
		renewed.Add(1)
	})
	close(start)
	all.Wait()
	// The expired record of the request went to the purge or to the request that used its key anew.
	if n := removed.Load(); n != 5000 && n != 5001 {
		t.Errorf("%d removed of 5001", n)
	}
	f.wantRows(2, 1)
}

// Case 7: a second before its expiry a key replays, a second after it is free, purged or not.
func TestKeyAroundItsExpiry(t *testing.T) {
	t.Parallel()
	for name, purged := range map[string]bool{"purged": true, "not purged": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			request := newRequest(t)
			first := f.do(request, f.create)
			// The distances are longer than the test: what it moves is the record, not the clock.
			f.exec(`UPDATE idempotency_requests SET expires_at = now() + interval '1 minute'`)
			if purged {
				f.purge()
			}
			if again := f.do(request, f.create); !again.Replayed || string(again.Body) != string(first.Body) {
				t.Errorf("before its expiry: %+v", again)
			}
			f.exec(`UPDATE idempotency_requests SET expires_at = now() - interval '1 second'`)
			if purged {
				f.purge()
			}
			if anew := f.do(request, f.create); anew.Replayed || string(anew.Body) == string(first.Body) {
				t.Errorf("after its expiry: %+v", anew)
			}
			f.wantRows(2, 1)
		})
	}
}

func (f *fixture) purge() {
	f.t.Helper()
	if _, err := f.purger().Purge(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// The background purge begins at once, and ends with its context.
func TestPurgerRunsUntilItIsStopped(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.records(10, "-1 second")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.purger().Run(ctx)
	}()
	f.poll("the purge", func() bool { return f.count("SELECT count(*) FROM idempotency_requests") == 0 })
	stop()
	<-done
	if _, err := f.purger().Purge(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped purge: %v", err)
	}
}
