package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/httpapi/api"
	"orderonce/internal/imports"
	"orderonce/internal/orders"
)

// inventory asks for effects that nobody sends: what becomes of them, the test says.
func inventory() *imports.Inventory {
	planner := effects.NewPlanner(orders.Follow, effects.Destination{Name: "inventory", Ordered: true})
	call := func(tenant, order, asker uuid.UUID, operation string, version int64, request any) (effects.Call, error) {
		text, err := json.Marshal(request)
		return effects.Call{
			Tenant: tenant, Order: order, Operation: operation, Event: asker, Version: version, Request: text, Required: operation == "reserve",
		}, err
	}
	return &imports.Inventory{
		Destination: "inventory", Ask: planner.Ask,
		Reserve: func(tenant, order, asker uuid.UUID, items []orders.Item) (effects.Call, error) {
			return call(tenant, order, asker, "reserve", 1, items)
		},
		Release: func(tenant, order, asker uuid.UUID) (effects.Call, error) {
			reserve := "reserve"
			c, err := call(tenant, order, asker, "release", 2, nil)
			c.Reverts = &reserve
			return c, err
		},
	}
}

// reservations are the orders to be, by the client's name.
func (w *world) reservations(task string) map[string]uuid.UUID {
	w.t.Helper()
	conn := w.connect()
	defer conn.Close(w.t.Context())
	rows, err := conn.Query(w.t.Context(), "SELECT client_order_id, order_id FROM import_rows WHERE task_id = $1 AND state = 'waiting'", task)
	w.must(err)
	defer rows.Close()
	all := map[string]uuid.UUID{}
	for rows.Next() {
		var name string
		var id [16]byte
		w.must(rows.Scan(&name, &id))
		all[name] = id
	}
	w.must(rows.Err())
	return all
}

func (w *world) reservation(order uuid.UUID, state effects.State) {
	w.t.Helper()
	ended := "NULL"
	if state == effects.Succeeded || state == effects.Failed {
		ended = "now()"
	}
	w.exec(fmt.Sprintf("UPDATE effects SET state = '%s', due_at = NULL, ended_at = %s WHERE order_id = '%s' AND operation = 'reserve'", state, ended, order))
}

// The four states: a row that waits for its reservation is no reason to hold up the others; only when all that is left
// waits for what nobody knows is the outcome unknown, and it goes on by itself.
func TestImportReservesBeforeItPlaces(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.coupon(coupons["WELCOME10"])
	wantMade(t, w.put("there", order()))
	rows := []string{
		row("reserved"), row("refused"), row("unknown"), row("asked"), row("there"), row("currency", set("currency", "XXX")),
		row("expired", set("coupon_code", "EXPIRED10")), row("taken", set("customer_id", "first")),
	}
	key := freshKey()
	body := `{"reserve_inventory":true,"orders":[` + strings.Join(rows, ",") + `]}`
	first := w.importOrders(key, body)
	id := wantAccepted(t, first).Id.String()
	importer := imports.NewImporter(inventory())
	w.work(importer)
	task := func() api.Task { return read[api.Task](t, w.get("/tasks/"+id), 200) }
	w.poll("the reservations to be asked for", func() bool { return len(w.reservations(id)) == 6 })
	if now := task(); now.State != api.TaskStateProcessing || now.Progress != (api.TaskProgress{Done: 2, Total: 8, Succeeded: 1, Rejected: 1}) {
		t.Errorf("%+v", now)
	}
	if waiting := w.results(id, "&state=waiting"); len(waiting) != 6 || waiting[0].OrderId != nil || *waiting[0].ClientOrderId != "reserved" {
		t.Errorf("%+v", waiting)
	}
	w.wantRows(rows0(1, 1, 1)) // no order comes before its stock

	of := w.reservations(id)
	wantMade(t, w.put("taken", order())) // another one of this name, meanwhile
	w.reservation(of["reserved"], effects.Succeeded)
	w.reservation(of["refused"], effects.Failed)
	w.reservation(of["unknown"], effects.Unknown)
	w.reservation(of["expired"], effects.Succeeded)
	w.reservation(of["taken"], effects.Succeeded)
	w.poll("what has ended to be settled", func() bool { return len(w.reservations(id)) == 2 })
	if now := task(); now.State != api.TaskStateProcessing || now.Progress != (api.TaskProgress{Done: 6, Total: 8, Succeeded: 2, Rejected: 4}) {
		t.Errorf("%+v", now)
	}
	w.reservation(of["asked"], effects.NeedsHuman)
	w.poll("the outcome to be unknown", func() bool { return task().State == api.TaskStateOutcomeUnknown })
	unknown := w.get("/tasks/" + id)
	if unknown.header.Get("Retry-After") != "2" || task().ResultExpiresAt != nil {
		t.Errorf("%v %s", unknown.header, unknown.body)
	}
	wantReplay(t, first, w.importOrders(key, body))

	w.reservation(of["unknown"], effects.Succeeded)
	w.reservation(of["asked"], effects.Succeeded)
	w.exec("UPDATE tasks SET due_at = now() WHERE owner IS NULL") // nobody waits for the pause
	ended := w.ended(id)
	if ended.State != api.TaskStateSucceeded || ended.Progress != (api.TaskProgress{Done: 8, Total: 8, Succeeded: 4, Rejected: 4}) {
		t.Errorf("%+v", ended)
	}
	var got []string
	for _, r := range w.results(id, "") {
		line := fmt.Sprint(*r.ClientOrderId, " ", r.State)
		if r.Problem != nil {
			line += " " + r.Problem.Code
		}
		if id, reserved := of[*r.ClientOrderId]; reserved && r.OrderId != nil && *r.OrderId != id {
			t.Errorf("%s has another order than the one that was reserved for", line)
		}
		got = append(got, line)
	}
	want := []string{
		"reserved succeeded", "refused rejected inventory_refused", "unknown succeeded", "asked succeeded", "there succeeded",
		"currency rejected validation_failed", "expired rejected coupon_unknown", "taken rejected client_order_exists",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	w.wantRows(rows0(5, 1, 5))
	// What was reserved for orders that are none is given back, and nothing else.
	if n := w.count("SELECT count(*) FROM effects WHERE operation = 'release'"); n != 2 {
		t.Errorf("%d releases", n)
	}
	for _, name := range []string{"expired", "taken"} {
		if n := w.count(fmt.Sprintf("SELECT count(*) FROM effects WHERE operation = 'release' AND order_id = '%s'", of[name])); n != 1 {
			t.Errorf("%s: %d releases", name, n)
		}
	}
	if n := w.count("SELECT count(*) FROM effects WHERE operation = 'reserve'"); n != 6 {
		t.Errorf("%d reservations", n)
	}
}

// A worker that cannot reserve says so, and does not place what it cannot reserve.
func TestImportWithoutAnInventoryGetsNowhere(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := wantAccepted(t, w.importOrders(freshKey(), `{"reserve_inventory":true,"orders":[`+row("mine")+`]}`)).Id.String()
	w.work(imports.NewImporter(nil))
	w.poll("the failure", func() bool {
		w.exec("UPDATE tasks SET due_at = now() WHERE owner IS NULL AND due_at IS NOT NULL")
		return read[api.Task](t, w.get("/tasks/"+id), 200).State == api.TaskStateFailed
	})
	failed := read[api.Task](t, w.get("/tasks/"+id), 200)
	if !failed.Retryable || failed.Problem.Code != "stalled" || failed.ResultExpiresAt == nil || time.Until(*failed.ResultExpiresAt) < 6*24*time.Hour {
		t.Errorf("%+v", failed)
	}
	w.wantRows(rows0(0, 1, 0))
}
