package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// connection is one kept-alive HTTP/1.1 connection. It understands as much of HTTP as the server's answers need and
// nothing else: the load runs on the server's own machine, and net/http's client would take as long as the server.
type connection struct {
	net  net.Conn
	in   *bufio.Reader
	body []byte
}

// answer is a response. Its body is valid until the connection's next exchange.
type answer struct {
	status   int
	replayed bool
	body     []byte
}

const maxAnswer = 1 << 20

func dial(ctx context.Context, address string) (*connection, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &connection{net: c, in: bufio.NewReaderSize(c, 4096)}, nil
}

// until bounds all exchanges up to the next call.
func (c *connection) until(deadline time.Time) error { return c.net.SetDeadline(deadline) }

// exchange sends a whole request and reads its answer.
func (c *connection) exchange(request []byte) (answer, error) {
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
	a := answer{}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return answer{}, fmt.Errorf("a response begins with %q", line)
	}
	length := -1
	for {
		if line, err = c.line(); err != nil {
			return answer{}, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return answer{}, fmt.Errorf("a response has the length %q", value)
			}
		case bytes.EqualFold(name, []byte("Idempotency-Replayed")):
			a.replayed = string(value) == "true"
		}
	}
	if length < 0 || length > maxAnswer {
		return answer{}, fmt.Errorf("a response of status %d has no usable Content-Length", a.status)
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	a.body = c.body[:length]
	_, err = io.ReadFull(c.in, a.body)
	return a, err
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
