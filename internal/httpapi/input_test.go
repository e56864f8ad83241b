package httpapi

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Case 22 and its kind: input that must meet a clear 4xx and leave nothing behind.
func TestHostileInputLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := setup(t)
	valid := order()
	put := func(member string) string { return strings.Replace(valid, `{`, `{`+member+`,`, 1) }
	price := func(literal string) string { return strings.Replace(valid, "1250", literal, 1) }
	item := `{"sku":"M","quantity":100000,"unit_price_minor":1000000000000}`
	tests := map[string]struct {
		body    string
		code    string
		pointer string
	}{
		"empty":                       {"", "invalid_request", ""},
		"white space":                 {" \n", "invalid_request", ""},
		"no object":                   {`[]`, "validation_failed", ""},
		"null":                        {`null`, "validation_failed", ""},
		"half a document":             {valid[:len(valid)/2], "invalid_request", ""},
		"trailing bytes":              {valid + "x", "invalid_request", ""},
		"two documents":               {valid + valid, "invalid_request", ""},
		"a duplicate member":          {put(`"currency":"EUR"`), "invalid_request", "/currency"},
		"a nested duplicate":          {put(`"metadata":{"a":"1","a":"2"}`), "invalid_request", "/metadata/a"},
		"an unknown member":           {put(`"total_minor":1`), "validation_failed", ""},
		"NUL in a string":             {put(`"coupon_code":"a\u0000b"`), "invalid_request", "/coupon_code"},
		"NUL in a name":               {put(`"metadata":{"\u0000":"1"}`), "invalid_request", ""},
		"a raw control character":     {put("\"coupon_code\":\"a\x01b\""), "invalid_request", ""},
		"a lone surrogate":            {put(`"metadata":{"a":"\ud800"}`), "invalid_request", ""},
		"invalid UTF-8":               {put("\"metadata\":{\"a\":\"\xff\"}"), "invalid_request", ""},
		"a byte order mark":           {"\xef\xbb\xbf" + valid, "invalid_request", ""},
		"a nesting bomb":              {put(`"metadata":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)), "invalid_request", ""},
		"a fraction":                  {price("12.5"), "invalid_request", "/items/0/unit_price_minor"},
		"an exponent":                 {price("1e3"), "invalid_request", "/items/0/unit_price_minor"},
		"minus zero":                  {price("-0"), "invalid_request", "/items/0/unit_price_minor"},
		"past int64":                  {price("9223372036854775808"), "invalid_request", "/items/0/unit_price_minor"},
		"a huge number":               {price(strings.Repeat("9", 10_000)), "invalid_request", "/items/0/unit_price_minor"},
		"a negative price":            {price("-1"), "validation_failed", "/items/0/unit_price_minor"},
		"a price past the maximum":    {price("1000000000001"), "validation_failed", "/items/0/unit_price_minor"},
		"a string for a number":       {price(`"1250"`), "validation_failed", "/items/0/unit_price_minor"},
		"totals that overflow":        {order(set("items", repeat(item, 200))), "validation_failed", "/items"},
		"too many items":              {order(set("items", repeat(`{"sku":"M","quantity":1,"unit_price_minor":1}`, 201))), "validation_failed", "/items"},
		"an unknown currency":         {order(set("currency", "XXZ")), "validation_failed", "/currency"},
		"a withdrawn currency":        {order(set("currency", "DEM")), "validation_failed", "/currency"},
		"a long string":               {order(set("customer_id", strings.Repeat("x", 65))), "validation_failed", "/customer_id"},
		"a long metadata value":       {order(set("metadata", map[string]any{"a": strings.Repeat("x", 501)})), "validation_failed", "/metadata/a"},
		"a long metadata name":        {order(set("metadata", map[string]any{strings.Repeat("x", 65): "1"})), "validation_failed", "/metadata"},
		"an empty metadata name":      {order(set("metadata", map[string]any{"": "1"})), "validation_failed", "/metadata"},
		"a time that is none":         {order(set("client_sent_at", "yesterday")), "validation_failed", "/client_sent_at"},
		"a leap second":               {order(set("client_sent_at", "2026-12-31T23:59:60Z")), "validation_failed", "/client_sent_at"},
		"null for a default":          {order(set("metadata", nil)), "validation_failed", "/metadata"},
		"an id with a forbidden mark": {order(set("checkout_id", "a b")), "validation_failed", "/checkout_id"},
	}
	for operation, send := range w.bodied() {
		keep := keepKey
		if w.server.spec.policyOf(operation) == nil {
			keep = noKey
		}
		for name, test := range tests {
			a := send(test.body)
			if a.Code != test.code || a.status >= 500 {
				t.Errorf("%s, %s: got %d %s, want %s", operation, name, a.status, a.body, test.code)
			}
			if test.pointer != "" && (len(a.Errors) == 0 || a.Errors[0].Pointer != test.pointer) {
				t.Errorf("%s, %s: want a fault at %s: %s", operation, name, test.pointer, a.body)
			}
			if a.KeyAction != keep {
				t.Errorf("%s, %s: the key was consumed: %s", operation, name, a.body)
			}
		}
	}
	w.wantRows(rows{})
}

func repeat(item string, n int) rawJSON {
	return rawJSON("[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]")
}

type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// Case 10: integers that a float64 would merge.
func TestBigIntegersStayApart(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1 << 53, 1<<53 + 1, math.MaxInt64} {
		document, err := decode([]byte(strconv.FormatInt(n, 10)))
		if err != nil || document != n {
			t.Errorf("%d was read as %v, %v", n, document, err)
		}
	}
	if _, err := decode([]byte("9223372036854775808")); err == nil {
		t.Error("2^63 was read")
	}
}

func TestKeyIsJudgedBeforeAnyDatabaseWork(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, test := range map[string]struct {
		values []string
		code   string
	}{
		"missing":         {nil, "idempotency_key_missing"},
		"empty":           {[]string{""}, "idempotency_key_missing"},
		"repeated":        {[]string{freshKey(), freshKey()}, "idempotency_key_invalid"},
		"short":           {[]string{"abcdefghijklmno"}, "idempotency_key_invalid"},
		"long":            {[]string{strings.Repeat("x", 129)}, "idempotency_key_invalid"},
		"half quoted":     {[]string{`"abcdefghijklmnopq`}, "idempotency_key_invalid"},
		"other alphabet":  {[]string{"abcdefghijklmnöpq"}, "idempotency_key_invalid"},
		"a list":          {[]string{"abcdefghijklmnop, abcdefghijklmnop"}, "idempotency_key_invalid"},
		"inner space":     {[]string{"abcdefgh ijklmnop"}, "idempotency_key_invalid"},
		"a quoted escape": {[]string{`"abcdefghijklmnop\""`}, "idempotency_key_invalid"},
	} {
		a := w.place("", order(), with(keyHeader, test.values...))
		if a.status != 400 || a.Code != test.code {
			t.Errorf("%s: got %d %s, want %s", name, a.status, a.body, test.code)
		}
	}
	w.wantRows(rows{})
	for _, key := range []string{strings.Repeat("x", 16), strings.Repeat("x", 128), "AZaz09._~:-AZaz09"} {
		wantCreated(t, w.place(key, order()), "false")
	}
}

// Case 23: limits are bytes, with and without a Content-Length.
func TestBodyLimitIsInBytes(t *testing.T) {
	t.Parallel()
	config := defaultConfig()
	config.MaxBody = 2000
	w := setupWith(t, config)
	padded := func(bytes int) string {
		body := order()
		return body[:1] + strings.Repeat(" ", bytes-len(body)) + body[1:]
	}
	chunked := func(r *http.Request) { r.ContentLength = -1; r.Body = io.NopCloser(r.Body) }
	multibyte := order(set("metadata", map[string]any{"a": strings.Repeat("漢", 450), "b": strings.Repeat("漢", 450)}))
	for _, send := range w.bodied() {
		wantMade(t, send(padded(1999)))
		wantMade(t, send(padded(2000)))
		wantMade(t, send(padded(2000), chunked))
		wantProblem(t, send(padded(2001)), 413, "body_too_large")
		wantProblem(t, send(padded(2001), chunked), 413, "body_too_large")
		wantProblem(t, send(multibyte), 413, "body_too_large") // about 1100 characters
	}
	w.wantRows(rows{6, 3, 6})
}

func TestMediaType(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, send := range w.bodied() {
		for _, accepted := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset=\"UTF-8\""} {
			wantMade(t, send(order(), with("Content-Type", accepted)))
		}
		wantMade(t, send(order(), with("Content-Encoding", "identity")))
		for _, refused := range [][]string{
			nil,
			{""},
			{"/"},
			{"text/plain"},
			{"application/json; charset=latin1"},
			{"application/json; version=1"},
			{"application/problem+json"},
			{"application/json", "application/json"},
			{"application/json, text/plain"},
		} {
			wantProblem(t, send(order(), with("Content-Type", refused...)), 415, "unsupported_media_type")
		}
		for _, refused := range [][]string{{"gzip"}, {"br"}, {"identity", "identity"}, {"identity, gzip"}} {
			wantProblem(t, send(order(), with("Content-Encoding", refused...)), 415, "unsupported_media_type")
		}
	}
	w.wantRows(rows{8, 4, 8})
}

func TestParametersAreChecked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for path, place := range map[string]string{
		"/orders?limit=1":                    "?limit",
		"/orders?page_size=0":                "?page_size",
		"/orders?page_size=101":              "?page_size",
		"/orders?page_size=x":                "?page_size",
		"/orders?page_size=1&page_size=2":    "?page_size",
		"/orders?status=lost":                "?status",
		"/orders?checkout_id=%00":            "?checkout_id",
		"/orders?checkout_id=":               "?checkout_id",
		"/orders?page_token=x":               "?page_token",
		"/orders?page_token=%ff":             "?page_token",
		"/orders/not-a-uuid":                 "{orderId}",
		"/orders/%00":                        "{orderId}",
		"/orders/" + strings.Repeat("0", 36): "{orderId}",
	} {
		a := w.get(path)
		if a.status != 400 || a.Code != "invalid_request" || len(a.Errors) != 1 || a.Errors[0].Pointer != place {
			t.Errorf("%s: want a fault at %s: %d %s", path, place, a.status, a.body)
		}
		if a.KeyAction != "none" {
			t.Errorf("%s: there is no key to act on: %s", path, a.body)
		}
	}
	wantProblem(t, w.get("/orders?page_size=%"), 400, "invalid_request")
	wantProblem(t, w.place(freshKey(), order(), with("API-Version", "1999-01-01")), 400, "invalid_request")
	wantCreated(t, w.place(freshKey(), order(), with("API-Version", "2026-11-01")), "false")
	// RFC 7240: the lines of Prefer are one list.
	wantCreated(t, w.place(freshKey(), order(), with("Prefer", "respond-async", "wait=1")), "false")
}

func TestUnknownRoutesAndMethodsAreProblems(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, path := range []string{"/", "/order", "/orders/", "/orders/x/y", "/problems/"} {
		wantProblem(t, w.get(path), 404, "not_found")
	}
	for path, allow := range map[string]string{"/orders": "GET, HEAD, POST", "/orders/" + freshKey(): "GET, HEAD", "/livez": "GET, HEAD"} {
		a := w.send(http.MethodPatch, path, nil)
		wantProblem(t, a, 405, "method_not_allowed")
		if a.header.Get("Allow") != allow {
			t.Errorf("%s: Allow %q, want %q", path, a.header.Get("Allow"), allow)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{order(), `{"a":[1,"\u0000",null,true,-0,1e9]}`, `[[[[`, `"\ud800"`, `9223372036854775808`, "\xff", `{} {}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		value, err := decode(document)
		if err != nil {
			if status, _, _ := renderProblem(&call{}, err); status != 400 {
				t.Fatalf("answered %d: %v", status, err)
			}
			return
		}
		again, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(again); err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
	})
}
