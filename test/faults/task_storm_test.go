package faults

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/faultpoint"
	"orderonce/test/shop"
)

var taskKills = flag.Int("task-kills", 24, "how many workers TestManyTasksSurviveRandomKills kills or stops")

// 500 tasks on 8 workers that are killed at any time, or stopped past their leases and let go on: all tasks end, and what
// each was to do is done once.
//
//	go test ./test/faults -run TestManyTasks -task-kills 200 -timeout 20m -v
func TestManyTasksSurviveRandomKills(t *testing.T) {
	t.Parallel()
	const tasks, workers = 500, 8
	s := shop.Open(t)
	server, w := s.Serve(t, shop.Options{}), watchTasks(t, s)
	for i := range tasks {
		accept(t, server, orderoncetest.NewKey(), importLines(fmt.Sprint("task", i), 2))
	}
	ctx, stop := context.WithCancel(t.Context())
	var left, stopped atomic.Int64
	left.Store(int64(*taskKills))
	var lives sync.WaitGroup
	for range workers {
		lives.Go(func() {
			for ctx.Err() == nil {
				doomed := left.Add(-1) >= 0
				var o shop.Options
				if doomed && rand.N(2) == 0 {
					points := []faultpoint.Point{
						faultpoint.TaskTaken, faultpoint.TaskWritten, faultpoint.TaskEnding, faultpoint.AfterClaim, faultpoint.AfterCommit,
					}
					o.Faults = []string{fmt.Sprintf("%s=kill@%d", points[rand.N(len(points))], 1+rand.N(30))}
				}
				worker := s.Work(t, o)
				life := time.Hour
				if doomed {
					life = 200*time.Millisecond + rand.N(1500*time.Millisecond)
				}
				if doomed && o.Faults == nil && rand.N(2) == 0 {
					// Stopped for longer than its lease, and let go on in the middle of the others' work.
					orderoncetest.Pause(ctx, rand.N(life))
					worker.Signal(t, syscall.SIGSTOP)
					w.endLeases(worker) //nolint:contextcheck // after the end as well
					stopped.Add(1)
					orderoncetest.Pause(ctx, rand.N(time.Second))
					worker.Signal(t, syscall.SIGCONT)
				}
				timer := time.NewTimer(life)
				select {
				case <-timer.C:
				case <-worker.Ended():
				case <-ctx.Done():
				}
				timer.Stop()
				worker.Kill()
				w.endLeases(worker) //nolint:contextcheck // after the end as well: what was killed may hold a task
			}
		})
	}
	orderoncetest.Poll(t, "all kills", func() bool { return left.Load() <= 0 || t.Failed() })
	unfinished := func() int { return w.count("SELECT count(*) FROM tasks WHERE state <> 'succeeded'") }
	for n := unfinished(); n > 0; { // in parts: a slow machine has time for each of them, not for all
		before := n
		orderoncetest.Poll(t, "some more tasks to end", func() bool { n = unfinished(); return n < before })
	}
	stop()
	lives.Wait()
	provoked(t, "kill -9 worker at any time of a task", *taskKills)
	for what, got := range map[string]int{
		"tasks that succeeded": w.count("SELECT count(*) FROM tasks WHERE state = 'succeeded' AND succeeded = 2 AND rejected = 0") * 2,
		"orders":               w.count("SELECT count(*) FROM orders"),
		"names of orders":      w.count("SELECT count(DISTINCT client_order_id) FROM orders"),
		"created events":       w.count("SELECT count(*) FROM outbox_events WHERE type = 'orderonce.order.created.v1'"),
		"rows":                 w.count("SELECT count(*) FROM import_rows r JOIN orders o ON o.id = r.order_id AND o.client_order_id = r.client_order_id"),
	} {
		if got != tasks*2 {
			t.Errorf("%d %s, want %d", got, what, tasks*2)
		}
	}
	t.Logf("%d stopped; %d takeovers, %d fenced writes, up to %d takings of a task", stopped.Load(),
		w.count("SELECT sum(takeovers) FROM tasks"), w.count("SELECT sum(fenced_writes) FROM tasks"), w.count("SELECT max(attempt_token) FROM tasks"))
}
