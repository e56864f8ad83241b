package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"orderonce/internal/identity"
	"orderonce/internal/orders"
)

func (w *world) put(id, body string) answer {
	w.t.Helper()
	return w.send(http.MethodPut, "/client-orders/"+id, strings.NewReader(body), with("Content-Type", "application/json"))
}

// The caller's own name for an order is an identity for ever: no key is needed.
func TestPutOrderMakesOneOrderOfAName(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.coupon(orders.Coupon{Code: "TEN", Percent: 10})
	for name, body := range map[string]string{
		"only-writes":  order(set("metadata", map[string]any{"a": "1"})),
		"reads-coupon": order(set("coupon_code", "TEN"), set("checkout_id", "cart-1")),
	} {
		first := w.put(name, body)
		if first.status != http.StatusCreated {
			t.Fatalf("%s: %d %s", name, first.status, first.body)
		}
		again := w.put(name, strings.Replace(body, "{", `{"client_sent_at":"2026-11-01T10:00:00Z",`, 1))
		if again.status != http.StatusOK || string(again.body) != string(first.body) || again.header.Get("Location") != first.header.Get("Location") {
			t.Errorf("%s again: %d %s", name, again.status, again.body)
		}
		other := w.put(name, order(set("currency", "USD")))
		wantProblem(t, other, 409, "client_order_exists")
		if other.header.Get("Location") != first.header.Get("Location") || other.KeyAction != "none" {
			t.Errorf("%s with another body: %v %s", name, other.header, other.body)
		}
		if read := w.get("/client-orders/" + name); read.status != 200 || string(read.body) != string(first.body) {
			t.Errorf("%s read: %d %s", name, read.status, read.body)
		}
	}
	w.exec(`UPDATE coupons SET valid_until = now()`)
	if late := w.put("reads-coupon", order(set("coupon_code", "TEN"), set("checkout_id", "cart-1"))); late.status != 200 {
		t.Errorf("an order is found after its coupon expired: %d %s", late.status, late.body)
	}
	wantProblem(t, w.put("another-name", order(set("checkout_id", "cart-1"))), 409, "checkout_already_ordered")
	wantProblem(t, w.put("expired", order(set("coupon_code", "TEN"))), 422, "coupon_expired")
	wantProblem(t, w.get("/client-orders/no-such-order"), 404, "not_found")
	_, stranger := w.principal("globex", "shop", identity.TenantScopes()...)
	wantProblem(t, w.get("/client-orders/only-writes", as(stranger)), 404, "not_found")
	w.wantRows(rows{2, 0, 2})
}

func TestParallelPutsMakeOneOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	made, bodies := 0, map[string]bool{}
	for _, a := range storm(t, 50, func(int) (answer, error) {
		return w.try(http.MethodPut, "/client-orders/mine", strings.NewReader(order()), with("Content-Type", "application/json"))
	}) {
		switch a.status {
		case http.StatusCreated:
			made++
		case http.StatusOK:
		default:
			t.Errorf("%d %s", a.status, a.body)
		}
		bodies[string(a.body)] = true
	}
	if made != 1 || len(bodies) != 1 {
		t.Errorf("%d made, %d different answers", made, len(bodies))
	}
	w.wantRows(rows{1, 0, 1})
}

// What became of my intent?
func TestKeyTellsItsState(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.coupon(orders.Coupon{Code: "EXPIRED10", Percent: 10, ValidFrom: distantPast, ValidUntil: distantPast.AddDate(1, 0, 0)})
	look := func(key string, options ...option) string {
		a := w.get("/idempotency-keys/"+key+"?operation=createOrder", options...)
		if a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.body)
		}
		return strings.TrimSpace(string(a.body))
	}
	key := freshKey()
	if got := look(key); got != `{"state":"absent"}` {
		t.Errorf("before: %s", got)
	}
	held := w.hold(key)
	if got := look(key); got != `{"state":"in_progress"}` {
		t.Errorf("while another process runs it: %s", got)
	}
	w.must(held.Rollback(t.Context()))
	first := w.place(key, order())
	wantCreated(t, first, "false")
	if got := look(key); !strings.Contains(got, `"resource":"`+first.header.Get("Location")+`","state":"completed","status":201`) {
		t.Errorf("after: %s", got)
	}
	_, colleague := w.principal("acme", "backoffice", identity.TenantScopes()...)
	if got := look(key, as(colleague)); got != `{"state":"absent"}` {
		t.Errorf("in another scope: %s", got)
	}
	rejected := freshKey()
	wantProblem(t, w.place(rejected, order(set("coupon_code", "EXPIRED10"))), 422, "coupon_expired")
	if got := look(rejected); !strings.Contains(got, `"state":"completed","status":422`) || strings.Contains(got, "resource") {
		t.Errorf("a rejection: %s", got)
	}
	w.exec(`UPDATE idempotency_requests SET expires_at = now()`)
	if got := look(key); got != `{"state":"absent"}` {
		t.Errorf("expired: %s", got)
	}
	wantProblem(t, w.get("/idempotency-keys/"+key+"?operation=getOrder"), 400, "invalid_request")
	wantProblem(t, w.get("/idempotency-keys/"+key), 400, "invalid_request")
	wantProblem(t, w.get("/idempotency-keys/short?operation=createOrder"), 400, "invalid_request")
	w.wantRows(rows{1, 2, 1})
}
