package postgres

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
)

type passenger struct{ place }

// However leaders meet, each batch is counted in and out once: a count that drifts would let more batches be under way
// than there may be, or, once it is below nothing, let the next one who comes alone wait for a leader that never comes.
func TestQueueCountsItsBatches(t *testing.T) {
	t.Parallel()
	const limit = 2
	var underWay, most atomic.Int32
	q := queue[*passenger]{limit: limit, size: 4, crowd: 2, do: func(batch []*passenger) {
		n := underWay.Add(1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		runtime.Gosched()
		settle(batch, nil)
		underWay.Add(-1)
	}}
	patient, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 200 {
		start := make(chan struct{})
		var crowd sync.WaitGroup
		for range 8 {
			crowd.Go(func() {
				<-start
				for range 10 {
					if err := q.join(patient, &passenger{newPlace(uuid.Nil)}); err != nil {
						t.Errorf("of a crowd, one was not served: %v", err)
					}
				}
			})
		}
		close(start)
		crowd.Wait()
		if err := q.join(patient, &passenger{newPlace(uuid.Nil)}); err != nil {
			t.Fatalf("who came alone after a crowd was not served: %v", err)
		}
	}
	if n := most.Load(); n > limit {
		t.Errorf("%d batches were under way at once, want %d at most", n, limit)
	}
}
