package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// A path is taken as it was sent. What is not one of ours is a problem, never a redirect: a client that followed one
// would send its order, with its credential, to where it did not mean to.
func TestOddTargetsAreProblems(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.wire(w.front())
	order := w.place(freshKey(), order()).header.Get("Location")
	for target, status := range map[string]int{
		"//orders": 404, "///orders": 404, "/orders//": 404, "/orders/": 404, "/./orders": 404, "/orders/.": 404, "/orders/../orders": 404,
		"/livez/../orders": 404, "/../orders": 404, "/orders/..": 404, "//elsewhere.example/orders": 404, "/orders%2f": 404, "/%2forders": 404, "/orders%2F" + order[8:]: 404,
		"/orders%00": 404, "/ORDERS": 404, "/orders;a=b": 404, "/orders%20": 404, "/orders%3Fpage_size=1": 404, "/%C0%AForders": 404,
		"http://elsewhere.example": 404, "http://elsewhere.example//orders": 404, "http://elsewhere.example/orders/../livez": 404, "*": 404,
		"/orders/%2e%2e": 400, "/orders/%2e%2e%2flivez": 400, "/orders/..%2forders": 400, order + "%2f": 400, order + "%2Fcancel": 400,
		"/%6f%72ders": 200, "/orders?": 200, "http://elsewhere.example/orders": 200, "http://elsewhere.example:1" + order: 200, "/orders/" + strings.ToUpper(order[8:]): 200,
	} {
		for _, method := range []string{"GET", "POST", "PUT", "CONNECT"} {
			raw := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 0\r\n\r\n", method, target, w.token)
			a, err := c.exchange([]byte(raw), false)
			w.must(err)
			if _, err := c.verdict([]byte(raw), a); err != nil {
				t.Errorf("%s %s: %v", method, target, err)
			}
			if method == "GET" && a.status != status || a.status < 400 && method != "GET" || a.status == 404 != (status == 404) && method != "CONNECT" {
				t.Errorf("%s %s: got %d %s, want %d", method, target, a.status, a.body, status)
			}
		}
	}
	w.wantRows(rows{1, 1, 1})
}

// A method that a route does not have is refused with those it has, whatever the method is.
func TestOddMethodsAreProblems(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.wire(w.front())
	for o, address := range w.addresses() {
		for _, method := range []string{"TRACE", "CONNECT", "OPTIONS", "PATCH", "DELETE", "PROPFIND", "get", "PoSt", "X", "M-SEARCH", strings.Repeat("X", 1000)} {
			raw := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nX-HTTP-Method-Override: POST\r\n\r\n", method, address, w.token)
			a, err := c.exchange([]byte(raw), false)
			w.must(err)
			wantProblem(t, a, 405, "method_not_allowed")
			if !strings.Contains(a.header.Get("Allow"), o.route.Method) {
				t.Errorf("%s %s: Allow: %s", method, o.id, a.header.Get("Allow"))
			}
		}
	}
	// net/http answers these before anything of ours runs.
	for raw, status := range map[string]int{
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n":            200,
		"BAD METHOD /orders HTTP/1.1\r\nHost: x\r\n\r\n":   400,
		"M@THOD /orders HTTP/1.1\r\nHost: x\r\n\r\n":       400,
		"GET orders HTTP/1.1\r\nHost: x\r\n\r\n":           400,
		"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n":             400,
		"GET /orders HTTP/1.1\r\n\r\n":                     400,
		"GET /orders HTTP/1.1\r\nHost: a/b\r\n\r\n":        400,
		"GET /orders HTTP/3.0\r\nHost: x\r\n\r\n":          505,
		"GET /orders\r\n\r\n":                              400,
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n": 400,
	} {
		a, err := c.exchange([]byte(raw), true)
		w.must(err)
		if a.status != status || a.header.Get("X-Request-Id") != "" {
			t.Errorf("%q: got %d %s, want %d", raw, a.status, a.body, status)
		}
	}
	w.wantRows(rows{})
}

// HTTP/1.0 has no chunks and need not name a host. It is served, and the connection ends with the answer.
func TestHTTP10IsServed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.wire(w.front())
	head := "POST /orders HTTP/1.0\r\nAuthorization: Bearer " + w.token + "\r\nContent-Type: application/json\r\nIdempotency-Key: " + freshKey() + "\r\n"
	body := order()
	one := c.dial()
	one.say(head, fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)), body)
	first := one.rest()
	if !strings.HasPrefix(first, "HTTP/1.0 201 ") || !strings.Contains(first, "Idempotency-Replayed: false") {
		t.Errorf("got %s", first)
	}
	// Without a length there is no body: what follows the head is nobody's.
	one = c.dial()
	one.say(head, "\r\n", body)
	if unframed := one.rest(); !strings.HasPrefix(unframed, "HTTP/1.0 400 ") || !strings.Contains(unframed, `"code":"invalid_request"`) {
		t.Errorf("got %s", unframed)
	}
	w.wantRows(rows{1, 1, 1})
}

// A client that asks before it sends a body is not told to send one that will be refused.
func TestNobodyIsAskedForARefusedBody(t *testing.T) {
	t.Parallel()
	config := defaultConfig()
	config.BodyRead = 200 * time.Millisecond // how long the server listens for a body all the same, before it hangs up
	w := setupWith(t, config)
	c := w.wire(w.front())
	for operation, head := range map[string]string{"createOrder": w.head("POST /orders HTTP/1.1"), "putOrder": w.head("PUT /client-orders/a HTTP/1.1")} {
		for status, more := range map[string]string{
			"413": fmt.Sprintf("Content-Length: %d\r\n", w.server.config.MaxBody+1),
			"415": "Content-Length: 10\r\nContent-Encoding: gzip\r\n",
			"401": "Content-Length: 10\r\nAuthorization: Bearer x\r\n",
		} {
			one := c.dial()
			one.say(head, more, "Expect: 100-continue\r\n\r\n")
			if got := one.rest(); !strings.HasPrefix(got, "HTTP/1.1 "+status) {
				t.Errorf("%s: want %s at once, got %s", operation, status, got)
			}
		}
		one := c.dial()
		one.say(head, "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
		asked := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
		if _, err := io.ReadFull(one.in, asked); err != nil || string(asked) != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Errorf("%s: %q %v", operation, asked, err)
		}
		one.say("{}")
		a, _, err := one.read(http.MethodPost)
		w.must(err)
		wantProblem(t, a, 422, "validation_failed")
	}
	w.wantRows(rows{})
}

// Nobody holds a connection by sending slowly: not with a head, nor with a body, be it one that is read, one that is not
// because the request is refused before, or one that the operation does not have.
func TestSlowSendersAreGivenUp(t *testing.T) {
	t.Parallel()
	config := defaultConfig()
	config.BodyRead = 200 * time.Millisecond
	w := setupWith(t, config)
	c := w.wire(w.front())
	// All of them are slow at the same time.
	type sender struct {
		*wire
		who  string
		want []string // how the answer may begin
	}
	var senders []sender
	send := func(who, bytes string, want ...string) {
		slow := sender{c.dial(), who, want}
		slow.say(bytes)
		senders = append(senders, slow)
	}
	for _, framed := range []string{"Content-Length: 500\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n5\r\n{"} {
		for o, address := range w.addresses() {
			line := o.route.Method + " " + address + " HTTP/1.1"
			head := strings.Replace(w.head(line), w.token, w.tokenFor(o), 1)
			switch {
			case o.body != nil:
				send(o.id, head+framed, "HTTP/1.1 408 ")
			case o.scope == "":
				send(o.id, head+framed, "HTTP/1.1 200 ")
			default:
				send(o.id, head+framed, "HTTP/1.1 200 ", "HTTP/1.1 400 ", "HTTP/1.1 404 ")
			}
			if o.scope != "" {
				send(o.id+", of a stranger", line+"\r\nHost: x\r\n"+framed, "HTTP/1.1 401 ")
			}
		}
		send("no route", "POST /nowhere HTTP/1.1\r\nHost: x\r\n"+framed, "HTTP/1.1 404 ")
	}
	for _, head := range []string{"", "POST /orders HTTP/1.1\r\n", w.head("POST /orders HTTP/1.1")} {
		send(head, head, "") // net/http has nobody to answer to
	}
	for _, slow := range senders {
		got := slow.rest()
		if !slices.ContainsFunc(slow.want, func(want string) bool { return strings.HasPrefix(got, want) && (want == "") == (got == "") }) {
			t.Errorf("%.40q: want %q, got %s", slow.who, slow.want, got)
		}
	}
	w.wantRows(rows{})
}
