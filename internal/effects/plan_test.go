package effects_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/effects"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

// plans is a database with a planner, and the ends that it told of.
type plans struct {
	t       *testing.T
	db      *postgres.DB
	watch   *pgx.Conn
	planner *effects.Planner
	tenant  uuid.UUID
	ended   []effects.Effect
	woken   atomic.Int64 // commits that made effects
}

func setupPlans(t *testing.T, destinations ...effects.Destination) *plans {
	t.Helper()
	url := postgrestest.URL(t)
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: url, Role: postgres.Worker, MaxConns: 8, Acquire: patience, Statement: patience,
		IdleInTransaction: patience, Deadline: patience,
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
	p := &plans{t: t, db: db, watch: watch, tenant: uuid.New()}
	p.planner = effects.NewPlanner(func(_ context.Context, _ *postgres.Tx, e effects.Effect) error {
		p.ended = append(p.ended, e)
		return nil
	}, destinations...)
	db.OnCommit(effects.Kind, func() { p.woken.Add(1) })
	return p
}

// inTx runs work in a transaction that is committed.
func (p *plans) inTx(work func(context.Context, *postgres.Tx) error) error {
	p.t.Helper()
	return p.db.InTx(p.t.Context(), postgres.Unit{LockTimeout: patience}, work)
}

func (p *plans) fanOut(events ...outbox.Recorded) {
	p.t.Helper()
	if err := p.tryFanOut(events...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *plans) tryFanOut(events ...outbox.Recorded) error {
	p.t.Helper()
	return p.inTx(func(ctx context.Context, tx *postgres.Tx) error { return p.planner.FanOut(ctx, tx, events) })
}

func (p *plans) event(order uuid.UUID, version int64, kind string) outbox.Recorded {
	return outbox.Recorded{
		Tenant: p.tenant, ID: uuid.New(), AggregateType: "order", AggregateID: order, Version: version,
		Type: "orderonce.order." + kind + ".v1", Payload: []byte(`{"n":1}`), OccurredAt: time.Now(),
	}
}

// wantEffects checks the effects of an order, by version and operation: what they ask, their state, and whether they
// are due.
func (p *plans) wantEffects(order uuid.UUID, want ...string) {
	p.t.Helper()
	rows, err := p.watch.Query(p.t.Context(), `SELECT concat_ws(' ', destination, nullif(lane, ''), operation, state,
		CASE WHEN due_at <= now() THEN 'due' WHEN due_at IS NULL THEN 'waits' ELSE 'later' END) FROM effects
		WHERE tenant_id = $1 AND order_id = $2 ORDER BY destination, lane, version, id`, p.tenant, order)
	if err != nil {
		p.t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		p.t.Fatal(err)
	}
	if diff := cmp.Diff(append([]string{}, want...), append([]string{}, got...)); diff != "" {
		p.t.Errorf("the effects (-want +got)\n%s", diff)
	}
}

// end moves an effect by hand, as a worker would.
func (p *plans) end(order uuid.UUID, operation string, state effects.State) {
	p.t.Helper()
	tag, err := p.watch.Exec(p.t.Context(), `UPDATE effects SET state = $3, due_at = NULL, ended_at = now()
		WHERE order_id = $1 AND operation = $2`, order, operation, state)
	if err != nil || tag.RowsAffected() != 1 {
		p.t.Fatal(tag, err)
	}
}

// when plans a call for each event of a type, such as created.
func when(calls map[string]effects.Call) func(context.Context, postgres.DBTX, []outbox.Recorded) ([]effects.Call, error) {
	return func(_ context.Context, _ postgres.DBTX, events []outbox.Recorded) (planned []effects.Call, err error) {
		for _, e := range events {
			for kind, call := range calls {
				if e.Type == "orderonce.order."+kind+".v1" {
					call.Tenant, call.Order, call.Event, call.Version = e.Tenant, e.AggregateID, e.ID, e.Version
					call.Request, call.Traceparent = e.Payload, e.Traceparent
					planned = append(planned, call)
				}
			}
		}
		return planned, nil
	}
}

var authorize = "authorize"

func payment() effects.Destination {
	void := effects.Call{Operation: "void", Reverts: &authorize}
	return effects.Destination{Name: "payment", Ordered: true, Plan: when(map[string]effects.Call{
		"created": {Operation: authorize, Required: true}, "cancelled": void, "rejected": void,
	})}
}

// everything asks for each event, one after another.
func everything(name string, ordered bool) effects.Destination {
	return effects.Destination{
		Name: name, Ordered: ordered,
		Plan: func(_ context.Context, _ postgres.DBTX, events []outbox.Recorded) (calls []effects.Call, err error) {
			for _, e := range events {
				calls = append(calls, effects.Call{
					Tenant: e.Tenant, Order: e.AggregateID, Lane: "a", Operation: e.ID.String(), Event: e.ID, Version: e.Version,
					Request: e.Payload,
				})
			}
			return calls, nil
		},
	}
}

// An event that comes twice, alone or beside others, in one batch or in two, makes nothing the second time.
func TestEventThatComesTwiceMakesNothing(t *testing.T) {
	t.Parallel()
	p := setupPlans(t, payment(), everything("log", false), everything("mail", true))
	order := uuid.New()
	created, other := p.event(order, 1, "created"), p.event(uuid.New(), 1, "created")
	p.fanOut(created)
	before := p.woken.Load()
	p.fanOut(created)
	if p.woken.Load() != before {
		t.Error("the second time wakes a worker")
	}
	p.fanOut(created, other, created)
	want := []string{"log a " + created.ID.String() + " pending due", "mail a " + created.ID.String() + " pending due", "payment authorize pending due"}
	p.wantEffects(order, want...)
	p.wantEffects(other.AggregateID, "log a "+other.ID.String()+" pending due", "mail a "+other.ID.String()+" pending due", "payment authorize pending due")
	if before != 1 || p.woken.Load() != 2 || len(p.ended) != 0 {
		t.Errorf("woken %d, then %d times; told of %v", before, p.woken.Load(), p.ended)
	}
}

// An effect is stored as it was asked for, under its identity's own key.
func TestEffectIsStoredAsItWasAsked(t *testing.T) {
	t.Parallel()
	p := setupPlans(t, payment())
	order, trace := uuid.New(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	created := p.event(order, 1, "created")
	created.Traceparent = &trace
	p.fanOut(created, p.event(order, 2, "cancelled"))
	var got string
	err := p.watch.QueryRow(t.Context(), `SELECT concat_ws(' ', id = id, event_id = $2, version, convert_from(request, 'UTF8'),
		request_hash = sha256(request), required, attempts, attempt_token, evidence, traceparent = $3,
		substr(idempotency_key::text, 15, 1), created_at = due_at) FROM effects WHERE order_id = $1 AND operation = 'authorize'`,
		order, created.ID, trace).Scan(&got)
	if want := `t t 1 {"n":1} t t 0 0 [] t 5 t`; err != nil || got != want {
		t.Errorf("authorize is %s, %v; want %s", got, err, want)
	}
	err = p.watch.QueryRow(t.Context(), `SELECT concat_ws(' ', reverts, required, traceparent IS NULL) FROM effects
		WHERE order_id = $1 AND operation = 'void'`, order).Scan(&got)
	if want := "authorize f t"; err != nil || got != want {
		t.Errorf("void is %s, %v; want %s", got, err, want)
	}
}

// An ordered destination has one effect of a lane due at once; the next one waits, be its predecessor older or of the
// same batch.
func TestSuccessorWaitsForItsPredecessor(t *testing.T) {
	t.Parallel()
	p := setupPlans(t, everything("mail", true), everything("log", false))
	order, other := uuid.New(), uuid.New()
	events := []outbox.Recorded{p.event(order, 1, "a"), p.event(order, 2, "b"), p.event(other, 1, "c"), p.event(order, 3, "d")}
	p.fanOut(events[:3]...)
	p.fanOut(events[3])
	line := func(destination string, event int, due string) string {
		return fmt.Sprintf("%s a %s pending %s", destination, events[event].ID, due)
	}
	p.wantEffects(order, line("log", 0, "due"), line("log", 1, "due"), line("log", 3, "due"),
		line("mail", 0, "due"), line("mail", 1, "waits"), line("mail", 3, "waits"))
	p.wantEffects(other, line("log", 2, "due"), line("mail", 2, "due"))
	for _, e := range []int{0, 1, 3} {
		_, err := p.watch.Exec(t.Context(), `UPDATE effects SET state = 'failed', due_at = NULL, ended_at = now() WHERE event_id = $1
			AND destination = 'mail'`, events[e].ID)
		if err != nil {
			t.Fatal(err)
		}
	}
	last := p.event(order, 4, "e")
	p.fanOut(last)
	var due bool
	err := p.watch.QueryRow(t.Context(), "SELECT due_at IS NOT NULL FROM effects WHERE event_id = $1 AND destination = 'mail'", last.ID).Scan(&due)
	if err != nil || !due {
		t.Errorf("behind three that have ended it is due: %v, %v", due, err)
	}
}

// What undoes something does so after it, and only where that has happened.
func TestCompensationFollowsWhatItReverts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before effects.State // of what it reverts; empty where that is not there
		want   []string
	}{
		"not there": {"", nil},
		"pending":   {effects.Pending, []string{"payment authorize pending due", "payment void pending waits"}},
		"succeeded": {effects.Succeeded, []string{"payment authorize succeeded waits", "payment void pending due"}},
		"failed":    {effects.Failed, []string{"payment authorize failed waits", "payment void succeeded waits"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setupPlans(t, payment())
			order := uuid.New()
			if c.before != "" {
				p.fanOut(p.event(order, 1, "created"))
				if c.before != effects.Pending {
					p.end(order, authorize, c.before)
				}
			}
			p.fanOut(p.event(order, 2, "rejected"))
			p.wantEffects(order, c.want...)
			if c.before == effects.Failed {
				var evidence string
				err := p.watch.QueryRow(t.Context(), "SELECT concat_ws(' ', evidence->0->>'detail', attempts, ended_at IS NOT NULL) "+
					"FROM effects WHERE operation = 'void'").Scan(&evidence)
				if err != nil || evidence != "nothing to undo 0 t" {
					t.Errorf("the evidence is %q, %v", evidence, err)
				}
			}
		})
	}
}

// Of one batch, too: cancelled before anything was sent.
func TestCompensationInTheBatchOfWhatItReverts(t *testing.T) {
	t.Parallel()
	p := setupPlans(t, payment())
	order := uuid.New()
	p.fanOut(p.event(order, 1, "created"), p.event(order, 2, "cancelled"))
	p.wantEffects(order, "payment authorize pending due", "payment void pending waits")
}

// An import reserves before there is an order. When the order comes, its wait may be over already.
func TestEndBeforeTheOrderIsTold(t *testing.T) {
	t.Parallel()
	reserve := effects.Destination{Name: "inventory", Ordered: true, Plan: when(map[string]effects.Call{
		"created": {Operation: "reserve", Required: true},
	})}
	for name, c := range map[string]struct {
		state        effects.State
		destinations []effects.Destination
		want         int
	}{
		"succeeded, and nothing else is waited for": {effects.Succeeded, []effects.Destination{reserve}, 1},
		"succeeded, but the payment only begins":    {effects.Succeeded, []effects.Destination{reserve, payment()}, 0},
		"failed, whatever else begins":              {effects.Failed, []effects.Destination{reserve, payment()}, 1},
		"under way":                                 {effects.Pending, []effects.Destination{reserve}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setupPlans(t, c.destinations...)
			order := uuid.New()
			call := effects.Call{Tenant: p.tenant, Order: order, Operation: "reserve", Event: uuid.New(), Request: []byte("{}"), Required: true}
			for range 2 { // the second time it is there
				err := p.inTx(func(ctx context.Context, tx *postgres.Tx) error { return p.planner.Ask(ctx, tx, "inventory", call) })
				if err != nil {
					t.Fatal(err)
				}
			}
			if c.state != effects.Pending {
				p.end(order, "reserve", c.state)
			}
			p.fanOut(p.event(order, 1, "created"), p.event(uuid.New(), 1, "created"))
			if len(p.ended) != c.want || c.want == 1 && (p.ended[0].Order != order || p.ended[0].State != c.state || !p.ended[0].Required) {
				t.Errorf("told of %+v", p.ended)
			}
		})
	}
}

// A predecessor that ends while its successor is decided about: whoever is second waits for the first, so that the
// successor either begins due or is there to be activated.
func TestPredecessorEndsAtTheSameTime(t *testing.T) {
	t.Parallel()
	p := setupPlans(t, payment())
	order := uuid.New()
	p.fanOut(p.event(order, 1, "created"))
	tx, err := p.watch.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE effects SET state = 'succeeded', due_at = NULL, ended_at = now()"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.tryFanOut(p.event(order, 2, "cancelled")) }()
	p.untilBlocked(tx)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	p.wantEffects(order, "payment authorize succeeded waits", "payment void pending due")
}

// untilBlocked waits until another session waits for a lock.
func (p *plans) untilBlocked(tx pgx.Tx) {
	p.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for blocked := false; !blocked; <-tick.C {
		err := tx.QueryRow(p.t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() "+
			"AND wait_event_type = 'Lock')").Scan(&blocked)
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

// The import's reservation is made at the very time at which the order asks for it: the order's batch fails, and finds
// it when it is run again.
func TestEffectMadeAtTheSameTimeIsFoundTheNextTime(t *testing.T) {
	t.Parallel()
	p := setupPlans(t, payment())
	order := uuid.New()
	tx, err := p.watch.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), `INSERT INTO effects (tenant_id, id, destination, lane, operation, event_id, order_id, version,
			idempotency_key, request, request_hash, required, state, created_at, ended_at)
		VALUES ($1, $2, 'payment', '', 'authorize', $2, $2, 0, $2, '', '', true, 'succeeded', now(), now())`, p.tenant, order)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.tryFanOut(p.event(order, 1, "created"), p.event(order, 2, "cancelled")) }()
	p.untilBlocked(tx)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("decided by what is no longer so")
	}
	p.wantEffects(order, "payment authorize succeeded waits")
	p.fanOut(p.event(order, 1, "created"), p.event(order, 2, "cancelled"))
	p.wantEffects(order, "payment authorize succeeded waits", "payment void pending due")
}

// A destination that cannot plan fails the batch as a whole.
func TestPlanThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	p := setupPlans(t, payment(), effects.Destination{
		Name: "broken", Plan: func(context.Context, postgres.DBTX, []outbox.Recorded) ([]effects.Call, error) { return nil, broken },
	})
	order := uuid.New()
	if err := p.tryFanOut(p.event(order, 1, "created")); !errors.Is(err, broken) {
		t.Error(err)
	}
	p.wantEffects(order)
}

// One statement for each step, however many events there are.
func TestBatchIsMadeByOneStatement(t *testing.T) {
	t.Parallel()
	p := setupPlans(t, payment(), everything("mail", true))
	var events []outbox.Recorded
	for range 500 {
		events = append(events, p.event(uuid.New(), 1, "created"))
	}
	p.fanOut(events...)
	var made, transactions int
	err := p.watch.QueryRow(t.Context(), "SELECT count(*), count(DISTINCT cmin::text) FROM effects").Scan(&made, &transactions)
	if err != nil || made != 1000 || transactions != 1 {
		t.Errorf("%d effects by %d statements, %v", made, transactions, err)
	}
}
