package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"orderonce/internal/identity"
)

// bodied sends a body to each operation that takes an order, under a key or a name that nobody has used.
func (w *world) bodied() map[string]func(body string, options ...option) answer {
	w.t.Helper()
	all := map[string]func(string, ...option) answer{
		"createOrder": func(body string, options ...option) answer { return w.place(freshKey(), body, options...) },
		"putOrder": func(body string, options ...option) answer {
			return w.send(http.MethodPut, "/client-orders/"+freshKey(), strings.NewReader(body),
				append([]option{with("Content-Type", "application/json")}, options...)...)
		},
	}
	placed := w.server.spec.doc.Components.Schemas["PlaceOrder"].Value
	for _, o := range w.server.spec.operations {
		if _, known := all[o.id]; o.body == placed && !known {
			w.t.Errorf("%s takes an order: it must be tried too", o.id)
		}
	}
	return all
}

func wantMade(t *testing.T, a answer) {
	t.Helper()
	if a.status != http.StatusCreated {
		t.Errorf("got %d, want 201: %s", a.status, a.body)
	}
}

// absent fills a path's parameters with values that are valid and name nothing.
func absent(path string) string {
	return strings.NewReplacer("{code}", "internal", "{orderId}", freshKey(), "{clientOrderId}", freshKey(), "{key}", freshKey(),
		"{tenantId}", freshKey(), "{principalId}", freshKey(), "{apiKeyId}", freshKey(), "{effectId}", freshKey(),
		"{taskId}", freshKey(), "{webhookId}", freshKey()).Replace(path)
}

// addresses are the places of every operation, its parameters absent ones.
func (w *world) addresses() map[*operation]string {
	all := map[*operation]string{}
	for _, o := range w.server.spec.operations {
		all[o] = absent(o.route.Path)
		if strings.Contains(all[o], "{") {
			w.t.Errorf("%s: the test does not know what to put into its path", o.id)
		}
	}
	return all
}

// bodyFor is a valid body of an operation that takes one.
func bodyFor(o *operation) string {
	if o.rows != nil {
		return importOf(row("mine-" + freshKey()))
	}
	if o.id == "createOrder" || o.id == "putOrder" {
		return order()
	}
	body := map[string]any{}
	for name, value := range map[string]any{
		"name": "absent", "reason": "a test", "principal_id": freshKey(), "scopes": []string{identity.OrdersRead},
		"move": "succeed", "evidence": "a test", "url": "https://hooks.example/",
	} {
		if o.body.Properties[name] != nil {
			body[name] = value
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// ask sends what an operation needs and no more.
func (w *world) ask(o *operation, address string, options ...option) answer {
	w.t.Helper()
	options = append([]option{as(w.tokenFor(o))}, options...)
	if o.policy != nil {
		options = append([]option{with(keyHeader, freshKey())}, options...)
	}
	if o.body == nil {
		return w.send(o.route.Method, address, nil, options...)
	}
	return w.send(o.route.Method, address, strings.NewReader(bodyFor(o)), append([]option{with("Content-Type", "application/json")}, options...)...)
}

// What no operation knows is refused by every one of them, and what a query is made of too.
func TestEveryOperationRefusesAnUnknownQuery(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for o, address := range w.addresses() {
		for query, place := range map[string]string{"unknown=1": "?unknown", "=1": "?", "Status=pending": "?Status", "unknown=%00%ff": "?unknown"} {
			a := w.ask(o, address+"?"+query)
			wantProblem(t, a, 400, "invalid_request")
			found := false
			for _, e := range a.Errors {
				found = found || e.Pointer == place
			}
			if !found {
				t.Errorf("%s?%s: want a fault at %s: %s", o.id, query, place, a.body)
			}
		}
		for _, query := range []string{"%", "%zz=1", "a=%f", "a;b=c"} {
			wantProblem(t, w.ask(o, address+"?"+query), 400, "invalid_request")
		}
	}
	w.wantRows(rows{})
}

// Every parameter in a path is judged by its schema, whatever way its characters were written.
func TestEveryOperationJudgesItsPath(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for o := range w.addresses() {
		for _, part := range strings.Split(o.route.Path, "/") {
			if !strings.HasPrefix(part, "{") {
				continue
			}
			for _, value := range []string{"%00", "%FF", "%ED%A0%80", "a%2Fb", "a%2fcancel", "%20", "a%0Ab", "%E6%BC%A2", strings.Repeat("a", 129), "..%2F..%2Flivez", "%252F"} {
				a := w.ask(o, absent(strings.Replace(o.route.Path, part, value, 1)))
				wantProblem(t, a, 400, "invalid_request")
				if len(a.Errors) == 0 || a.Errors[0].Pointer != part {
					t.Errorf("%s %s: want a fault at %s: %s", o.id, value, part, a.body)
				}
			}
		}
	}
	w.wantRows(rows{})
}

// The version of the contract is judged wherever it is taken, and its default is the current one.
func TestEveryVersionedOperationJudgesTheVersion(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for o, address := range w.addresses() {
		if o.route.Operation.Parameters.GetByInAndName("header", "API-Version") == nil {
			continue
		}
		for _, values := range [][]string{{"1999-01-01"}, {"2026-11-1"}, {"2026-11-0"}, {""}, {"2026-11-01", "2026-11-01"}, {"2026-11-01, 2026-11-01"}, {"\xff"}} {
			if a := w.ask(o, address, with("API-Version", values...)); a.status != 400 || a.Code != "invalid_request" {
				t.Errorf("%s with %q: %d %s", o.id, values, a.status, a.body)
			}
		}
	}
	w.wantRows(rows{})
}

// Every private operation asks first who it is, before it says anything about the request.
func TestEveryPrivateOperationAsksWhoFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, powerless := w.principal("acme", "powerless")
	for o, address := range w.addresses() {
		broken := []option{with(keyHeader, "short"), with("Content-Type", "text/plain"), with("API-Version", "x")}
		if o.scope == "" {
			continue
		}
		for name, credential := range map[string][]string{
			"none": nil, "empty": {""}, "another scheme": {"Basic " + w.token}, "no token": {"Bearer"}, "two": {"Bearer " + w.token, "Bearer " + w.token},
			"two spaces": {"Bearer  " + w.token}, "more": {"Bearer " + w.token + " x"}, "strange bytes": {"Bearer oo_live_\xff"}, "long": {"Bearer " + strings.Repeat("x", 8000)},
		} {
			a := w.ask(o, address+"?unknown=1", append(broken, with("Authorization", credential...))...)
			if a.status != 401 || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %s: %d %s", o.id, name, a.status, a.body)
			}
		}
		wantProblem(t, w.ask(o, address+"?unknown=1", append(broken, as(powerless))...), 403, "forbidden")
	}
	w.wantRows(rows{})
}

// A key is judged by every operation that takes one, in all its wrong forms.
func TestEveryKeyedOperationJudgesTheKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for o, address := range w.addresses() {
		if o.policy == nil {
			continue
		}
		for code, forms := range map[string][][]string{
			"idempotency_key_missing": {nil, {""}, {" "}},
			"idempotency_key_invalid": {
				{"fifteen-chars-x"},
				{strings.Repeat("x", 129)},
				{`"` + strings.Repeat("x", 129) + `"`},
				{`"fifteen-chars-x"`},
				{freshKey(), freshKey()},
				{`""`},
				{`"sixteen-chars-xx`},
				{`sixteen-chars-xx"`},
				{`'sixteen-chars-xx'`},
				{"sixteen-chars-x/"},
				{"sixteen-chars-xé"},
				{"sixteen-chars-x\xff"},
				{"sixteen-chars-xx;a=1"},
				{"sixteen\tchars-xx"},
			},
		} {
			for _, form := range forms {
				a := w.ask(o, address, with(keyHeader, form...))
				wantProblem(t, a, 400, code)
			}
		}
	}
	w.wantRows(rows{})
}

// JSON has many spellings of one document. They are one order, and the handler reads them all.
func TestSpellingOfABodyMakesNoOtherOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	plain := `{"customer_id":"c","currency":"EUR","shipping_address_id":"a","metadata":{},"client_sent_at":"2026-11-01T10:00:00Z",` +
		`"items":[{"sku":"é😀/","quantity":1,"unit_price_minor":5}]}`
	spelled := "\r\n{\t\"items\" : [ {\"unit_price_minor\":5,\n\"sku\":\"\\u00e9\\uD83D\\ude00\\/\",\"\\u0071uantity\":1} ],\"client_sent_at\":\"\\u0032" +
		"026-11-01T10:00:00\\u005a\",\"metadata\":{ },\"shipping_address_id\":\"\\u0061\",\"currency\":\"E\\u0055R\",\"customer_id\":\"c\"} \n"
	key := freshKey()
	for name, send := range map[string]func(body string) answer{
		"createOrder": func(body string) answer { return w.place(key, body) },
		"putOrder":    func(body string) answer { return w.put("mine", body) },
	} {
		first, second := send(spelled), send(plain)
		if first.status != 201 || second.status >= 300 || string(first.body) != string(second.body) {
			t.Errorf("%s: %d %s\n%d %s", name, first.status, first.body, second.status, second.body)
		}
	}
	w.wantRows(rows{2, 1, 2})
}
