package secrets

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"

	"orderonce/cmd/orderonce/orderoncetest"
)

// request is one that carries marks.
type request struct {
	name         string
	method, path string
	body         string
	header       http.Header
	refused      bool // where all is well
}

// tooLong is the request that the server hangs up on before all of it is sent, with its answer or without.
const tooLong = "too long"

// requests are one of each place that a client can put something, marked anew.
func (w *world) requests() (all []request) {
	mark := w.marks.new
	add := func(r request) { all = append(all, r) }

	// Every string of a body, in orders that are sound.
	orders := func(more map[string]any) string {
		word := func(field string) string { return mark(value, "body's "+field) }
		body := map[string]any{
			"customer_id": word("customer"), "shipping_address_id": word("address"), "currency": "EUR",
			"items":    []any{map[string]any{"sku": word("sku"), "quantity": 2, "unit_price_minor": 1250}},
			"metadata": map[string]any{mark(name, "metadata's name"): word("metadata")},
		}
		maps.Copy(body, more)
		text, err := json.Marshal(body)
		w.must(err)
		return string(text)
	}
	place := func(name, key, body string, refused bool, more ...http.Header) {
		header := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {key}}
		for _, h := range more {
			maps.Copy(header, h)
		}
		add(request{name: name, method: http.MethodPost, path: "/orders", body: body, header: header, refused: refused})
	}
	fresh := func() string { return mark(key, "idempotency key") }
	checkout := mark(value, "body's checkout")
	again, first := fresh(), orders(nil)
	place("an order", again, first, false)
	place("its replay, quoted", `"`+again+`"`, first, false)
	place("its key reused", again, orders(nil), false)
	place("a checkout", fresh(), orders(map[string]any{"checkout_id": checkout}), false)
	place("the checkout again", fresh(), orders(map[string]any{"checkout_id": checkout}), false)
	place("an unknown coupon", fresh(), orders(map[string]any{"coupon_code": mark(value, "coupon")}), false)
	place("a coupon", fresh(), orders(map[string]any{"coupon_code": "WELCOME10"}), false)
	add(request{
		name: "a client's order", method: http.MethodPut, path: "/client-orders/" + mark(value, "path"), body: orders(nil),
		header: http.Header{"Content-Type": {"application/json"}},
	})

	// Bodies that break a rule.
	for field, changes := range map[string]map[string]any{
		"currency": {"currency": mark(value, "currency")}, "long customer": {"customer_id": strings.Repeat(mark(value, "customer"), 3)},
		"customer of other characters": {"customer_id": mark(value, "customer") + " é"}, "number": {"customer_id": 7},
		"item": {"items": []any{map[string]any{"sku": mark(value, "sku"), "quantity": mark(value, "quantity"), "unit_price_minor": -1}}},
		"time": {"client_sent_at": mark(value, "time")}, "unknown member": {mark(name, "unknown member"): mark(value, "unknown member")},
		"metadata":              {"metadata": map[string]any{mark(name, "metadata's name"): []any{mark(value, "metadata")}}},
		"currency that is none": {"currency": "ZZZ"}, "coupon": {"coupon_code": mark(value, "coupon") + "ü"},
	} {
		place("a broken "+field, fresh(), orders(changes), true)
	}
	for what, body := range map[string]string{
		"no JSON":         mark(value, "text"),
		"half a string":   `{"customer_id": "` + mark(value, "half of a string"),
		"two of a member": fmt.Sprintf(`{%[1]q: 1, %[1]q: 2}`, mark(name, "doubled member")),
		"bad escape":      `{"customer_id": "` + mark(value, "escaped string") + `\x"}`,
		"NUL":             `{"customer_id": "` + mark(value, "string with NUL") + `\u0000"}`,
		"lone surrogate":  `{"customer_id": "` + mark(value, "string") + `\ud800"}`,
		"no UTF-8":        `{"customer_id": "` + mark(value, "string") + "\xff\"}",
		"a number":        `{"customer_id": 1e` + strings.Repeat("9", 30) + mark(value, "number") + `}`,
		"more behind it":  first + mark(value, "tail"),
		tooLong:           `{"customer_id": "` + strings.Repeat(mark(value, "long body"), 1<<14) + `"}`,
	} {
		place(what, fresh(), body, true)
	}
	place("a form", fresh(), "a="+mark(value, "form"), true, http.Header{"Content-Type": {"text/" + mark(value, "media type")}})

	// Keys that are none.
	for what, key := range map[string]string{
		"blanks": mark(key, "malformed key") + " b c", "half a quote": `"` + mark(key, "malformed key"), "long": strings.Repeat(mark(key, "long key"), 9),
	} {
		place("a key with "+what, key, first, true)
	}
	place("two keys", "", first, true, http.Header{"Idempotency-Key": {fresh(), fresh()}})

	// Credentials that give no access. Those of the tests' client are right.
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + mark(credential, "password")))
	w.marks.add(credential, "Basic credential", basic)
	for what, values := range map[string][]string{
		"of an ended key": {"Bearer " + w.ended}, "of no form": {"Bearer " + mark(credential, "bearer token")},
		"of half the form": {"Bearer oo_live_" + mark(credential, "bearer token") + "_" + mark(credential, "bearer token") + "_aaaaaaa"},
		"mistyped":         {"Bearer " + w.shop.Token + "a"}, "Basic": {"Basic " + basic}, "without a scheme": {mark(credential, "credential")},
		"twice": {"Bearer " + w.shop.Token, "Bearer " + w.shop.Token}, "JWT": {"Bearer eyJhbGciOiJub25lIn0." + mark(credential, "JWT") + "."},
	} {
		place("a credential "+what, fresh(), first, true, http.Header{"Authorization": values})
	}

	// Paths, queries and headers.
	get := func(path string, refused bool) {
		add(request{name: "GET", method: http.MethodGet, path: path, refused: refused})
	}
	get("/orders/"+mark(value, "path"), true)
	get("/orders/%00"+mark(value, "path"), true)
	get("/client-orders/"+mark(value, "path"), true)
	get("/idempotency-keys/"+again+"?operation=createOrder", false)
	get("/idempotency-keys/"+fresh()+"?operation="+mark(value, "query"), true)
	get("/"+mark(value, "path")+"/../"+mark(value, "path"), true)
	get("/problems/"+mark(value, "path"), true)
	get("/orders?checkout_id="+checkout, false)
	get("/orders?status="+mark(value, "query"), true)
	get("/orders?page_size="+mark(value, "query"), true)
	get("/orders?page_token="+mark(value, "query"), true)
	get("/orders?"+mark(name, "parameter")+"="+mark(value, "query"), true)
	get("/orders?api_key="+w.shop.Token, true)
	add(request{name: "an unknown method", method: mark(value, "method"), path: "/orders", refused: true})
	headers := http.Header{}
	for _, h := range []string{
		"Accept", "Api-Key", "Baggage", "Cookie", "Forwarded", "From", "If-Match", "Origin", "Proxy-Authorization", "Referer",
		"Traceparent", "Tracestate", "User-Agent", "X-Api-Key", "X-Forwarded-For", "X-Request-Id", "X-" + mark(name, "header's name"),
	} {
		headers.Set(h, mark(value, h))
	}
	place("a trace of the client's", fresh(), first, false, http.Header{
		"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		"Tracestate":  {"vendor=" + mark(value, "trace state")}, "Baggage": {"user=" + mark(value, "baggage")},
	})
	place("headers of all kinds", fresh(), first, false, headers)
	place("an unknown version", fresh(), first, true, http.Header{"Api-Version": {mark(value, "version")}})
	place("an unknown preference", fresh(), first, false, http.Header{"Prefer": {"wait=0, " + mark(value, "preference") + "=1"}})
	return all
}

// answer is a request's, or the error of a connection that was cut.
type answer struct {
	request
	orderoncetest.Answer
	err error
}

// send sends all at once: what waits for the database shall wait together.
func (w *world) send(requests []request) []answer {
	w.t.Helper()
	answers := make([]answer, len(requests))
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	var sent sync.WaitGroup
	for i, r := range requests {
		sent.Go(func() {
			answers[i].request = r
			answers[i].Answer, answers[i].err = w.try(&client, r)
		})
	}
	sent.Wait()
	return answers
}

func (w *world) try(client *http.Client, r request) (a orderoncetest.Answer, err error) {
	out, err := http.NewRequestWithContext(w.t.Context(), r.method, w.server.BaseURL+r.path, strings.NewReader(r.body))
	if err != nil {
		return a, err
	}
	out.Header.Set("Authorization", "Bearer "+w.shop.Token)
	maps.Copy(out.Header, r.header)
	response, err := client.Do(out)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return orderoncetest.Answer{Status: response.StatusCode, Header: response.Header, Body: string(text)}, err
}
