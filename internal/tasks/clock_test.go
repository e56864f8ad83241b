package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"orderonce/internal/postgres/postgrestest"
	"orderonce/internal/tasks"
)

// skewed is a database whose clock is apart from this process's.
func skewed(t *testing.T, by string) string {
	t.Helper()
	url := postgrestest.URL(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range []string{
		"CREATE SCHEMA skewed",
		"GRANT USAGE ON SCHEMA skewed TO PUBLIC",
		fmt.Sprintf("CREATE FUNCTION skewed.now() RETURNS timestamptz STABLE LANGUAGE sql AS $$ SELECT pg_catalog.now() + interval '%s' $$", by),
		"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = skewed, pg_catalog, public', current_database()); END $$",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return url
}

// Case 33. Ten minutes between a worker's clock and the database's, either way: nothing is taken early, nothing is lost, and
// nobody is fenced who owns its task.
func TestWorkersClockDecidesNothing(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]string{"the worker is late": "10 minutes", "the worker is ahead": "-10 minutes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setupOn(t, time.Minute, skewed(t, by))
			if off := f.count("SELECT abs(extract(epoch FROM now() - pg_catalog.now()))::integer"); off != 600 {
				t.Fatalf("the clocks are %d seconds apart", off)
			}
			task := f.task(2)
			first, second := f.worker("first"), f.worker("second")
			owned := f.take(first)
			f.wantNoTask(second)
			if left := f.now(task).LeaseLeft(); left < 50*time.Second || left > time.Minute {
				t.Errorf("%s are left of a lease of a minute", left)
			}
			f.must(countOne(t.Context(), owned))
			f.must(owned.Heartbeat(t.Context()))
			f.wantNoTask(second)
			f.must(owned.Finish(t.Context(), tasks.Wait(time.Hour, false)))
			f.wantNoTask(second) // not due
			f.exec("UPDATE tasks SET due_at = now()")
			other := f.take(second)
			f.must(countOne(t.Context(), other))
			f.must(other.Finish(t.Context(), tasks.Done()))
			f.wantCounted(task, 2)
			if now := f.now(task); now.State != tasks.Succeeded || now.Token != 2 || now.Takeovers != 0 || now.FencedWrites != 0 {
				t.Errorf("%+v", now)
			}
			f.must(f.find(task))
		})
	}
}

// And by the code: nothing here asks what time of day it is but to write it down for people. Durations are measured on
// the monotonic clock.
func TestNoWallClockIsAsked(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{".", "../imports"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				monotonic := strings.Contains(line, "began := time.Now()") || strings.Contains(line, "taken: time.Now()")
				written := strings.Contains(line, "now := time.Now().UTC().Truncate(time.Microsecond) // for people")
				if strings.Contains(line, "time.Now()") && !monotonic && !written {
					t.Errorf("%s:%d asks for the time: %s", file, i+1, line)
				}
				for _, compares := range []string{"time.Until(", ".Unix(", "WithDeadline("} {
					if strings.Contains(line, compares) {
						t.Errorf("%s:%d: %s", file, i+1, line)
					}
				}
			}
		}
	}
}

// The margin by which a process stops before its lease ends is a part of the lease, so that there is time to work in.
func TestWorkStopsAMomentBeforeTheLeaseEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ lease, ago, want time.Duration }{
		{30 * time.Second, 0, 29 * time.Second},
		{30 * time.Second, 10 * time.Second, 19 * time.Second},
		{2 * time.Second, 0, 1500 * time.Millisecond},
		{30 * time.Second, time.Minute, -31 * time.Second},
	} {
		if got := tasks.LocalEnd(c.lease, c.ago); got != c.want {
			t.Errorf("a lease of %s, %s ago: %s left, want %s", c.lease, c.ago, got, c.want)
		}
	}
}

// Case 34: work of ten lease lengths. Its heartbeats keep it, and it is done once, by one taking.
func TestTaskOfTenLeasesRunsOnce(t *testing.T) {
	t.Parallel()
	f := setupWith(t, 600*time.Millisecond)
	task := f.task(1)
	kind := f.kind()
	started := make(chan struct{}, 10)
	kind.Step = func(ctx context.Context, owned *tasks.Owned) (tasks.Next, error) {
		if owned.Checkpoint == 1 {
			return tasks.Done(), nil
		}
		started <- struct{}{}
		timer := time.NewTimer(10 * f.policy.Task.Lease)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return tasks.GoOn(), countOne(ctx, owned)
	}
	stop := f.start(f.worker("one", kind), f.worker("two", kind), f.worker("three", kind))
	f.poll("the end", func() bool { return f.now(task).State == tasks.Succeeded })
	stop()
	f.wantCounted(task, 1)
	if now := f.now(task); now.Token != 1 || now.Takeovers != 0 || len(started) != 1 {
		t.Errorf("started %d times; %+v", len(started), now)
	}
}

// Case 35: a worker that is gone leaves a lease behind that ends by itself; nobody has to come and clean up.
func TestLeaseOfADeadWorkerEndsByItself(t *testing.T) {
	t.Parallel()
	f := setupWith(t, 500*time.Millisecond)
	task := f.task(2)
	dead := f.take(f.worker("dead")) // it lengthens nothing
	f.must(countOne(t.Context(), dead))
	stop := f.start(f.worker("alive"))
	f.poll("the end", func() bool { return f.now(task).State == tasks.Succeeded })
	stop()
	f.wantCounted(task, 2)
	if now := f.now(task); now.Token != 2 || now.Takeovers != 1 {
		t.Errorf("%+v", now)
	}
	if err := countOne(t.Context(), dead); !errors.Is(err, tasks.ErrFenced) {
		t.Errorf("the dead worker's write: %v", err)
	}
}
