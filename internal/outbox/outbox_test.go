package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

const patience = 30 * time.Second

// setup returns the pool that units run on and another session, which sees what is committed.
func setup(t *testing.T) (*postgres.DB, *pgx.Conn) {
	t.Helper()
	url := postgrestest.URL(t)
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: url, MaxConns: 4, Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	watch, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watch.Close(context.WithoutCancel(t.Context())) })
	return db, watch
}

func inTx(t *testing.T, db *postgres.DB, work func(context.Context, *postgres.Tx) error) error {
	t.Helper()
	return db.InTx(t.Context(), postgres.Unit{LockTimeout: patience}, work)
}

func event(payload any) outbox.Event {
	return outbox.Event{
		Tenant: uuid.New(), AggregateType: "thing", AggregateID: uuid.New(), Version: 7, Type: "test.thing.made.v1",
		Payload: payload, OccurredAt: time.Date(2026, 3, 29, 1, 30, 0, 123456000, time.UTC),
	}
}

func count(ctx context.Context, t *testing.T, watch *pgx.Conn) (n int) {
	t.Helper()
	if err := watch.QueryRow(ctx, "SELECT count(*) FROM outbox_events").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Promise 2, case 29: an event is there when its change is, and not one moment before.
func TestEventIsVisibleOnlyWithItsUnit(t *testing.T) {
	t.Parallel()
	db, watch := setup(t)
	broken := errors.New("broken")
	for _, ending := range []error{broken, nil} {
		err := inTx(t, db, func(ctx context.Context, tx *postgres.Tx) error {
			if _, err := tx.DB(ctx); err != nil {
				return err
			}
			for range 3 {
				if err := outbox.Add(ctx, tx, event("made")); err != nil {
					return err
				}
			}
			if n := count(ctx, t, watch); n != 0 {
				t.Errorf("%d events are visible before COMMIT", n)
			}
			return ending
		})
		if !errors.Is(err, ending) {
			t.Fatal(err)
		}
		if ending != nil && count(t.Context(), t, watch) != 0 {
			t.Error("an event of a unit that rolled back is visible")
		}
	}
	if n := count(t.Context(), t, watch); n != 3 {
		t.Errorf("%d events after COMMIT, want 3", n)
	}
}

// What Undo takes back has not happened, and nothing may speak of it.
func TestEventIsTakenBackWithItsChange(t *testing.T) {
	t.Parallel()
	db, watch := setup(t)
	err := inTx(t, db, func(ctx context.Context, tx *postgres.Tx) error {
		err := outbox.Add(ctx, tx, event("made"))
		tx.Undo()
		return err
	})
	if err != nil || count(t.Context(), t, watch) != 0 {
		t.Errorf("%v; %d events", err, count(t.Context(), t, watch))
	}
}

// Consumers get the bytes that were encoded here: no store in between sorts, rounds or respells them.
func TestPayloadIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	db, watch := setup(t)
	for name, payload := range map[string]any{
		"order of members": struct {
			B string      `json:"b"`
			A json.Number `json:"a"`
		}{"", "1.0"},
		"members twice":  json.RawMessage(`{"b":1,"a":2,"b":3}`),
		"big integers":   []int64{1<<53 + 1, 1<<63 - 1},
		"wide numbers":   json.RawMessage(`[1e400,0.10,-0]`),
		"escapes":        json.RawMessage(`"\u0000\u00e9\/<>&"`),
		"large":          strings.Repeat("é", 100_000),
		"null":           nil,
		"text of spaces": "  \n\t ",
	} {
		e := event(payload)
		if err := inTx(t, db, func(ctx context.Context, tx *postgres.Tx) error { return outbox.Add(ctx, tx, e) }); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, err := json.Marshal(payload)
		if err != nil {
			t.Fatal(err)
		}
		var kept string
		err = watch.QueryRow(t.Context(), "SELECT payload::text FROM outbox_events WHERE tenant_id = $1", e.Tenant).Scan(&kept)
		if err != nil || kept != string(want) {
			t.Errorf("%s: kept is %.100q, %v; want %.100q", name, kept, err, want)
		}
	}
}

func TestEventIsStoredAsItWasAdded(t *testing.T) {
	t.Parallel()
	db, watch := setup(t)
	want := event(map[string]int{"n": 1})
	err := inTx(t, db, func(ctx context.Context, tx *postgres.Tx) error {
		return errors.Join(outbox.Add(ctx, tx, want), outbox.Add(ctx, tx, want)) // the same fact twice is two events
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := watch.Query(t.Context(), "SELECT id, tenant_id, aggregate_type, aggregate_id, version, type, payload, occurred_at "+
		"FROM outbox_events ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var before uuid.UUID
	stored := 0
	for ; rows.Next(); stored++ {
		var id uuid.UUID
		got := outbox.Event{Payload: map[string]int{}}
		err := rows.Scan(&id, &got.Tenant, &got.AggregateType, &got.AggregateID, &got.Version, &got.Type, &got.Payload, &got.OccurredAt)
		if err != nil {
			t.Fatal(err)
		}
		got.Payload, got.OccurredAt = map[string]int{"n": int(got.Payload.(map[string]any)["n"].(float64))}, got.OccurredAt.UTC()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("stored differs (-added +stored)\n%s", diff)
		}
		if id.Version() != 7 || id == before {
			t.Errorf("the id is %v", id)
		}
		before = id
	}
	if err := rows.Err(); err != nil || stored != 2 {
		t.Errorf("%d events, %v", stored, err)
	}
}

// An event that cannot be encoded fails its unit; a change without its event would never be spoken of.
func TestPayloadThatIsNoJSONIsAnError(t *testing.T) {
	t.Parallel()
	db, watch := setup(t)
	for _, payload := range []any{make(chan int), json.RawMessage("{"), func() {}} {
		if err := inTx(t, db, func(ctx context.Context, tx *postgres.Tx) error { return outbox.Add(ctx, tx, event(payload)) }); err == nil {
			t.Errorf("%T is taken", payload)
		}
	}
	if n := count(t.Context(), t, watch); n != 0 {
		t.Errorf("%d events", n)
	}
}
