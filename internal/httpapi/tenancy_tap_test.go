package httpapi

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tap stands between the server and PostgreSQL and writes down the statements that go by, in the order in which they
// are sent: what a request costs the database, in full, and not how long it took on this machine.
type tap struct {
	listener net.Listener
	server   string // host and port
	ends     sync.WaitGroup

	mu         sync.Mutex
	statements []string
	conns      []net.Conn
}

// newTap starts a tap on the way to the database at url and returns the URL that leads past it.
func newTap(t *testing.T, to string) (w *tap, through string) {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w = &tap{listener: listener, server: u.Host}
	w.ends.Go(func() { w.serve(context.WithoutCancel(t.Context())) })
	t.Cleanup(func() {
		_ = listener.Close()
		w.mu.Lock()
		for _, conn := range w.conns {
			_ = conn.Close()
		}
		w.mu.Unlock()
		w.ends.Wait()
	})
	u.Host = listener.Addr().String()
	return w, u.String()
}

// record lists the statements that are sent while do runs. Left out are those that speak of time: a bound that has
// become shorter, and the pool's pings.
func (w *tap) record(do func()) []string {
	w.mu.Lock()
	w.statements = nil
	w.mu.Unlock()
	do()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.statements), func(sql string) bool {
		return strings.HasPrefix(sql, "SET LOCAL lock_timeout") || strings.HasPrefix(sql, "-- ping")
	})
}

func (w *tap) serve(ctx context.Context) {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		var dialer net.Dialer
		server, err := dialer.DialContext(ctx, "tcp", w.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, client, server)
		w.mu.Unlock()
		w.ends.Go(func() {
			defer server.Close()
			_ = w.up(client, server)
		})
		w.ends.Go(func() {
			defer client.Close()
			_, _ = io.Copy(client, server)
		})
	}
}

// up carries the client's messages, https://www.postgresql.org/docs/current/protocol-message-formats.html: those of the
// start have no type, and each has its length.
func (w *tap) up(client io.Reader, server io.Writer) error {
	const startUp = 3 << 16
	prepared := map[string]string{}
	for started := false; ; {
		var head []byte
		if started {
			head = make([]byte, 1, 5)
			if _, err := io.ReadFull(client, head); err != nil {
				return err
			}
		}
		var size [4]byte
		if _, err := io.ReadFull(client, size[:]); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(size[:])-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return err
		}
		if started {
			w.note(head[0], body, prepared)
		} else {
			started = binary.BigEndian.Uint32(body) == startUp
		}
		if _, err := server.Write(slices.Concat(head, size[:], body)); err != nil {
			return err
		}
	}
}

// note writes a statement down when it is bound or sent as text. That it is prepared, once a connection, is no request's
// cost.
func (w *tap) note(kind byte, body []byte, prepared map[string]string) {
	words := strings.Split(string(body), "\x00")
	w.mu.Lock()
	defer w.mu.Unlock()
	switch kind {
	case 'P':
		prepared[words[0]] = words[1]
	case 'B': // to a portal, a prepared statement
		w.statements = append(w.statements, prepared[words[1]])
	case 'Q':
		w.statements = append(w.statements, words[0])
	}
}
