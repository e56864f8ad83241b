package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"
)

// opKey is what a service knows an operation by.
type opKey struct{ service, key string }

func (k opKey) bytes() []byte { return []byte(k.service + "\x00" + k.key) }

// Operation is what a service knows of one key.
type Operation struct {
	Service        string `json:"service"`
	Operation      string `json:"operation"`
	TenantID       string `json:"tenant_id,omitempty"` // the caller's own word, given back
	OrderID        string `json:"order_id"`
	IdempotencyKey string `json:"idempotency_key"`
	Outcome        string `json:"outcome,omitempty"` // executed, declined, or nothing yet
	// Executions is how often the work was really done, Requests how often it was asked for.
	Executions int       `json:"executions"`
	Requests   int       `json:"requests"`
	Reference  string    `json:"reference,omitempty"` // the service's own name for it
	Detail     string    `json:"detail,omitempty"`    // why it was declined
	Remembered time.Time `json:"remembered_until,omitzero"`
	ChangedAt  time.Time `json:"changed_at"`          // of the outcome, or of the first request
	Body       []byte    `json:"body_hash,omitempty"` // SHA-256 of the request that the outcome belongs to
	Place      []byte    `json:"place,omitempty"`     // in the journal
}

const (
	executed = "executed"
	declined = "declined"
)

// The buckets: operations by opKey; the journal leads from (time, number) to the opKey that changed then; standing
// counts executions by service, order and operation; clock holds how far the clock was moved.
var (
	operationsBucket = []byte("operations")
	journalBucket    = []byte("journal")
	standingBucket   = []byte("standing")
	clockBucket      = []byte("clock")
)

var advanceKey = []byte("advance")

// store keeps everything in one file. A batch of requests shares a transaction and its fsync, so that a change is on
// the disk before it is answered, at a bearable price.
type store struct {
	db *bbolt.DB

	mu       sync.Mutex
	advanced time.Duration
}

// batchDelay is how long a request waits for others to share the fsync with.
const batchDelay = 2 * time.Millisecond

func openStore(dir string, noSync bool) (*store, error) {
	// What it makes on the way there may be on PostgreSQL's way too, who is another user.
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the file below is its owner's alone
		return nil, err
	}
	db, err := bbolt.Open(filepath.Join(dir, "sandbox.db"), 0o600, &bbolt.Options{
		Timeout: 5 * time.Second, // another sandbox holds it
		NoSync:  noSync, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
	})
	if err != nil {
		return nil, err
	}
	db.MaxBatchDelay = batchDelay
	s := &store{db: db}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{operationsBucket, journalBucket, standingBucket, clockBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		if moved := tx.Bucket(clockBucket).Get(advanceKey); moved != nil {
			s.advanced = time.Duration(binary.BigEndian.Uint64(moved)) //nolint:gosec // as it was written
		}
		return nil
	})
	if err != nil {
		_ = db.Close() // the first error says what is wrong
		return nil, err
	}
	return s, nil
}

func (s *store) close() error { return s.db.Close() }

// now is the services' time.
func (s *store) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.advanced).UTC()
}

// advance moves the clock, for ever.
func (s *store) advance(by time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.db.Update(func(tx *bbolt.Tx) error {
		//nolint:gosec // never negative
		return tx.Bucket(clockBucket).Put(advanceKey, binary.BigEndian.AppendUint64(nil, uint64(s.advanced+by)))
	})
	if err == nil {
		s.advanced += by
	}
	return err
}

// change loads a key's operation, or a new one, lets do change it, and stores it. do may run several times before one
// of its changes is kept. Where it gives the operation an outcome, that one takes the last place of the journal.
func (s *store) change(k opKey, do func(tx *bbolt.Tx, now time.Time, o *Operation) error) (o Operation, err error) {
	err = s.db.Batch(func(tx *bbolt.Tx) error {
		now := s.now()
		o = Operation{Service: k.service, IdempotencyKey: k.key}
		bucket := tx.Bucket(operationsBucket)
		if kept := bucket.Get(k.bytes()); kept != nil {
			if err := json.Unmarshal(kept, &o); err != nil {
				return fmt.Errorf("decode operation %s: %w", k.key, err)
			}
		}
		before := o
		if err := do(tx, now, &o); err != nil {
			return err
		}
		if o.Place == nil || o.Executions != before.Executions || o.Outcome != before.Outcome {
			if err := enter(tx, now, k, &o); err != nil {
				return err
			}
		}
		if o.Executions > before.Executions {
			if err := stand(tx, o); err != nil {
				return err
			}
		}
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		return bucket.Put(k.bytes(), text)
	})
	return o, err
}

// enter moves the operation to the end of the journal, whose times never go back.
func enter(tx *bbolt.Tx, now time.Time, k opKey, o *Operation) error {
	journal := tx.Bucket(journalBucket)
	if o.Place != nil {
		if err := journal.Delete(o.Place); err != nil {
			return err
		}
	}
	if last, _ := journal.Cursor().Last(); last != nil && placeTime(last).After(now) {
		now = placeTime(last)
	}
	number, err := journal.NextSequence()
	if err != nil {
		return err
	}
	o.ChangedAt = now
	o.Place = binary.BigEndian.AppendUint64(placeAt(now), number)
	return journal.Put(o.Place, k.bytes())
}

func placeAt(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(t.UnixNano())) }

func placeTime(place []byte) time.Time {
	return time.Unix(0, int64(binary.BigEndian.Uint64(place))).UTC() //nolint:gosec // as it was written
}

func standingKey(service, order, operation string) []byte {
	return []byte(service + "\x00" + order + "\x00" + operation)
}

func stand(tx *bbolt.Tx, o Operation) error {
	return tx.Bucket(standingBucket).Put(standingKey(o.Service, o.OrderID, o.Operation), []byte{1})
}

// stands says whether the operation was ever executed for the order, under whatever key.
func stands(tx *bbolt.Tx, service, order, operation string) bool {
	return tx.Bucket(standingBucket).Get(standingKey(service, order, operation)) != nil
}

// read returns what is known of a key.
func (s *store) read(k opKey) (o Operation, found bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		kept := tx.Bucket(operationsBucket).Get(k.bytes())
		if found = kept != nil; !found {
			return nil
		}
		return json.Unmarshal(kept, &o)
	})
	return o, found, err
}

// list returns up to limit operations from a place of the journal on, oldest change first, and the place to go on
// from; nil where there is no more.
func (s *store) list(from []byte, limit int, want func(Operation) bool) (found []Operation, next []byte, err error) {
	found = []Operation{}
	err = s.db.View(func(tx *bbolt.Tx) error {
		operations, cursor := tx.Bucket(operationsBucket), tx.Bucket(journalBucket).Cursor()
		for place, key := cursor.Seek(from); place != nil; place, key = cursor.Next() {
			var o Operation
			if err := json.Unmarshal(operations.Get(key), &o); err != nil {
				return fmt.Errorf("decode operation %q: %w", key, err)
			}
			if !want(o) {
				continue
			}
			if len(found) == limit {
				next = append(next, place...)
				return nil
			}
			found = append(found, o)
		}
		return nil
	})
	return found, next, err
}
