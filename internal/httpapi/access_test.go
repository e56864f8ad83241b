package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"orderonce/internal/identity"
)

func TestEveryPrivateRouteAsksWhoAndWhether(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, powerless := w.principal("acme", "powerless")
	_, revoked := w.principal("acme", "leaver", identity.TenantScopes()...)
	wantCreated(t, w.place(freshKey(), order(), as(revoked)), "false") // now it is remembered
	w.exec(`UPDATE api_keys SET revoked_at = now() FROM principals p WHERE p.id = principal_id AND p.name = 'leaver'`)
	before := w.rows()
	routes := map[string]func(...option) answer{
		"createOrder":             func(o ...option) answer { return w.place(freshKey(), order(), o...) },
		"createOrder, broken too": func(o ...option) answer { return w.place("", "{", o...) },
		"getOrder":                func(o ...option) answer { return w.get("/orders/"+freshKey(), o...) },
		"listOrders":              func(o ...option) answer { return w.get("/orders", o...) },
	}
	credentials := map[string]struct {
		option option
		status int
		code   string
	}{
		"none":            {with("Authorization"), 401, "unauthenticated"},
		"another scheme":  {with("Authorization", "Basic "+w.token), 401, "unauthenticated"},
		"two":             {with("Authorization", "Bearer "+w.token, "Bearer "+w.token), 401, "unauthenticated"},
		"empty":           {as(""), 401, "unauthenticated"},
		"mistyped":        {as(w.token[:len(w.token)-1] + "7"), 401, "unauthenticated"},
		"NUL":             {as("oo_live_%00"), 401, "unauthenticated"},
		"long":            {as(strings.Repeat("x", 4000)), 401, "unauthenticated"},
		"revoked":         {as(revoked), 401, "unauthenticated"},
		"without a scope": {as(powerless), 403, "forbidden"},
	}
	for route, send := range routes {
		for name, c := range credentials {
			a := send(c.option)
			if a.status != c.status || a.Code != c.code {
				t.Errorf("%s with %s: got %d %s", route, name, a.status, a.body)
			}
			if c.status == 401 && a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %s: no WWW-Authenticate", route, name)
			}
		}
	}
	w.wantRows(before)
}

// A revocation counts from the next request, replays included.
func TestRevokedKeyGetsNoReplay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	first := w.place(key, order())
	wantReplay(t, first, w.place(key, order()))
	for name, change := range map[string]struct{ revoke, restore string }{
		"key revoked":        {`UPDATE api_keys SET revoked_at = now()`, `UPDATE api_keys SET revoked_at = NULL`},
		"key expired":        {`UPDATE api_keys SET expires_at = now()`, `UPDATE api_keys SET expires_at = NULL`},
		"principal inactive": {`UPDATE principals SET active = false`, `UPDATE principals SET active = true`},
		"tenant inactive":    {`UPDATE tenants SET active = false`, `UPDATE tenants SET active = true`},
	} {
		w.exec(change.revoke)
		a := w.place(key, order())
		wantProblem(t, a, 403, "replay_forbidden")
		if strings.Contains(string(a.body), "customer-1") {
			t.Errorf("%s: %s", name, a.body)
		}
		wantProblem(t, w.place(freshKey(), order()), 401, "unauthenticated")
		w.exec(change.restore)
		wantReplay(t, first, w.place(key, order()))
	}
	w.exec(`UPDATE api_keys SET scopes = '{orders:read}'`)
	wantProblem(t, w.place(key, order()), 403, "replay_forbidden")
	w.wantRows(rows{1, 1, 1})
}

// Promise 7: another tenant's order looks like one that never was.
func TestOtherTenantsOrdersLookAbsent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, stranger := w.principal("globex", "shop", identity.TenantScopes()...)
	placed := w.place(freshKey(), order(set("checkout_id", "cart-1")))
	foreign := w.get(placed.header.Get("Location"), as(stranger))
	absent := w.get("/orders/"+freshKey(), as(stranger))
	wantProblem(t, foreign, 404, "not_found")
	hide := func(a answer) string { return strings.ReplaceAll(string(a.body), a.RequestID, "") }
	if hide(foreign) != hide(absent) {
		t.Errorf("they can be told apart:\n%s\n%s", foreign.body, absent.body)
	}
	if list := w.get("/orders?checkout_id=cart-1", as(stranger)); string(list.body) != "{\"orders\":[]}\n" {
		t.Errorf("the list shows %s", list.body)
	}
}

func TestListPagesNewestFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var want []string
	for i := range 5 {
		a := w.place(freshKey(), order(set("checkout_id", fmt.Sprint("cart-", i))))
		want = append([]string{strings.TrimPrefix(a.header.Get("Location"), "/orders/")}, want...)
	}
	var got []string
	for token := ""; ; {
		path := "/orders?page_size=2"
		if token != "" {
			path += "&page_token=" + token
		}
		page := listOf(t, w.get(path))
		for _, o := range page.Orders {
			got = append(got, o.Id.String())
		}
		if page.NextPageToken == nil {
			break
		}
		token = *page.NextPageToken
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %v, want %v", got, want)
	}
	if page := listOf(t, w.get("/orders?checkout_id=cart-3")); len(page.Orders) != 1 || *page.Orders[0].CheckoutId != "cart-3" {
		t.Errorf("filtered by checkout: %+v", page)
	}
	if page := listOf(t, w.get("/orders?status=confirmed")); len(page.Orders) != 0 {
		t.Errorf("filtered by status: %+v", page)
	}
	if page := listOf(t, w.get("/orders?status=pending")); len(page.Orders) != 5 || page.NextPageToken != nil {
		t.Errorf("filtered by status: %+v", page)
	}
}

func TestPublicRoutesNeedNoCredential(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, path := range []string{"/livez", "/readyz", "/openapi.yaml", "/problems/coupon_expired"} {
		if a := w.get(path, with("Authorization")); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	w.server.Drain()
	wantProblem(t, w.get("/readyz"), 503, "unavailable")
	wantCreated(t, w.place(freshKey(), order()), "false") // what still arrives is still answered
}
