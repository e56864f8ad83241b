package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"sync"
	"time"
)

// connection is one kept-alive HTTP/1.1 connection, made again where the server has closed it. It understands as much of
// HTTP as the server's answers need and nothing else: the load may run on the server's own machine, and net/http's
// client would take as long as the server.
type connection struct {
	target   Target
	deadline time.Time

	mu   sync.Mutex // of net alone, which interrupt may want at any time
	net  net.Conn   // nil where there is none
	in   *bufio.Reader
	body []byte
}

// answer is a response. Its body is valid until the connection's next exchange.
type answer struct {
	status     int
	replayed   bool
	retryAfter time.Duration
	body       []byte
}

// code is a problem's code; empty where the answer is none. It reads no more of JSON than that.
func (a answer) code() string {
	_, rest, found := bytes.Cut(a.body, []byte(`"code":"`))
	code, _, ended := bytes.Cut(rest, []byte(`"`))
	if a.status < 400 || !found || !ended || len(code) > 64 {
		return ""
	}
	return string(code)
}

const maxAnswer = 1 << 20

func (c *connection) dial(ctx context.Context) error {
	ctx, cancel := context.WithDeadline(ctx, c.deadline)
	defer cancel()
	var made net.Conn
	var err error
	if c.target.TLS {
		made, err = (&tls.Dialer{Config: &tls.Config{NextProtos: []string{"http/1.1"}}}).DialContext(ctx, "tcp", c.target.Address)
	} else {
		made, err = new(net.Dialer).DialContext(ctx, "tcp", c.target.Address)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.net = made
	c.mu.Unlock()
	c.in = bufio.NewReaderSize(made, 4096)
	return made.SetDeadline(c.deadline)
}

func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.net != nil {
		_ = c.net.Close()
		c.net = nil
	}
}

// until bounds all exchanges up to the next call.
func (c *connection) until(deadline time.Time) error {
	c.deadline = deadline
	if c.net == nil {
		return nil
	}
	return c.net.SetDeadline(deadline)
}

// interrupt ends the exchange under way. It may be called while another goroutine is at it.
func (c *connection) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.net != nil {
		_ = c.net.SetDeadline(time.Unix(1, 0))
	}
}

// exchange sends a whole request and reads its answer. After an error the connection is a new one.
func (c *connection) exchange(ctx context.Context, request []byte) (a answer, err error) {
	if c.net == nil {
		if err := c.dial(ctx); err != nil {
			return answer{}, err
		}
	}
	last := false
	defer func() {
		if err != nil || last {
			c.close()
		}
	}()
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	if _, err := c.net.Write(request); err != nil {
		return answer{}, err
	}
	line, err := c.line()
	if err != nil {
		return answer{}, err
	}
	// HTTP/1.1 201 Created
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return answer{}, fmt.Errorf("a response begins with %q", line)
	}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return answer{}, fmt.Errorf("a response begins with %q", line)
	}
	length, chunked := -1, false
	for {
		if line, err = c.line(); err != nil {
			return answer{}, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return answer{}, fmt.Errorf("a response has the length %q", value)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(value, []byte("chunked"))
		case bytes.EqualFold(name, []byte("Idempotency-Replayed")):
			a.replayed = string(value) == "true"
		case bytes.EqualFold(name, []byte("Retry-After")):
			seconds, _ := strconv.Atoi(string(value)) // a date counts as nothing
			a.retryAfter = time.Duration(seconds) * time.Second
		case bytes.EqualFold(name, []byte("Connection")):
			last = bytes.EqualFold(value, []byte("close"))
		}
	}
	a.body, err = c.read(length, chunked)
	return a, err
}

// read takes in a body. What came in chunks, from a proxy, is read whole as well.
func (c *connection) read(length int, chunked bool) ([]byte, error) {
	if chunked {
		body, err := io.ReadAll(io.LimitReader(httputil.NewChunkedReader(c.in), maxAnswer))
		for err == nil { // the trailer, whose last line is empty
			var line []byte
			if line, err = c.line(); err == nil && len(line) == 0 {
				return body, nil
			}
		}
		return nil, err
	}
	if length < 0 || length > maxAnswer {
		return nil, errors.New("a response has no usable Content-Length")
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	_, err := io.ReadFull(c.in, c.body[:length])
	return c.body[:length], err
}

// line is the next line without its end, valid until the next read.
func (c *connection) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the server closed the connection")
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}
