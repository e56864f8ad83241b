package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// hostile are strings that have broken other servers.
var hostile = []string{
	"", " ", "\x00", "%00", "%", "%zz", "..", "../../etc/passwd", "'; DROP TABLE orders; --", "\" OR 1=1", "${jndi:ldap://x}", "{{7*7}}", "\xff\xfe", "\xed\xa0\x80",
	"\u202e", "\ufeff", strings.Repeat("a", 300), strings.Repeat("é", 5000), "null", "true", "-1", "1e400", "NaN", "0x10", "+1", "１", "00000000-0000-0000-0000-000000000000",
	"ffffffff-ffff-ffff-ffff-ffffffffffff", "a,b", "a;b=c", "[]", "{}", "<script>", "\r\nX-Injected: 1", "💥", "_", ".",
}

// hostileDocuments are values that no member has.
var hostileDocuments = []any{
	literal("null"), literal("-0"), literal("1.0"), literal("1e2"), literal("-9223372036854775809"), literal("1e999999"), literal(`"\ud800\ud800"`), literal(`"\u0000"`), literal(""), literal("}"),
	literal("'x'"), literal("// x\n1"), literal("[1,]"), literal("\x01"), literal("tru"), literal(`{"a":1,"a":1}`), literal(strings.Repeat("[", 20) + strings.Repeat("]", 20)),
	literal(strings.Repeat(`{"a":`, 3000)), true, int64(-1), int64(0), int64(1) << 62,
	[]any{},
	map[string]any{},
	[]any{[]any{[]any{}}},
}

var methods = []string{
	"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PURGE", "post", "M-SEARCH", strings.Repeat("X", 500), "G\tT", "G@T", "PRI",
}

// fields are headers of which the service should make nothing, or refuse what it cannot make anything of.
var fields = []pair{
	{"Idempotency-Key", "short"},
	{"Idempotency-Key", `"half-quoted-0123456789`},
	{"Idempotency-Key", "0123456789abcdef, 0123456789abcdef"},
	{"Idempotency-Key", ""},
	{"Idempotency-Key", "0123456789abcd\xff"},
	{"API-Version", "2020-01-01"},
	{"API-Version", ""},
	{"API-Version", "2026-11-01"},
	{"API-Version", "\xff"},
	{"Prefer", "wait=0"},
	{"Prefer", "wait=1, respond-async"},
	{"Prefer", "wait=99999999999999999999"},
	{"Prefer", "wait=-1"},
	{"Prefer", "WAIT = 1"},
	{"Prefer", ",;=\","},
	{"Prefer", strings.Repeat("a", 201)},
	{"Content-Type", "text/plain"},
	{"Content-Type", "application/json;charset=utf-16"},
	{"Content-Type", "application/json; boundary=x"},
	{"Content-Type", "/"},
	{"Content-Type", ""},
	{"Content-Type", "application/json, application/json"},
	{"Content-Encoding", "gzip"},
	{"Content-Encoding", "identity"},
	{"Content-Encoding", ""},
	{"Authorization", "Bearer"},
	{"Authorization", "Basic eDp5"},
	{"Authorization", "Bearer oo_live_\xff"},
	{"Authorization", ""},
	{"Expect", "100-continue"},
	{"Expect", "200-ok"},
	{"Connection", "close"},
	{"Connection", "Upgrade"},
	{"Upgrade", "h2c"},
	{"Upgrade", "websocket"},
	{"Host", "second.example"},
	{"Host", "\xff"},
	{"Transfer-Encoding", "gzip, chunked"},
	{"Transfer-Encoding", "identity"},
	{"Transfer-Encoding", "chunked"},
	{"Content-Length", "1"},
	{"Content-Length", "-1"},
	{"Content-Length", "0x1"},
	{"TE", "trailers"},
	{"Trailer", "Idempotency-Key"},
	{"Accept", "text/plain"},
	{"Accept-Encoding", "gzip, br"},
	{"If-None-Match", "*"},
	{"If-Match", `"0"`},
	{"Range", "bytes=0-1"},
	{"X-HTTP-Method-Override", "DELETE"},
	{"X-Original-URL", "/livez"},
	{"X-Request-Id", "mine"},
	{"X-Forwarded-For", "127.0.0.1"},
	{"Cookie", "a=b; a=b; =;"},
	{"traceparent", "00-x"},
	{"Bad Name", "x"},
	{"", "x"},
	{"X-Control", "a\x01b"},
	{"X-Long", strings.Repeat("x", 30_000)},
}

var targets = []string{
	"*", "//", "/./", "/..", "http://elsewhere.example", "http://elsewhere.example/orders", "http:///orders", "/%", "/%zz", "/\xff", "/%ff", "/%00", "/orders%2F", "/orders%2fx%2fcancel",
	"//orders", "/orders//", "/orders/", "/orders/../orders", "/orders/%2e%2e/orders", "/ORDERS", "/orders;a=b", "/orders?", "/orders?#", "/orders#x", "/%6frders", "/orders/./x", "elsewhere.example:443", "/orders\x7f",
	"/" + strings.Repeat("a", 9000), "/" + strings.Repeat("a/", 4000), "/problems/%2e", "/idempotency-keys/%22aaaaaaaaaaaaaaaa%22?operation=createOrder", "/{orderId}", "?", "",
}

// mutate changes something about a request, in a way that leaves open whether it is still valid.
func (g *generator) mutate(r *request) *request {
	r = r.copied("", anything)
	kinds := 9
	if r.o.body != nil {
		kinds = 14 // the last are about the body
	}
	switch kind := g.IntN(kinds); kind {
	case 0:
		r.method = choose(g, methods...)
		r.why = "method " + r.method
	case 1:
		r.target = choose(g, targets...)
		r.why = "target"
	case 2:
		r.target = g.bend(r.where())
		r.why = "bent target"
	case 3:
		if len(r.path) > 0 {
			r.path[choose(g, sorted(r.path)...)] = choose(g, hostile...)
		}
		r.why = "path"
	case 4:
		name := "unknown"
		if len(r.query) > 0 && g.chance(70) {
			name = choose(g, r.query...).name
		}
		r.query = append(r.query, pair{choose(g, name, name, choose(g, hostile...)), choose(g, hostile...)})
		r.why = "query"
	case 5:
		f := choose(g, fields...)
		r.set(f.name, f.value)
		r.why = "header " + f.name
	case 6:
		f := choose(g, append(fields, r.header...)...)
		r.header = append(r.header, f)
		r.why = "another header " + f.name
	case 7:
		r.header = r.header[g.IntN(len(r.header)+1):]
		r.why = "headers missing"
	case 8:
		for i := range choose(g, 10, 100, 1000) {
			r.header = append(r.header, pair{fmt.Sprint("X-Many-", i), choose(g, "x", "")})
		}
		r.why = "many headers"
	case 9, 10:
		var all []place
		places(g, r.o.body, nil, func(at place, _ *openapi3.Schema) { all = append(all, at) })
		r.document = put(g.value("", r.o.body, true), choose(g, all...), choose[any](g, choose(g, hostileDocuments...), choose(g, hostile...)))
		r.body = nil
		r.why = "member"
	case 11:
		r.framing = choose(g, chunked, cut, overcommit)
		r.why = "framing"
	case 12:
		body := choose(g, "", "{}", "[]", "null", "\xef\xbb\xbf{}", "{", strings.Repeat("[", 100_000), strings.Repeat(" ", 400_000), "--x\r\n\r\n", "a=b&c=d", "\x1f\x8b\x08")
		r.body = &body
		r.why = "another body"
	case 13:
		body := g.bend(g.write(r.document))
		r.body = &body
		r.why = "bent body"
	}
	return r
}

// bend changes some bytes: one is lost, one is doubled, one is another, the rest is cut off or there twice.
func (g *generator) bend(s string) string {
	for range 1 + g.IntN(3) {
		if s == "" {
			return s
		}
		i := g.IntN(len(s))
		switch g.IntN(5) {
		case 0:
			s = s[:i] + s[i+1:]
		case 1:
			s = s[:i] + s[i:i+1] + s[i:]
		case 2:
			s = s[:i] + string([]byte{byte(g.IntN(256))}) + s[i+1:]
		case 3:
			s = s[:i]
		case 4:
			s += s[i:]
		}
	}
	return s
}

// wholesome says whether a request, in HTTP's own terms, ends where its sender thinks. Of any other, what the rest of
// it means to the server is open, and the connection is not used again.
func wholesome(r *request) bool {
	if strings.ContainsAny(r.where(), " \r\n") || strings.ContainsAny(r.method, " \t") {
		return false
	}
	for _, h := range r.header {
		switch http.CanonicalHeaderKey(h.name) {
		case "Transfer-Encoding", "Content-Length", "Connection", "Upgrade", "Expect":
			return false
		}
		if strings.ContainsAny(h.value, "\r\n") {
			return false
		}
	}
	return r.framing != overcommit
}
