package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// dial is a connection to the server on which nothing has been sent.
func (c *wire) dial() *wire {
	c.w.t.Helper()
	other := &wire{w: c.w, address: c.address}
	c.w.must(other.open())
	c.w.t.Cleanup(other.close)
	c.w.must(other.conn.SetDeadline(time.Now().Add(hung)))
	return other
}

// say writes bytes; a server that has hung up already is asked what it said.
func (c *wire) say(parts ...string) { _, _ = io.WriteString(c.conn, strings.Join(parts, "")) }

// rest is what the server sends until it closes the connection.
func (c *wire) rest() string {
	c.w.t.Helper()
	all, err := io.ReadAll(c.in)
	c.w.must(err)
	return string(all)
}

// head is the head of a good request to an operation with a body, without what tells its length.
func (w *world) head(line string, more ...string) string {
	return line + "\r\nHost: x\r\nAuthorization: Bearer " + w.token + "\r\nIdempotency-Key: " + freshKey() +
		"\r\nContent-Type: application/json\r\n" + strings.Join(more, "")
}

const (
	pipelined = "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	alive     = 200 // what the pipelined request is answered
	closed    = 0   // the connection was closed instead
)

// What is odd in HTTP's own terms gets one clear answer, and the next request on the connection, sent along with it, is
// read from its beginning or not at all. Only what is a whole order makes one.
func TestOddHTTPIsAnsweredInStep(t *testing.T) {
	t.Parallel()
	config := defaultConfig()
	config.MaxBody = 2000
	w := setupWith(t, config)
	c := w.wire(w.front())
	made := rows{}
	for operation, line := range map[string]func() string{
		"createOrder": func() string { return "POST /orders HTTP/1.1" },
		"putOrder":    func() string { return "PUT /client-orders/" + freshKey() + " HTTP/1.1" },
	} {
		body := order()
		chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
		const inChunks = "Transfer-Encoding: chunked\r\n"
		for name, test := range map[string]struct {
			more   string // headers
			body   string
			status int
			said   string // a part of the answer
			next   int    // the answer to what follows
		}{
			"a length":           {length(len(body)), body, 201, `"status":"pending"`, alive},
			"chunks":             {inChunks, chunks, 201, `"status":"pending"`, alive},
			"the length in twos": {length(len(body)) + length(len(body)), body, 201, `"status":"pending"`, alive},
			// RFC 9112, 6.3: the chunks count and the length is dropped. net/http does it before the service can see it.
			"a length and chunks":     {length(3) + inChunks, chunks, 201, `"status":"pending"`, alive},
			"chunks with a parameter": {inChunks, fmt.Sprintf("%x;a=b\r\n%s\r\n0\r\nX-Trailer: 1\r\n\r\n", len(body), body), 201, `"status":"pending"`, alive},
			"bytes after the length":  {length(len(body)), body + "\r\nxx\r\n\r\n", 201, `"status":"pending"`, 400},

			// From here on it is net/http that answers, before anything of ours runs: in plain text, and it hangs up.
			"two lengths":              {length(len(body)) + length(3), body, 400, "400 Bad Request", closed},
			"a negative length":        {length(-1), body, 400, "400 Bad Request", closed},
			"a length that is no word": {"Content-Length: +5\r\n", body, 400, "400 Bad Request", closed},
			"a huge length":            {"Content-Length: 99999999999999999999\r\n", body, 400, "400 Bad Request", closed},
			"an unknown coding":        {"Transfer-Encoding: gzip, chunked\r\n", chunks, 501, "Unsupported transfer encoding", closed},
			"two codings":              {inChunks + inChunks, chunks, 501, "Unsupported transfer encoding", closed},
			"a name with a space":      {"Bad Name: x\r\n" + length(len(body)), body, 400, "400 Bad Request", closed},
			"a space before a colon":   {"Content-Length : 5\r\n", body, 400, "400 Bad Request", closed},
			"NUL in a header":          {"X-Odd: a\x00b\r\n" + length(len(body)), body, 400, "400 Bad Request", closed},
			"a second host":            {"Host: y\r\n" + length(len(body)), body, 400, "400 Bad Request", closed},
			"an unknown expectation":   {"Expect: 200-ok\r\n" + length(len(body)), body, 417, "", closed},
			"headers past the limit":   {"X-Long: " + strings.Repeat("x", maxHead+5000) + "\r\n", "", 431, "431 Request Header Fields Too Large", closed},

			// And now the service again.
			"no length":               {"", "", 400, "invalid_request", alive},
			"a length of nothing":     {length(0), "", 400, "invalid_request", alive},
			"a shorter length":        {length(len(body) - 1), body, 400, "invalid_request", 400},
			"chunks of no number":     {inChunks, "xyz\r\n" + body, 400, "invalid_request", closed},
			"a huge chunk":            {inChunks, "fffffffffffffffff\r\n" + body, 400, "invalid_request", closed},
			"a chunk longer than it":  {inChunks, "5\r\n" + body + "\r\n0\r\n\r\n", 400, "invalid_request", closed},
			"a length over the limit": {length(3000), strings.Repeat(" ", 3000), 413, "body_too_large", alive},
			"chunks over the limit":   {inChunks, "bb8\r\n" + strings.Repeat(" ", 3000) + "\r\n0\r\n\r\n", 413, "body_too_large", closed},
			"a length far over it":    {length(1 << 40), "", 413, "body_too_large", closed},
			"expected and too long":   {"Expect: 100-continue\r\n" + length(1<<40), "", 413, "body_too_large", closed},
			"expected":                {"Expect: 100-continue\r\n" + length(len(body)), body, 201, `"status":"pending"`, alive},
			"an upgrade":              {"Connection: Upgrade\r\nUpgrade: websocket\r\n" + length(len(body)), body, 201, `"status":"pending"`, alive},
			"a hundred more headers":  {strings.Repeat("X-More: x\r\n", 100) + length(len(body)), body, 201, `"status":"pending"`, alive},
		} {
			name = operation + ", " + name
			one := c.dial()
			one.say(w.head(line(), test.more), "\r\n", test.body, pipelined)
			if test.next == closed {
				w.must(one.halfClose())
			}
			a, closing, err := one.read(http.MethodPost)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if a.status != test.status || !strings.Contains(string(a.body), test.said) {
				t.Errorf("%s: got %d %s, want %d %s", name, a.status, a.body, test.status, test.said)
			}
			next := closed
			if !closing {
				follows, _, err := one.read(http.MethodGet)
				if err != nil {
					t.Errorf("%s, and then: %v", name, err)
				}
				next = follows.status
			}
			if next != test.next {
				t.Errorf("%s: the next request was answered %d, want %d", name, next, test.next)
			}
			if test.status == 201 {
				made.orders++
				made.events++
				if w.server.spec.policyOf(operation) != nil {
					made.records++
				}
			}
		}
	}
	w.wantRows(made)
}
