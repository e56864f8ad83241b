package postgres

import (
	"slices"
	"sync"
	"sync/atomic"
)

// watchers are told of commits. Nobody watching costs a commit one load from memory.
type watchers struct {
	mu   sync.Mutex
	list atomic.Pointer[[]watcher]
}

type watcher struct {
	kind *Kind
	call func()
}

// OnCommit calls watch after each commit of this pool that wrote a row of the kind, once for all its rows and for all
// units that shared it. It is a hint, for whoever would otherwise find the rows by polling: a commit whose outcome
// nobody heard, and those of other processes, pass without it. watch is called by whoever committed, who waits for it.
func (db *DB) OnCommit(kind *Kind, watch func()) {
	db.watchers.mu.Lock()
	defer db.watchers.mu.Unlock()
	list := append(slices.Clone(db.watchers.all()), watcher{kind, watch})
	db.watchers.list.Store(&list)
}

// Wrote says that the work wrote rows of the kind by statements of its own, for who watches them with OnCommit. What is
// staged says so by itself.
func (tx *Tx) Wrote(kind *Kind) { tx.wrote = append(tx.wrote, kind) }

func (w *watchers) all() []watcher {
	if list := w.list.Load(); list != nil {
		return *list
	}
	return nil
}

// tell calls those who watch a kind that was written.
func (w *watchers) tell(written func(*Kind) bool) {
	for _, one := range w.all() {
		if written(one.kind) {
			one.call()
		}
	}
}

// written says whether the unit wrote a row of the kind.
func (tx *Tx) written(kind *Kind) bool {
	return slices.Contains(tx.wrote, kind) || slices.ContainsFunc(tx.rows, func(row Staged) bool { return row.Kind == kind })
}
