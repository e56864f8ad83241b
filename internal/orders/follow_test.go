package orders_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/effects"
	"orderonce/internal/orders"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

// on plans one call of a destination for each event of the type, such as created.
func on(destination, kind string, call effects.Call) effects.Destination {
	return effects.Destination{
		Name: destination, Ordered: true,
		Plan: func(_ context.Context, _ postgres.DBTX, events []outbox.Recorded) (calls []effects.Call, err error) {
			for _, e := range events {
				if e.Type == "orderonce.order."+kind+".v1" {
					call.Tenant, call.Order, call.Event, call.Version, call.Request = e.Tenant, e.AggregateID, e.ID, e.Version, e.Payload
					calls = append(calls, call)
				}
			}
			return calls, nil
		},
	}
}

var authorize = "authorize"

// downstream is what an order waits for, and what hears of its fate.
func downstream() []effects.Destination {
	return []effects.Destination{
		on("payment", "created", effects.Call{Operation: authorize, Required: true}),
		on("inventory", "created", effects.Call{Operation: "reserve", Required: true}),
		on("notification", "confirmed", effects.Call{Operation: "confirmed"}),
		on("notification", "rejected", effects.Call{Operation: "rejected"}),
	}
}

// dispatch runs a dispatcher whose effects these destinations get, until stop is called or the test ends.
func (f *fixture) dispatch(destinations ...effects.Destination) (stop func()) {
	planner := effects.NewPlanner(orders.Follow, destinations...)
	return f.run(outbox.NewDispatcher(f.db, planner.FanOut, slog.New(slog.NewTextHandler(f.t.Output(), nil))))
}

func (f *fixture) run(d *outbox.Dispatcher) (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	f.t.Cleanup(stop)
	return stop
}

// poll waits until the query counts n.
func (f *fixture) poll(n int, query string, args ...any) {
	f.t.Helper()
	postgrestest.Poll(f.t, fmt.Sprintf("%d: %s", n, query), func() bool { return f.count(query, args...) == n })
}

// planned is an order whose effects are there.
func (f *fixture) planned() orders.Order {
	f.t.Helper()
	stop := f.dispatch(downstream()...)
	order := f.mustPlace(f.placement())
	f.poll(2, "SELECT count(*) FROM effects WHERE order_id = $1", order.ID)
	stop()
	return order
}

// end ends an effect of the order's as a worker does, and lets the order follow.
func (f *fixture) end(order uuid.UUID, operation string, state effects.State) error {
	return f.db.InTx(f.t.Context(), postgres.Unit{LockTimeout: patience}, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		e := effects.Effect{Tenant: f.tenant, Identity: effects.Identity{Order: order, Operation: operation}, State: state}
		err = db.QueryRow(ctx, `UPDATE effects SET state = $4, due_at = NULL, ended_at = now()
			WHERE tenant_id = $1 AND order_id = $2 AND operation = $3 RETURNING required`, f.tenant, order, operation, string(state)).
			Scan(&e.Required)
		if err != nil {
			return err
		}
		return orders.Follow(ctx, tx, e)
	})
}

func (f *fixture) mustEnd(order uuid.UUID, operation string, state effects.State) {
	f.t.Helper()
	if err := f.end(order, operation, state); err != nil {
		f.t.Fatal(err)
	}
}

// wantStory checks the order's status and version, and all its events in order.
func (f *fixture) wantStory(order uuid.UUID, status orders.Status, events ...string) {
	f.t.Helper()
	rows, err := f.watch.Query(f.t.Context(), "SELECT version || ' ' || type FROM outbox_events WHERE aggregate_id = $1 ORDER BY version", order)
	if err != nil {
		f.t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.t.Fatal(err)
	}
	var want []string
	for i, event := range events {
		want = append(want, fmt.Sprintf("%d orderonce.order.%s.v1", i+1, event))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("the events (-want +got)\n%s", diff)
	}
	if n := f.count("SELECT count(*) FROM orders WHERE id = $1 AND status = $2 AND version = $3", order, string(status), len(events)); n != 1 {
		f.t.Errorf("the order is not %s at version %d", status, len(events))
	}
}

// An order is confirmed by the last success, or rejected by the first failure: once, with one event, in whatever order
// its effects end.
func TestOrderFollowsItsEffects(t *testing.T) {
	t.Parallel()
	succeeded, failed := effects.Succeeded, effects.Failed
	for name, c := range map[string]struct {
		ends   [2]effects.State // of authorize and reserve
		status orders.Status
	}{
		"both succeed":        {[2]effects.State{succeeded, succeeded}, orders.Confirmed},
		"the payment fails":   {[2]effects.State{failed, succeeded}, orders.Rejected},
		"the inventory fails": {[2]effects.State{succeeded, failed}, orders.Rejected},
		"both fail":           {[2]effects.State{failed, failed}, orders.Rejected},
	} {
		for _, reversed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reversed %t", name, reversed), func(t *testing.T) {
				t.Parallel()
				f := setup(t)
				order := f.planned()
				operations := []string{authorize, "reserve"}
				if reversed {
					slices.Reverse(operations)
				}
				for i, operation := range operations {
					state := c.ends[slices.Index([]string{authorize, "reserve"}, operation)]
					f.mustEnd(order.ID, operation, state)
					if i == 0 && state == succeeded {
						f.wantStory(order.ID, orders.Pending, "created")
					}
				}
				f.wantStory(order.ID, c.status, "created", string(c.status))
				f.dispatch(downstream()...)
				f.poll(1, "SELECT count(*) FROM effects WHERE destination = 'notification' AND operation = $1 AND version = 2", string(c.status))
			})
		}
	}
}

// Both effects end at the same time: neither transaction sees the other's end at first, and one of them confirms.
func TestEffectsThatEndTogetherConfirmOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for range 20 {
		order := f.planned()
		start := make(chan struct{})
		var both sync.WaitGroup
		for _, operation := range []string{authorize, "reserve"} {
			both.Go(func() {
				<-start
				if err := f.end(order.ID, operation, effects.Succeeded); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		both.Wait()
		f.wantStory(order.ID, orders.Confirmed, "created", "confirmed")
	}
}

// What is cancelled stays so, whatever becomes of its effects.
func TestCancelledOrderFollowsNothing(t *testing.T) {
	t.Parallel()
	for _, state := range []effects.State{effects.Succeeded, effects.Failed} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			order := f.planned()
			f.mustEnd(order.ID, authorize, effects.Succeeded)
			err := f.db.InTx(t.Context(), postgres.Unit{LockTimeout: patience}, func(ctx context.Context, tx *postgres.Tx) error {
				_, err := orders.Cancel(ctx, tx, f.tenant, order.ID)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			f.mustEnd(order.ID, "reserve", state)
			f.wantStory(order.ID, orders.Cancelled, "created", "cancelled")
		})
	}
}

// What the order does not wait for, and what has no order, changes nothing.
func TestOtherEffectsChangeNoOrder(t *testing.T) {
	t.Parallel()
	f := setup(t)
	order := f.planned()
	f.exec("UPDATE effects SET required = false WHERE operation = 'reserve'")
	f.mustEnd(order.ID, "reserve", effects.Failed)
	f.wantStory(order.ID, orders.Pending, "created")
	f.exec("UPDATE effects SET order_id = tenant_id WHERE operation = 'authorize'")
	f.mustEnd(f.tenant, authorize, effects.Failed)
	f.wantStory(order.ID, orders.Pending, "created")
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.watch.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

// An import reserves before it places. The reservation's end must neither confirm an order whose payment nobody has
// asked for yet, nor be forgotten when it is all that the order waits for.
func TestReservationBeforeTheOrder(t *testing.T) {
	t.Parallel()
	inventory := downstream()[1]
	for name, c := range map[string]struct {
		destinations []effects.Destination
		state        effects.State
		status       orders.Status
	}{
		"nothing else is waited for": {[]effects.Destination{inventory}, effects.Succeeded, orders.Confirmed},
		"it was refused":             {downstream(), effects.Failed, orders.Rejected},
		"the payment is waited for":  {downstream(), effects.Succeeded, orders.Pending},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			order := f.mustPlace(f.placement())
			planner := effects.NewPlanner(orders.Follow, c.destinations...)
			err := f.db.InTx(t.Context(), postgres.Unit{LockTimeout: patience}, func(ctx context.Context, tx *postgres.Tx) error {
				return planner.Ask(ctx, tx, "inventory", effects.Call{
					Tenant: f.tenant, Order: order.ID, Operation: "reserve", Event: order.ID, Request: []byte("{}"), Required: true,
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			f.mustEnd(order.ID, "reserve", c.state)
			f.wantStory(order.ID, orders.Pending, "created")
			f.dispatch(c.destinations...)
			f.poll(0, "SELECT count(*) FROM outbox_events WHERE dispatched_at IS NULL")
			if c.status == orders.Pending {
				f.wantStory(order.ID, orders.Pending, "created")
				f.mustEnd(order.ID, authorize, effects.Succeeded)
				c.status = orders.Confirmed
			}
			f.wantStory(order.ID, c.status, "created", string(c.status))
		})
	}
}

// Case 29: whoever reads the order when its event arrives finds it, at the event's version or a later one.
func TestEventArrivesWithItsOrder(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var mu sync.Mutex
	var wrong []string
	arrived := 0
	read := func(ctx context.Context, tx *postgres.Tx, events []outbox.Recorded) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, e := range events {
			arrived++
			if order, err := orders.Find(ctx, db, e.Tenant, e.AggregateID); err != nil || order.Version < e.Version {
				wrong = append(wrong, fmt.Sprint(order.ID, order.Version, e.Version, err))
			}
		}
		return nil
	}
	var all []*outbox.Dispatcher
	for range 3 {
		all = append(all, outbox.NewDispatcher(f.db, read, slog.New(slog.NewTextHandler(t.Output(), nil))))
	}
	for _, d := range all {
		f.run(d)
	}
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 10 {
				order, err := f.place(postgres.Unit{}, f.placement())
				err = errors.Join(err, f.db.InTx(t.Context(), postgres.Unit{LockTimeout: patience}, func(ctx context.Context, tx *postgres.Tx) error {
					_, err := orders.Cancel(ctx, tx, f.tenant, order.ID)
					return err
				}))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	f.poll(0, "SELECT count(*) FROM outbox_events WHERE dispatched_at IS NULL")
	mu.Lock()
	defer mu.Unlock()
	if len(wrong) > 0 || arrived < 160 {
		t.Errorf("%d arrived, wrong are\n%s", arrived, strings.Join(wrong, "\n"))
	}
}
