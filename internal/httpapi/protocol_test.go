package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orderonce/internal/identity"
	"orderonce/internal/orders"
)

func TestReplayIsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	sentAt := func(time string) func(map[string]any) { return set("client_sent_at", time) }
	permuted := `{ "shipping_address_id":"address-1","items":[{"unit_price_minor":1250,"sku":"MUG","quantity":2}],
		"currency":"EUR", "customer_id":"customer-1"}`
	tests := map[string]struct {
		first, second string
		quoted        bool
	}{
		"the same bytes":                        {first: order(), second: order()},
		"members in another order (case 11)":    {first: order(), second: permuted},
		"an explicit default":                   {first: order(), second: order(set("metadata", map[string]any{}))},
		"transport data that differs":           {first: order(sentAt("2026-11-01T10:00:00Z")), second: order(sentAt("2026-11-01T11:00:00Z"))},
		"escapes instead of characters":         {first: order(set("metadata", map[string]any{"é": "ü"})), second: strings.NewReplacer("é", `\u00e9`, "ü", `\u00FC`).Replace(order(set("metadata", map[string]any{"é": "ü"})))},
		"the key quoted, as the IETF draft has": {first: order(), second: order(), quoted: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			key := freshKey()
			first := w.place(key, test.first)
			wantCreated(t, first, "false")
			if test.quoted {
				key = `"` + key + `"`
			}
			for range 3 {
				wantReplay(t, first, w.place(key, test.second))
			}
			w.wantRows(rows{1, 1, 1})
		})
	}
}

// Cases 13 and 14: what a store could reorder, renormalise or lose.
func TestReplayKeepsAwkwardBodiesAndHeaders(t *testing.T) {
	t.Parallel()
	w := setup(t)
	body := order(set("metadata", map[string]any{"z": "  spaces  ", "a": `"\/` + "\u2028", "<b>": "&amp;", "é": "😀"}))
	key := freshKey()
	first := w.place(key, body)
	wantCreated(t, first, "false")
	if first.header.Get("Location") == "" || first.header.Get("Etag") != `"1"` {
		t.Errorf("business headers: %v", first.header)
	}
	wantReplay(t, first, w.place(key, body))
	if read := w.get(first.header.Get("Location")); read.status != http.StatusOK || string(read.body) != string(first.body) {
		t.Errorf("Location leads to %d %s", read.status, read.body)
	}
}

// Case 18: a stable code, where it differs, and nothing run.
func TestKeyReusedNamesWhatDiffers(t *testing.T) {
	t.Parallel()
	item := func(n int) map[string]any {
		return map[string]any{"sku": fmt.Sprint("S", n), "quantity": 1, "unit_price_minor": n}
	}
	tests := map[string]struct {
		change    func(map[string]any)
		differing []string
	}{
		"an amount":             {func(b map[string]any) { b["items"].([]any)[0].(map[string]any)["unit_price_minor"] = 1251 }, []string{"/items/0/unit_price_minor"}},
		"an added member":       {set("checkout_id", "cart-1"), []string{"/checkout_id"}},
		"an added item":         {func(b map[string]any) { b["items"] = append(b["items"].([]any), item(1)) }, []string{"/items/1"}},
		"two members":           {func(b map[string]any) { b["currency"] = "USD"; b["customer_id"] = "c2" }, []string{"/currency", "/customer_id"}},
		"a member in an object": {set("metadata", map[string]any{"a/b": "1"}), []string{"/metadata"}},
	}
	w := setup(t)
	first := map[string]string{}
	for name := range tests {
		first[name] = freshKey()
		wantCreated(t, w.place(first[name], order()), "false")
	}
	before := w.rows()
	for name, test := range tests {
		a := w.place(first[name], order(test.change))
		wantProblem(t, a, http.StatusConflict, "idempotency_key_reused")
		if a.Differing == nil {
			t.Fatalf("%s: no differing", name)
		}
		if diff := cmp.Diff(test.differing, *a.Differing); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if a.header.Get("X-Should-Retry") != "false" || a.Retryable || a.KeyAction != "keep" {
			t.Errorf("%s: must not be retried: %s", name, a.body)
		}
		wantCreated(t, w.place(first[name], order()), "true")
	}
	w.wantRows(before)
}

// Case 17: what was refused before the claim consumed nothing.
func TestCorrectedBodyMayKeepItsKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	wantProblem(t, w.place(key, `{`), 400, "invalid_request")
	wantProblem(t, w.place(key, order(set("items", []any{}))), 422, "validation_failed")
	wantProblem(t, w.place(key, order(set("currency", "XXZ"))), 422, "validation_failed")
	w.wantRows(rows{})
	wantCreated(t, w.place(key, order()), "false")
	w.wantRows(rows{1, 1, 1})
}

// Case 16: a fault of the service is not pinned to the key.
func TestServerFaultIsNotStored(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	w.exec(`ALTER TABLE outbox_events ADD CONSTRAINT broken CHECK (false) NOT VALID`)
	a := w.place(key, order())
	wantProblem(t, a, 500, "internal")
	if strings.Contains(string(a.body), "broken") || strings.Contains(string(a.body), "outbox") {
		t.Errorf("internals leave the service: %s", a.body)
	}
	w.wantRows(rows{})
	w.exec(`ALTER TABLE outbox_events DROP CONSTRAINT broken`)
	wantCreated(t, w.place(key, order()), "false")
	w.wantRows(rows{1, 1, 1})
}

// Case 21: the scope holds the tenant and the principal.
func TestScopesAreApart(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, colleague := w.principal("acme", "backoffice", identity.TenantScopes()...)
	_, stranger := w.principal("globex", "shop", identity.TenantScopes()...)
	key := freshKey()
	bodies := map[string]bool{}
	for _, token := range []string{w.token, colleague, stranger} {
		a := w.place(key, order(), as(token))
		wantCreated(t, a, "false")
		bodies[string(a.body)] = true
	}
	if len(bodies) != 3 {
		t.Error("one caller was given another's order")
	}
	w.wantRows(rows{3, 3, 3})
}

func TestRotatedAPIKeyKeepsTheScope(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	first := w.place(key, order())
	_, rotated := w.principal("acme", "shop", identity.TenantScopes()...)
	wantReplay(t, first, w.place(key, order(), as(rotated)))
}

// Case 45, and the promise that a stored rejection outlives its reason.
func TestRejectionIsStoredAndReplayed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.coupon(orders.Coupon{Code: "EXPIRED10", Percent: 10, ValidFrom: distantPast, ValidUntil: distantPast.AddDate(1, 0, 0)})
	key, body := freshKey(), order(set("coupon_code", "EXPIRED10"))
	first := w.place(key, body)
	wantProblem(t, first, 422, "coupon_expired")
	if first.header.Get("Idempotency-Replayed") != "false" || first.header.Get("Idempotency-Key-Expires") == "" {
		t.Errorf("a stored rejection says so: %v", first.header)
	}
	w.wantRows(rows{0, 1, 0})
	w.exec(`UPDATE coupons SET valid_until = now() + interval '1 hour'`)
	wantReplay(t, first, w.place(key, body))
	wantCreated(t, w.place(freshKey(), body), "false")
}

func TestEveryCouponRejectionHasItsCode(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.coupon(orders.Coupon{Code: "ONCE", Percent: 50, MaxRedemptions: 1})
	w.coupon(orders.Coupon{Code: "DOLLARS", AmountMinor: 100, Currency: "USD"})
	w.coupon(orders.Coupon{Code: "FUTURE", Percent: 10, ValidFrom: distantFuture, ValidUntil: distantFuture.AddDate(1, 0, 0)})
	coupon := func(code string) string { return order(set("coupon_code", code)) }
	wantCreated(t, w.place(freshKey(), coupon("ONCE")), "false")
	for code, want := range map[string]string{
		"ONCE": "coupon_exhausted", "NONE": "coupon_unknown", "DOLLARS": "coupon_not_applicable", "FUTURE": "coupon_not_applicable",
	} {
		key := freshKey()
		first := w.place(key, coupon(code))
		wantProblem(t, first, 422, want)
		wantReplay(t, first, w.place(key, coupon(code)))
	}
}

// Case 5: the refusal is stored by the transaction that met it.
func TestCheckoutHasOneOrderForEver(t *testing.T) {
	t.Parallel()
	w := setup(t)
	body := order(set("checkout_id", "cart-1"))
	first := w.place(freshKey(), body)
	wantCreated(t, first, "false")
	key := freshKey()
	second := w.place(key, body)
	wantProblem(t, second, 409, "checkout_already_ordered")
	if second.header.Get("Location") != first.header.Get("Location") {
		t.Errorf("Location %q, want the order's %q", second.header.Get("Location"), first.header.Get("Location"))
	}
	wantReplay(t, second, w.place(key, body))
	w.wantRows(rows{1, 2, 1})
	w.exec(`DELETE FROM idempotency_requests`) // long after retention
	wantProblem(t, w.place(freshKey(), body), 409, "checkout_already_ordered")
	_, stranger := w.principal("globex", "shop", identity.TenantScopes()...)
	wantCreated(t, w.place(freshKey(), body, as(stranger)), "false")
}

// A redemption counted before its order was refused must not be committed.
func TestRefusedOrderRedeemsNoCoupon(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.coupon(orders.Coupon{Code: "ONCE", Percent: 50, MaxRedemptions: 1})
	body := order(set("checkout_id", "cart-1"))
	wantCreated(t, w.place(freshKey(), body), "false")
	withCoupon := order(set("checkout_id", "cart-1"), set("coupon_code", "ONCE"))
	wantProblem(t, w.place(freshKey(), withCoupon), 409, "checkout_already_ordered")
	wantCreated(t, w.place(freshKey(), order(set("coupon_code", "ONCE"))), "false")
}

func TestExpiredKeyIsFree(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	first := w.place(key, order())
	w.exec(`UPDATE idempotency_requests SET expires_at = now() - interval '1 second'`)
	second := w.place(key, order(set("currency", "USD")))
	wantCreated(t, second, "false")
	if first.header.Get("Location") == second.header.Get("Location") {
		t.Error("an expired key replayed its old order")
	}
	w.wantRows(rows{2, 1, 2})
}

func TestIncompleteRecordRunsNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	wantCreated(t, w.place(key, order()), "false")
	w.exec(`UPDATE idempotency_requests SET response_status = NULL, response_headers = NULL, response_body = NULL, resource_type = NULL, resource_id = NULL,
		completed_at = NULL, expires_at = NULL`)
	w.restart(defaultConfig())
	wantProblem(t, w.place(key, order()), 500, "idempotency_record_incomplete")
	w.wantRows(rows{1, 1, 1})
}
