package main

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/effects/cloudevents"
	"orderonce/internal/effects/webhooks"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

const patience = 30 * time.Second

// The example as it is copied: real deliveries, sent side by side, again after an answer that got lost, out of order, and
// with a signature of somebody else's.
func TestConsumerCountsEachEventOnce(t *testing.T) {
	t.Parallel()
	db := openOurs(t)
	tenant := uuid.Must(uuid.NewV7())
	var lost atomic.Bool
	var hooked atomic.Pointer[consumer]
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lost.Load() { // its work is committed, and its answer never arrives
			hooked.Load().ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		hooked.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(receiver.Close)
	guard := webhooks.Guard{AllowPrivate: true}
	var secret string
	err := db.InTx(t.Context(), postgres.Unit{LockTimeout: patience}, func(ctx context.Context, tx *postgres.Tx) (err error) {
		_, secret, err = webhooks.Create(ctx, tx, guard, tenant, webhooks.Draft{Name: "revenue", URL: receiver.URL})
		return err
	})
	must(t, err)
	theirs, err := sql.Open("pgx", postgrestest.EmptyURL(t))
	must(t, err)
	t.Cleanup(func() { must(t, theirs.Close()) })
	c, err := newConsumer(t.Context(), theirs, secret)
	must(t, err)
	hooked.Store(c)

	deliveries := webhooks.New(db, webhooks.Config{
		Guard: guard, Source: cloudevents.DefaultSource, Timeout: patience, Concurrency: 4,
	}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	t.Cleanup(deliveries.Close)
	d := deliveries.Destination()
	order := uuid.Must(uuid.NewV7())
	var all []effects.Effect
	err = db.InTx(t.Context(), postgres.Unit{LockTimeout: patience}, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		var events []outbox.Recorded
		for i, e := range []struct{ kind, data string }{
			{"orderonce.order.created.v1", `{"status":"pending","total_minor":100}`},
			{"orderonce.order.confirmed.v1", `{"status":"confirmed","total_minor":100}`},
		} {
			events = append(events, outbox.Recorded{
				Tenant: tenant, ID: uuid.Must(uuid.NewV7()), AggregateType: "order", AggregateID: order, Version: int64(i + 1),
				Type: e.kind, Payload: []byte(e.data), OccurredAt: time.Now(),
			})
		}
		calls, err := d.Plan(ctx, db, events)
		for _, c := range calls {
			all = append(all, effects.Effect{
				Tenant: c.Tenant, Identity: effects.Identity{Order: c.Order, Destination: webhooks.Name, Lane: c.Lane, Operation: c.Operation},
				Event: c.Event, Version: c.Version, Request: c.Request, State: effects.InFlight,
			})
		}
		return err
	})
	must(t, err)
	created, confirmed := all[0], all[1]

	lost.Store(true)
	if got := d.Send(t.Context(), confirmed); got.Verdict != effects.Ambiguous {
		t.Errorf("an answer that got lost: %+v", got)
	}
	lost.Store(false)
	barrier, ended := make(chan struct{}), sync.WaitGroup{}
	for range 4 {
		ended.Go(func() {
			<-barrier
			if got := d.Send(t.Context(), confirmed); got.Verdict != effects.Done {
				t.Errorf("again: %+v", got)
			}
		})
	}
	close(barrier)
	ended.Wait()
	if got := d.Send(t.Context(), created); got.Verdict != effects.Done { // after the newer one
		t.Errorf("%+v", got)
	}
	forged, err := newConsumer(t.Context(), theirs, "whsec_"+"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	must(t, err)
	hooked.Store(forged)
	if got := d.Send(t.Context(), created); got.Status != http.StatusUnauthorized {
		t.Errorf("a signature of another secret: %+v", got)
	}

	var confirmations, inbox int
	var status string
	must(t, theirs.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM confirmations), (SELECT count(*) FROM inbox), status FROM revenue").
		Scan(&confirmations, &inbox, &status))
	if confirmations != 1 || inbox != 2 || status != "confirmed" {
		t.Errorf("%d confirmations, %d lines in the inbox, the order is %s", confirmations, inbox, status)
	}
	_, err = theirs.ExecContext(t.Context(), "UPDATE inbox SET received_at = now() - interval '9 days'")
	must(t, err)
	must(t, c.forget(t.Context()))
	must(t, theirs.QueryRowContext(t.Context(), "SELECT count(*) FROM inbox").Scan(&inbox))
	if inbox != 0 {
		t.Errorf("%d lines are kept for ever", inbox)
	}
}

func openOurs(t *testing.T) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: postgrestest.URL(t), Role: postgres.Worker, MaxConns: 6, Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	must(t, err)
	t.Cleanup(db.Close)
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
