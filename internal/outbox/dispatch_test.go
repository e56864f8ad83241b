package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

// desk is a database with a table of what was handed out: what a dispatcher's transaction leaves.
type desk struct {
	t     *testing.T
	url   string
	db    *postgres.DB
	watch *pgx.Conn

	mu   sync.Mutex
	said strings.Builder // the log
}

func setupDesk(t *testing.T) *desk {
	t.Helper()
	url := postgrestest.URL(t)
	d := &desk{t: t, url: url, db: openWorkers(t, url)}
	d.watch = d.session()
	d.exec(`CREATE TABLE handed (came bigserial, event_id uuid PRIMARY KEY, aggregate_id uuid NOT NULL, version bigint NOT NULL)`)
	d.exec("GRANT ALL ON handed, handed_came_seq TO orderonce_worker")
	return d
}

func openWorkers(t *testing.T, url string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: url, Role: postgres.Worker, MaxConns: 4, Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func (d *desk) session() *pgx.Conn {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), d.url)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(d.t.Context())) })
	return conn
}

func (d *desk) exec(sql string, args ...any) {
	d.t.Helper()
	if _, err := d.watch.Exec(d.t.Context(), sql, args...); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) count(sql string, args ...any) (n int) {
	d.t.Helper()
	if err := d.watch.QueryRow(d.t.Context(), sql, args...).Scan(&n); err != nil {
		d.t.Fatal(err)
	}
	return n
}

// handOut notes each event. One that came twice, or before its predecessor, fails its batch for ever.
func handOut(ctx context.Context, tx *postgres.Tx, events []outbox.Recorded) error {
	db, err := tx.DB(ctx)
	if err != nil {
		return err
	}
	for _, e := range events {
		tag, err := db.Exec(ctx, `INSERT INTO handed (event_id, aggregate_id, version)
			SELECT $1::uuid, $2::uuid, $3::bigint WHERE $3 = 1 OR EXISTS (SELECT FROM handed WHERE aggregate_id = $2 AND version = $3 - 1)`,
			e.ID, e.AggregateID, e.Version)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return fmt.Errorf("version %d comes before its predecessor", e.Version)
		}
	}
	return nil
}

// Write takes the log's lines.
func (d *desk) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.Write(line)
}

func (d *desk) log() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.String()[max(0, d.said.Len()-4096):]
}

func (d *desk) dispatcher(db *postgres.DB, fanOut outbox.FanOut) *outbox.Dispatcher {
	return outbox.NewDispatcher(db, fanOut, slog.New(slog.NewTextHandler(d, nil)))
}

// run runs the dispatchers until the test ends.
func (d *desk) run(dispatchers ...*outbox.Dispatcher) {
	ctx, cancel := context.WithCancel(d.t.Context())
	var all sync.WaitGroup
	for _, one := range dispatchers {
		all.Go(func() { one.Run(ctx) })
	}
	d.t.Cleanup(func() {
		cancel()
		all.Wait()
	})
}

func (d *desk) poll(what string, reached func() bool) {
	d.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !reached() {
		select {
		case <-tick.C:
		case <-late:
			d.t.Fatalf("waited in vain for %s\n%s", what, d.log())
		}
	}
}

// wantAll waits until all events are dispatched, and checks that each was handed out once.
func (d *desk) wantAll() {
	d.t.Helper()
	d.poll("all events to be dispatched", func() bool {
		return d.count("SELECT count(*) FROM outbox_events WHERE dispatched_at IS NULL") == 0
	})
	events := d.count("SELECT count(*) FROM outbox_events")
	pairs := d.count("SELECT count(*) FROM outbox_events e JOIN handed h ON h.event_id = e.id")
	if handed := d.count("SELECT count(*) FROM handed"); handed != events || pairs != events {
		d.t.Errorf("%d events, %d handed out, %d pairs", events, handed, pairs)
	}
}

// versions adds the first n events of an aggregate.
func (d *desk) versions(aggregate uuid.UUID, n int) {
	d.t.Helper()
	d.exec(`INSERT INTO outbox_events (tenant_id, id, aggregate_type, aggregate_id, version, type, payload, occurred_at)
		SELECT $1, gen_random_uuid(), 'thing', $1, v, 'test.thing.made.v1', '{}', now() FROM generate_series(1, $2) AS v`, aggregate, n)
}

// aggregate is the n-th one in the order in which dispatchers walk.
func aggregate(n int) (id uuid.UUID) {
	copy(id[:], fmt.Sprintf("%016d", n))
	return id
}

// Case 28: what commits late lies before what was dispatched already, by its id, its aggregate and its time. It is
// dispatched all the same.
func TestLateCommitIsDispatched(t *testing.T) {
	t.Parallel()
	d := setupDesk(t)
	d.run(d.dispatcher(d.db, handOut))
	late, err := d.session().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = late.Exec(t.Context(), `INSERT INTO outbox_events (tenant_id, id, aggregate_type, aggregate_id, version, type, payload, occurred_at)
		VALUES ($1, $1, 'thing', $1, 1, 'test.thing.made.v1', '{}', now() - interval '1 hour')`, aggregate(1))
	if err != nil {
		t.Fatal(err)
	}
	d.versions(aggregate(2), 1)
	d.wantAll()
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.wantAll()
	if n := d.count("SELECT count(*) FROM handed"); n != 2 {
		t.Errorf("%d of 2 events were handed out", n)
	}
}

// Any number of dispatchers: each event goes once, and after its predecessor.
func TestDispatchersShareTheWork(t *testing.T) {
	t.Parallel()
	d := setupDesk(t)
	var dispatchers []*outbox.Dispatcher
	for range 4 {
		db := openWorkers(t, d.url)
		for range 2 {
			one := d.dispatcher(db, handOut)
			one.Small(7) // so that one aggregate's versions are in many batches
			dispatchers = append(dispatchers, one)
		}
	}
	for n := range 20 {
		d.versions(aggregate(n), 25)
	}
	d.run(dispatchers...)
	d.versions(aggregate(100), 200)
	d.wantAll()
	if d.log() != "" {
		t.Error(d.log())
	}
}

// While another one holds version 1, its successors stay, and nothing else does.
func TestVersionWaitsForItsPredecessor(t *testing.T) {
	t.Parallel()
	d := setupDesk(t)
	d.versions(aggregate(1), 3)
	holder, err := d.session().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "SELECT FROM outbox_events WHERE version = 1 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	d.versions(aggregate(2), 3)
	d.run(d.dispatcher(d.db, handOut))
	d.poll("the other aggregate", func() bool { return d.count("SELECT count(*) FROM handed") == 3 })
	d.versions(aggregate(0), 2) // once this is there, aggregate 1 has been passed by again
	d.poll("the aggregate before", func() bool { return d.count("SELECT count(*) FROM handed") == 5 })
	if n := d.count("SELECT count(*) FROM handed WHERE aggregate_id = $1", aggregate(1)); n != 0 {
		t.Errorf("%d versions have overtaken the first", n)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.wantAll()
}

// One event that nothing can be made of, by an error or by a panic, holds up its own aggregate and nobody else's, and
// goes as soon as it can.
func TestPoisonedEventHoldsUpItsAggregateAlone(t *testing.T) {
	t.Parallel()
	for name, poison := range map[string]func() error{
		"an error": func() error { return errors.New("no plan") },
		"a panic":  func() error { panic("no plan") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setupDesk(t)
			var mu sync.Mutex
			cured := false
			for n := range 40 {
				d.versions(aggregate(n), 3)
			}
			d.run(d.dispatcher(d.db, func(ctx context.Context, tx *postgres.Tx, events []outbox.Recorded) error {
				mu.Lock()
				defer mu.Unlock()
				for _, e := range events {
					if !cured && e.AggregateID == aggregate(17) && e.Version == 2 {
						return poison()
					}
				}
				return handOut(ctx, tx, events)
			}))
			d.poll("the others", func() bool { return d.count("SELECT count(*) FROM handed") == 39*3+1 })
			if n := d.count("SELECT count(*) FROM handed WHERE aggregate_id = $1 AND version > 1", aggregate(17)); n != 0 {
				t.Errorf("%d versions have overtaken the poisoned one", n)
			}
			for _, want := range []string{"event cannot be dispatched", "no plan", aggregate(17).String(), "version=2"} {
				if !strings.Contains(d.log(), want) {
					t.Errorf("the log does not say %q:\n%s", want, d.log())
				}
			}
			mu.Lock()
			cured = true
			mu.Unlock()
			d.wantAll()
		})
	}
}

// More poisoned events than a batch holds, in front of all others: the dispatcher walks on past them.
func TestManyPoisonedEventsAreWalkedPast(t *testing.T) {
	t.Parallel()
	d := setupDesk(t)
	for n := range 30 {
		d.versions(aggregate(n), 1)
	}
	one := d.dispatcher(d.db, func(ctx context.Context, tx *postgres.Tx, events []outbox.Recorded) error {
		for _, e := range events {
			if e.AggregateID.String() < aggregate(30).String() {
				return errors.New("no plan")
			}
		}
		return handOut(ctx, tx, events)
	})
	one.Small(8)
	d.run(one)
	for n := range 10 {
		d.versions(aggregate(30+n), 2)
	}
	d.poll("the others", func() bool { return d.count("SELECT count(*) FROM handed") == 20 })
}

// Between polls it is the commit that wakes the dispatcher, of its own pool or of another one of the process.
func TestCommitWakesTheDispatcher(t *testing.T) {
	t.Parallel()
	d := setupDesk(t)
	requests, err := postgres.Open(t.Context(), postgres.Config{
		URL: d.url, MaxConns: 4, SharedCommits: 1, Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(requests.Close)
	one := d.dispatcher(d.db, handOut)
	one.Sleepy()
	one.Watch(requests)
	d.run(one)
	for _, db := range []*postgres.DB{requests, d.db} {
		e := event("made")
		e.Version = 1
		if err := inTx(t, db, func(ctx context.Context, tx *postgres.Tx) error { return outbox.Add(ctx, tx, e) }); err != nil {
			t.Fatal(err)
		}
		d.wantAll()
	}
}

// The connection is cut while the batch's COMMIT is under way, and it has arrived or not: each event goes once.
func TestCommitOfABatchIsCut(t *testing.T) {
	t.Parallel()
	for name, fate := range map[string]postgrestest.Fate{"lost": postgrestest.Lost, "arrived": postgrestest.Unanswered} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setupDesk(t)
			proxy, through := postgrestest.ThroughProxy(t, d.url)
			d.versions(aggregate(1), 10)
			d.versions(aggregate(2), 10)
			cut := sync.OnceFunc(func() { proxy.AtCommit(fate) })
			d.run(d.dispatcher(openWorkers(t, through), func(ctx context.Context, tx *postgres.Tx, events []outbox.Recorded) error {
				defer cut()
				return handOut(ctx, tx, events)
			}))
			d.wantAll()
			if n := d.count("SELECT count(*) FROM handed"); n != 20 || !strings.Contains(d.log(), "outcome unknown") {
				t.Errorf("%d of 20 were handed out\n%s", n, d.log())
			}
		})
	}
}

// What FanOut reads in its transaction says that its events have gone, so that what it decides is what others will see.
func TestFanOutSeesItsEventsAsDispatched(t *testing.T) {
	t.Parallel()
	d := setupDesk(t)
	d.versions(aggregate(1), 1)
	d.versions(aggregate(2), 1)
	seen := make(chan [2]bool, 1)
	one := d.dispatcher(d.db, func(ctx context.Context, tx *postgres.Tx, events []outbox.Recorded) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		var waits [2]bool
		for i := range waits {
			id := aggregate(1 + i)
			if waits[i], err = outbox.Waiting(ctx, db, id, id); err != nil {
				return err
			}
		}
		select {
		case seen <- waits:
		default:
		}
		return handOut(ctx, tx, events)
	})
	one.Small(1)
	d.run(one)
	d.wantAll()
	if diff := cmp.Diff([2]bool{false, true}, <-seen); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Pruning takes what was dispatched before the retention, and nothing else: an event that waits stays for ever.
func TestPruningTakesWhatWasDispatchedLongAgo(t *testing.T) {
	t.Parallel()
	d := setupDesk(t)
	d.versions(aggregate(1), 1500)
	d.exec("UPDATE outbox_events SET dispatched_at = now() - interval '8 days'")
	d.versions(aggregate(2), 300)
	d.exec("UPDATE outbox_events SET dispatched_at = now() - interval '6 days' WHERE aggregate_id = $1", aggregate(2))
	d.versions(aggregate(3), 20)
	d.exec("UPDATE outbox_events SET occurred_at = now() - interval '1 year'")
	var removed [3]int64
	var all sync.WaitGroup
	for i := range removed {
		all.Go(func() {
			var err error
			pruning := outbox.Pruning(d.db, 7*24*time.Hour, slog.New(slog.NewTextHandler(d, nil)))
			if removed[i], _, err = pruning.All(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if sum := removed[0] + removed[1] + removed[2]; sum != 1500 {
		t.Errorf("removed %v, want 1500 in all", removed)
	}
	if n := d.count("SELECT count(*) FROM outbox_events"); n != 320 {
		t.Errorf("%d are left, want the 300 of this week and the 20 that wait", n)
	}
}
