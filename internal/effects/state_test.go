package effects_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects"
)

var (
	capabilities = []effects.Capability{effects.Idempotent, effects.Queryable, effects.None}
	verdicts     = []effects.Verdict{
		effects.Done, effects.Refused, effects.NotExecuted, effects.Impossible, effects.Ambiguous, effects.Absent, "nonsense",
	}
	states = []effects.State{
		effects.Pending, effects.InFlight, effects.Unknown, effects.NeedsHuman, effects.Succeeded, effects.Failed,
	}
)

// machine says where an effect goes that a worker finds in a state, for each verdict in the order of verdicts. A dash
// says that nobody is asked or sent anything.
var machine = map[string][]effects.State{
	"pending idempotent": {"succeeded", "failed", "pending", "needs_human", "unknown", "unknown", "unknown"},
	"pending queryable":  {"succeeded", "failed", "pending", "needs_human", "unknown", "unknown", "unknown"},
	"pending none":       {"succeeded", "failed", "pending", "needs_human", "needs_human", "needs_human", "needs_human"},

	// Found in flight, its lease ended: it was possibly sent. An idempotent destination is sent it again, a queryable one
	// is asked.
	"in_flight idempotent": {"succeeded", "failed", "unknown", "needs_human", "unknown", "pending", "unknown"},
	"in_flight queryable":  {"succeeded", "failed", "unknown", "needs_human", "unknown", "pending", "unknown"},
	"in_flight none":       {"-", "-", "-", "-", "-", "-", "-"},

	"unknown idempotent": {"succeeded", "failed", "unknown", "needs_human", "unknown", "pending", "unknown"},
	"unknown queryable":  {"succeeded", "failed", "unknown", "needs_human", "unknown", "pending", "unknown"},
	"unknown none":       {"-", "-", "-", "-", "-", "-", "-"},
}

// Every state, verdict and capability: where the effect is afterwards, how often the destination was called, and who is
// told. What has ended or waits for a person is left alone.
func TestStateMachine(t *testing.T) {
	t.Parallel()
	f := setup(t)
	type one struct {
		name  string
		id    uuid.UUID
		calls chan struct{}
		want  effects.State
		now   effects.State
	}
	var all []one
	var destinations []effects.Destination
	for _, state := range states {
		for _, capability := range capabilities {
			for i, verdict := range verdicts {
				name := fmt.Sprintf("%s %s %s", state, capability, verdict)
				c := one{name: name, calls: make(chan struct{}, 9), want: "-", now: state}
				if rows, ok := machine[string(state)+" "+string(capability)]; ok {
					c.want = rows[i]
				}
				found := func(context.Context, effects.Effect) effects.Result {
					c.calls <- struct{}{}
					return effects.Result{Verdict: verdict, Detail: "as the test says"}
				}
				d := effects.Destination{Name: name, Capability: capability, Concurrency: 1, Timeout: time.Second, Send: found}
				d.Retention = time.Hour
				if capability == effects.Queryable {
					d.Query = found
				}
				destinations = append(destinations, d)
				c.id = f.add(plan{destination: name})
				all = append(all, c)
				if state == effects.Pending {
					continue
				}
				f.exec(`UPDATE effects SET state = $2::effect_state, attempts = 1, attempt_token = 1, first_sent_at = now() - interval '1 minute',
						key_valid_until = now() + interval '1 hour', owner = CASE WHEN $2::effect_state = 'in_flight' THEN 'another' END,
						due_at = CASE WHEN $2::effect_state IN ('in_flight', 'unknown') THEN now() END, ended_at = CASE WHEN $2::effect_state IN ('succeeded', 'failed') THEN now() END
					WHERE id = $1`, c.id, string(state))
			}
		}
	}
	o := f.options()
	o.BackoffBase, o.BackoffCap = time.Hour, time.Hour // none of them is taken twice, by any chance that matters
	stop := f.run(f.worker(o, destinations...))
	f.await("all that is due to be taken", func() bool {
		return f.count("SELECT count(*) FROM effects WHERE due_at <= now() OR owner IS NOT NULL") == 0
	})
	stop()
	told := map[uuid.UUID]int{}
	for _, e := range f.told() {
		told[e.ID]++
	}
	for _, c := range all {
		calls, want := 1, c.want
		if c.want == "-" {
			if calls, want = 0, c.now; c.now == effects.InFlight || c.now == effects.Unknown {
				want = effects.NeedsHuman
			}
		}
		e := f.find(c.id)
		if e.State != want || len(c.calls) != calls {
			t.Errorf("%s: %s after %d calls, want %s after %d", c.name, e.State, len(c.calls), want, calls)
		}
		ended := 0
		if c.want == effects.Succeeded || c.want == effects.Failed {
			ended = 1
		}
		if told[c.id] != ended {
			t.Errorf("%s: told of its end %d times, want %d", c.name, told[c.id], ended)
		}
		if waits := e.State == effects.Pending || e.State == effects.Unknown; (e.DueAt != nil) != waits || e.Owner != nil {
			t.Errorf("%s: due %v of %v", c.name, e.DueAt, e.Owner)
		}
		if entries, err := e.Entries(); err != nil || e.Token > 0 && c.now != e.State && len(entries) != 1 {
			t.Errorf("%s: evidence %v, %v", c.name, entries, err)
		}
		// Certainly not executed: the destination has no memory of the key that could end.
		never := c.want == effects.Pending || c.now == effects.Pending && c.want == effects.NeedsHuman && len(c.calls) == 1 && lastVerdict(e) == effects.Impossible
		if (e.KeyValidUntil == nil) != never && c.want != "-" {
			t.Errorf("%s: the key is valid until %v", c.name, e.KeyValidUntil)
		}
	}
}

func lastVerdict(e effects.Effect) effects.Verdict {
	entries, _ := e.Entries()
	if len(entries) == 0 {
		return ""
	}
	return entries[len(entries)-1].Verdict
}

// Case 26. A key that is derived in another way lets every effect under way happen a second time.
func TestKeyDerivationIsPinned(t *testing.T) {
	t.Parallel()
	tenant, order := uuid.MustParse("0193b1f0-0000-7000-8000-00000000000a"), uuid.MustParse("0193b1f0-0000-7000-8000-000000000001")
	for want, identity := range map[string]effects.Identity{
		"01f1a36d-606e-5673-a8f0-de15c910a62f": {Order: order, Destination: "payment", Operation: "authorize"},
		"75a1a5f2-d3a6-5ac8-bd85-acfd38eaf51b": {Order: order, Destination: "payment", Operation: "void"},
		"71d9a8a6-9ea5-5baa-b3f1-918690192d98": {Order: order, Destination: "inventory", Operation: "reserve"},
		"7ac977a0-e79a-58e9-a9ed-d0b2cfe575a6": {Order: order, Destination: "webhooks", Lane: "0193b1f0-0000-7000-8000-000000000002", Operation: "0193b1f0-0000-7000-8000-000000000003"},
		"9daae8bd-9331-577f-87a9-f106885548e6": {Order: order, Destination: "webhook", Lane: "s0193b1f0-0000-7000-8000-000000000002", Operation: "0193b1f0-0000-7000-8000-000000000003"},
	} {
		if got := effects.KeyOf(identity, tenant).String(); got != want {
			t.Errorf("%+v: %s, want %s", identity, got, want)
		}
	}
	seen := map[uuid.UUID]bool{}
	for _, tenant := range []uuid.UUID{tenant, order} {
		for _, i := range []effects.Identity{
			{Order: order, Destination: "a", Lane: "b", Operation: "c"},
			{Order: order, Destination: "ab", Lane: "", Operation: "c"},
			{Order: order, Destination: "a", Lane: "", Operation: "bc"},
			{Order: tenant, Destination: "a", Lane: "b", Operation: "c"},
		} {
			seen[effects.KeyOf(i, tenant)] = true
		}
	}
	if len(seen) != 7 { // the last of the second tenant is its first again
		t.Errorf("%d keys of 7 identities", len(seen))
	}
}

// Promises that cannot be kept together are refused before anything is taken.
func TestWorkerRefusesWhatItCannotKeep(t *testing.T) {
	t.Parallel()
	f := setup(t)
	good := newOutside(t).destination("payment", effects.Idempotent)
	asked := newOutside(t).destination("stock", effects.Queryable)
	for name, wrong := range map[string]func(*effects.Options, *effects.Destination){
		"a lease as long as the time-out and the bound to finish": func(o *effects.Options, d *effects.Destination) { d.Timeout = o.Lease - o.Finish },
		"a margin shorter than the lease":                         func(o *effects.Options, _ *effects.Destination) { o.Margin = o.Lease - 1 },
		"a memory as short as the margin":                         func(o *effects.Options, d *effects.Destination) { d.Retention = o.Lease },
		"no owner":                                                func(o *effects.Options, _ *effects.Destination) { o.Owner = "" },
		"a negative pause":                                        func(o *effects.Options, _ *effects.Destination) { o.Poll = -1 },
		"a cap below the base":                                    func(o *effects.Options, _ *effects.Destination) { o.BackoffCap = o.BackoffBase - 1 },
		"no concurrency":                                          func(_ *effects.Options, d *effects.Destination) { d.Concurrency = 0 },
		"no way to send":                                          func(_ *effects.Options, d *effects.Destination) { d.Send = nil },
		"the same name twice":                                     func(_ *effects.Options, d *effects.Destination) { d.Name = asked.Name },
		"a capability that there is not":                          func(_ *effects.Options, d *effects.Destination) { d.Capability = "perhaps" },
		"queryable without a query":                               func(_ *effects.Options, d *effects.Destination) { d.Capability = effects.Queryable },
		"a query that it says it has not": func(_ *effects.Options, d *effects.Destination) {
			d.Capability, d.Query = effects.None, asked.Query
		},
	} {
		o, d := f.options(), good
		wrong(&o, &d)
		if _, err := effects.NewWorker(f.db, []effects.Destination{d, asked}, o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := effects.NewWorker(f.db, []effects.Destination{good, asked}, f.options()); err != nil {
		t.Error(err)
	}
	if _, err := effects.NewWorker(f.db, []effects.Destination{good}, effects.Options{Owner: "defaults", Lease: time.Minute}); err != nil {
		t.Error(err)
	}
}
