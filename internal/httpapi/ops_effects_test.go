package httpapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"orderonce/internal/httpapi/api"
)

// effect puts a call of a tenant's order into a state that workers would have brought it to, and returns its address.
func (w *world) effect(tenant, order uuid.UUID, state string) (path string) {
	w.t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	w.exec(`INSERT INTO effects (tenant_id, id, destination, lane, operation, event_id, order_id, version, idempotency_key, request,
			request_hash, required, state, attempts, attempt_token, due_at, first_sent_at, key_valid_until, last_error, evidence, created_at)
		VALUES ('` + tenant.String() + `', '` + id + `', 'payment', '', 'authorize', '` + id + `', '` + order.String() + `', 1, '` + id + `', '{}',
			'', true, '` + state + `', 1, 1, CASE WHEN '` + state + `' = 'pending' THEN now() + interval '1 hour' END, now(), now() - interval '1 hour',
			'no answer', '[{"at": "2026-01-01T00:00:00Z", "token": 1, "owner": "w1", "verdict": "ambiguous", "detail": "no answer"}]', now())`)
	return "/ops/tenants/" + tenant.String() + "/effects/" + id
}

func (w *world) orderPlaced() uuid.UUID {
	w.t.Helper()
	return uuid.MustParse(strings.TrimPrefix(w.place(freshKey(), order()).header.Get("Location"), "/orders/"))
}

// A person finds a call that nobody can judge, says what became of it and why, and the order follows. Said twice it is
// done once, and nobody can say anything else afterwards.
func TestPersonResolvesAnEffect(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for move, want := range map[string]struct{ effect, order string }{
		"succeed": {"succeeded", "confirmed"}, "fail": {"failed", "rejected"},
	} {
		placed := w.orderPlaced()
		w.exec("UPDATE outbox_events SET dispatched_at = now()") // or more could be asked for
		path := w.effect(w.tenant, placed, "needs_human")
		page := read[api.EffectPage](t, w.get("/ops/effects", as(w.operator)), 200)
		if len(page.Effects) != 1 || page.Effects[0].OrderId != placed || len(page.Effects[0].Evidence) != 1 || page.Effects[0].Lane != nil {
			t.Fatalf("%+v", page)
		}
		if offered := read[api.Effect](t, w.get(path, as(w.operator)), 200).Moves; !slices.Equal(offered, []api.EffectMove{"succeed", "fail", "resend"}) {
			t.Errorf("offered: %v", offered)
		}
		key, decision := freshKey(), map[string]any{"move": move, "evidence": "bank statement, line 4711"}
		first := w.change(key, path+"/resolve", decision)
		got := read[api.Effect](t, first, 200)
		if string(got.State) != want.effect || got.EndedAt == nil || len(got.Moves) > 0 || len(got.Evidence) != 2 || *got.Evidence[1].Reason != "a test" {
			t.Errorf("%s: %s", move, first.body)
		}
		wantReplay(t, first, w.change(key, path+"/resolve", decision))
		if again := read[api.Effect](t, w.change(freshKey(), path+"/resolve", decision), 200); len(again.Evidence) != 2 {
			t.Errorf("%s, said again: %+v", move, again)
		}
		other := map[string]any{"move": map[string]string{"succeed": "fail", "fail": "succeed"}[move], "evidence": "a feeling"}
		wantProblem(t, w.change(freshKey(), path+"/resolve", other), 409, "effect_not_movable")
		if o := read[api.Order](t, w.get("/orders/"+placed.String()), 200); string(o.Status) != want.order {
			t.Errorf("%s: the order is %s", move, o.Status)
		}
		var events int
		w.must(w.connect().QueryRow(t.Context(), "SELECT count(*) FROM outbox_events WHERE aggregate_id = $1 AND type = $2",
			placed, "orderonce.order."+want.order+".v1").Scan(&events))
		if events != 1 {
			t.Errorf("%s: %d events", move, events)
		}
	}
	if got := w.audited(w.tenant.String()); len(got) < 2 || !slices.Equal(got[len(got)-2:], []string{"effect.fail", "effect.succeed"}) && !slices.Equal(got[len(got)-2:], []string{"effect.succeed", "effect.fail"}) {
		t.Errorf("audited: %v", got)
	}
}

func TestEffectIsMovedOnlyAsItOffers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	placed := w.orderPlaced()
	path := w.effect(w.tenant, placed, "needs_human")
	resend := map[string]any{"move": "resend", "evidence": "support says so"}
	wantProblem(t, w.change(freshKey(), path+"/resolve", resend), 409, "effect_not_movable") // its key may be forgotten
	wantProblem(t, w.change(freshKey(), path+"/resolve", map[string]any{"move": "retry_now"}), 409, "effect_not_movable")
	for pointer, body := range map[string]map[string]any{
		"/evidence": {"move": "succeed"}, "/move": {"move": "undo"}, "/reason": {"move": "fail", "evidence": "a call", "reason": "no"},
		"/absent": {"move": "succeed", "evidence": "a call", "absent": true},
	} {
		a := w.change(freshKey(), path+"/resolve", body)
		if a.status != 422 || a.Code != "validation_failed" || len(a.Errors) != 1 || a.Errors[0].Pointer != pointer {
			t.Errorf("%s: %d %s", pointer, a.status, a.body)
		}
	}
	elsewhere := strings.Replace(path, w.tenant.String(), freshKey(), 1)
	for name, a := range map[string]answer{
		"another tenant's":      w.get(elsewhere, as(w.operator)),
		"move another tenant's": w.change(freshKey(), elsewhere+"/resolve", resend),
		"unknown":               w.get("/ops/tenants/"+w.tenant.String()+"/effects/"+freshKey(), as(w.operator)),
	} {
		if a.status != 404 || a.Code != "not_found" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	resend["absent"] = true
	if e := read[api.Effect](t, w.change(freshKey(), path+"/resolve", resend), 200); e.State != "pending" || e.DueAt == nil {
		t.Errorf("%+v", e)
	}
	waiting := w.effect(w.tenant, w.orderPlaced(), "pending")
	before := *read[api.Effect](t, w.get(waiting, as(w.operator)), 200).DueAt
	if e := read[api.Effect](t, w.change(freshKey(), waiting+"/resolve", map[string]any{"move": "retry_now"}), 200); !e.DueAt.Before(before) {
		t.Errorf("due at %v, and before at %v", e.DueAt, before)
	}

	for _, query := range []string{"?state=pending", "?order_id=" + placed.String(), "?state=unknown&order_id=" + placed.String()} {
		wantProblem(t, w.get("/ops/effects"+query, as(w.operator)), 422, "validation_failed")
	}
	of := "/ops/effects?tenant_id=" + w.tenant.String()
	for query, want := range map[string]int{
		"": 2, "&state=pending": 2, "&state=failed": 0, "&destination=payment": 2, "&destination=inventory": 0, "&order_id=" + placed.String(): 1,
	} {
		if page := read[api.EffectPage](t, w.get(of+query, as(w.operator)), 200); len(page.Effects) != want {
			t.Errorf("%q: %d effects, want %d", query, len(page.Effects), want)
		}
	}
}

// What waits for its dispatch is counted and named, without what it says.
func TestOutboxTellsWhatWaits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if o := read[api.Outbox](t, w.get("/ops/outbox", as(w.operator)), 200); o.Undispatched != 0 || o.Oldest == nil || len(o.Oldest) != 0 {
		t.Errorf("%+v", o)
	}
	placed := w.orderPlaced()
	o := read[api.Outbox](t, w.get("/ops/outbox", as(w.operator)), 200)
	if o.Undispatched != 1 || len(o.Oldest) != 1 || o.Oldest[0].AggregateId != placed || o.Oldest[0].TenantId != w.tenant || o.Oldest[0].Version != 1 {
		t.Errorf("%+v", o)
	}
	w.exec("UPDATE outbox_events SET dispatched_at = now()")
	if o := read[api.Outbox](t, w.get("/ops/outbox", as(w.operator)), 200); o.Undispatched != 0 || len(o.Oldest) != 0 {
		t.Errorf("%+v", o)
	}
}
