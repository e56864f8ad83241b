package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"time"
)

// hung is how long a test waits for an answer before it says that there is none. Every bound of a tested server is far
// below it.
const hung = 30 * time.Second

// maxHead is in bytes, of a request's line and headers.
const maxHead = 16 << 10

// front serves the API behind bounds like those that the command sets around it: net/http has none by itself.
func (w *world) front() *httptest.Server {
	w.t.Helper()
	front := httptest.NewUnstartedServer(w.server)
	front.Config.MaxHeaderBytes = maxHead
	front.Config.ReadHeaderTimeout = time.Second
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.Start()
	w.t.Cleanup(front.Close)
	return front
}

// wire is a client that writes its own bytes. A client that knows HTTP would not send half of what must be tried, and
// would hide a server that lost count of where a request ends.
type wire struct {
	w       *world
	address string
	conn    net.Conn
	in      *bufio.Reader
}

func (w *world) wire(front *httptest.Server) *wire {
	c := &wire{w: w, address: strings.TrimPrefix(front.URL, "http://")}
	w.t.Cleanup(c.close)
	return c
}

func (c *wire) close() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.conn = nil
}

func (c *wire) open() error {
	if c.conn != nil {
		return nil
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(c.w.t.Context(), "tcp", c.address)
	if err != nil {
		return err
	}
	c.conn, c.in = conn, bufio.NewReader(conn)
	return nil
}

// exchange sends one request, as it is, and reads its answer. The connection is kept where the server keeps it, so
// that bytes which the server left over would spoil the next exchange. Nothing more is sent after an ending request.
func (c *wire) exchange(raw []byte, ending bool) (answer, error) {
	if err := c.open(); err != nil {
		return answer{}, err
	}
	if err := c.conn.SetDeadline(time.Now().Add(hung)); err != nil {
		return answer{}, err
	}
	if _, err := c.conn.Write(raw); err != nil && !c.answered() {
		return answer{}, fmt.Errorf("send: %w", err)
	}
	if ending {
		_ = c.halfClose() // the server may have hung up already: its answer is read, or that there is none
	}
	method, _, _ := bytes.Cut(raw, []byte(" "))
	a, closing, err := c.read(string(method))
	if closing || ending || err != nil {
		c.close()
	}
	return a, err
}

// halfClose says that nothing more will be sent.
func (c *wire) halfClose() error { return c.conn.(*net.TCPConn).CloseWrite() }

// answered says whether an answer waits on a connection that takes no more: a server need not read what it refuses.
func (c *wire) answered() bool {
	_, err := c.in.Peek(1)
	return err == nil
}

func (c *wire) read(method string) (a answer, closing bool, err error) {
	for {
		response, err := http.ReadResponse(c.in, &http.Request{Method: method})
		if err != nil {
			return answer{}, true, fmt.Errorf("read the answer: %w", err)
		}
		if response.StatusCode == http.StatusContinue {
			continue
		}
		defer func() { _ = response.Body.Close() }()
		a = answer{status: response.StatusCode, header: response.Header}
		if a.body, err = io.ReadAll(response.Body); err != nil {
			return answer{}, true, fmt.Errorf("read the answer's body: %w", err)
		}
		if response.Header.Get("Content-Type") == "application/problem+json" && method != http.MethodHead {
			err = json.Unmarshal(a.body, &a.problem)
		}
		return a, response.Close, err
	}
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// whyHungUp asks again, with a request's head alone, after a connection was reset. net/http answers what it cannot make
// HTTP of and goes without having read it all, and then the answer may be lost. An answer of the API must not be.
func (c *wire) whyHungUp(raw []byte, reset error) error {
	head, _, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	a, err := c.exchange(append(bytes.Clone(head), "\r\n\r\n"...), false)
	switch {
	case isReset(err):
		return nil // not even the head was read
	case err == nil && a.header.Get("X-Request-Id") != "":
		return reset
	}
	return err
}

// verdict judges the answer to a request of these bytes by what every answer must be: below 500, as the contract says,
// and a problem where it is an error. What is no HTTP is answered by net/http itself, in plain text, and closed.
func (c *wire) verdict(raw []byte, a answer) (*http.Request, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	if a.header.Get("X-Request-Id") == "" {
		return r, fromNetHTTP(raw, r, a)
	}
	if err != nil {
		return nil, fmt.Errorf("the server understood what is no HTTP: %w", err)
	}
	if a.status >= 500 || a.status >= 300 && a.status < 400 {
		return r, fmt.Errorf("answered %d", a.status)
	}
	if r.Method == http.MethodHead {
		return r, nil // an answer without a body: its GET is judged
	}
	replayed := a.header.Get("Idempotency-Replayed") == "true" // and with it the id of the first request
	if a.status >= 400 && (a.Status != a.status || a.Code == "" || !replayed && a.RequestID != a.header.Get("X-Request-Id")) {
		return r, errors.New("the error is no problem, or not its own")
	}
	return r, c.w.judge(r.WithContext(c.w.t.Context()), a)
}

// fromNetHTTP judges an answer that no handler gave. net/http refuses what is no HTTP to it in a line of text that begins
// with the status, before anything of the service runs.
func fromNetHTTP(raw []byte, r *http.Request, a answer) error {
	switch a.status {
	case http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		line := fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
		if a.status == http.StatusNotImplemented {
			line = "Unsupported transfer encoding"
		}
		if strings.HasPrefix(string(a.body), line) || len(a.body) == 0 && bytes.HasPrefix(raw, []byte("HEAD ")) {
			return nil
		}
	case http.StatusExpectationFailed:
		if r != nil && r.Header.Get("Expect") != "" {
			return nil
		}
	case http.StatusOK:
		if r != nil && r.Method == http.MethodOptions && r.RequestURI == "*" {
			return nil
		}
	}
	return fmt.Errorf("not an answer of the API: %d %v %q", a.status, a.header, a.body)
}
