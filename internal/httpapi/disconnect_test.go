package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Case 12: a client that is gone at any point of its request leaves no half of an order behind, and no pooled
// connection torn down. Its retry has the one order.
func TestSocketClosedAtAnyPoint(t *testing.T) {
	t.Parallel()
	const points, rounds = 20, 50
	w := setup(t)
	before, opened := w.rows(), w.db.Stat().NewConnsCount()

	keys := make([]string, points*rounds)
	limit := make(chan struct{}, 32)
	done := storm(t, len(keys), func(i int) (answer, error) {
		limit <- struct{}{}
		defer func() { <-limit }()
		keys[i] = freshKey()
		return answer{}, w.hangUp(keys[i], i%points, points)
	})
	if opened := w.db.Stat().NewConnsCount() - opened; opened > poolSize+5 {
		t.Errorf("%d requests had the pool open %d connections", len(done), opened)
	}

	first := map[string]int{}
	for _, key := range keys {
		a := w.place(key, order())
		if a.status != http.StatusCreated {
			t.Fatalf("the retry: %d %s", a.status, a.body)
		}
		first[a.header.Get("Idempotency-Replayed")]++
	}
	t.Logf("of %d retries %d found their order, %d placed it", len(keys), first["true"], first["false"])
	n := len(keys)
	w.wantRows(rows{before.orders + n, before.records + n, before.events + n})
}

// hangUp sends a request and resets its connection at a point of it: the first half of the points lie in the request's
// bytes, the others in those of the answer.
func (w *world) hangUp(key string, point, points int) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(w.t.Context(), "tcp", strings.TrimPrefix(w.base, "http://"))
	if err != nil {
		return err
	}
	body := order()
	request := fmt.Sprintf("POST /orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", w.token, key, len(body), body)
	if point < points/2 {
		request = request[:len(request)*point/(points/2)]
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	if point > points/2 {
		// The answer has about 800 bytes; reading some of them puts the hang-up after the commit.
		if _, err := io.CopyN(io.Discard, bufio.NewReaderSize(conn, 16), int64(point-points/2)*40); err != nil {
			return err
		}
	}
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil { // a reset, as of a phone that lost its network
		return err
	}
	return conn.Close()
}
