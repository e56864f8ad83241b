package postgres_test

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between the pool and PostgreSQL: it counts round trips, and cuts a connection at the one moment that
// matters, while COMMIT is under way.
type proxy struct {
	listener net.Listener
	server   string // host and port
	atCommit atomic.Pointer[fate]
	ends     sync.WaitGroup

	mu    sync.Mutex
	gone  bool
	conns []net.Conn
	trips int  // how often the client has spoken after the server
	asked bool // the client spoke last
}

// fate is what becomes of the next COMMIT: cut ends the client's connection, deliver brings the COMMIT to the server.
// Afterwards both connections end.
type fate func(cut, deliver func())

// The fates. An unanswered COMMIT looks the same to the client whether it arrived or not.
var (
	lost       fate = func(cut, _ func()) { cut() }
	unanswered fate = func(cut, deliver func()) { cut(); deliver() }
)

// throughProxy starts a proxy for the database at url and returns the URL that leads through it.
func throughProxy(t *testing.T, to string) (p *proxy, through string) {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p = &proxy{listener: listener, server: u.Host}
	p.ends.Go(func() { p.serve(context.WithoutCancel(t.Context())) })
	t.Cleanup(func() {
		p.vanish()
		p.ends.Wait()
	})
	u.Host = listener.Addr().String()
	return p, u.String()
}

// vanish cuts all connections and refuses new ones: the database is gone.
func (p *proxy) vanish() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	for _, conn := range p.conns {
		_ = conn.Close()
	}
}

func (p *proxy) serve(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		var dialer net.Dialer
		server, err := dialer.DialContext(ctx, "tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		gone := p.gone
		p.mu.Unlock()
		if gone {
			p.vanish()
		}
		p.ends.Go(func() { p.up(client, server.(*net.TCPConn)) })
		p.ends.Go(func() { p.down(client, server) })
	}
}

// up carries the client's words. COMMIT comes alone: the client has waited for the answers to all that it sent before.
func (p *proxy) up(client net.Conn, server *net.TCPConn) {
	// Not Close: it would take back what the server has not read yet.
	defer server.CloseWrite() //nolint:errcheck // the connection may be gone, which is what is wanted
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		if !p.asked {
			p.trips++
		}
		p.asked = true
		p.mu.Unlock()
		if bytes.Contains(buf[:n], []byte("COMMIT\x00")) {
			if happen := p.atCommit.Swap(nil); happen != nil {
				(*happen)(func() { _ = client.Close() }, func() { _, _ = server.Write(buf[:n]) })
				return
			}
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// down carries the server's answers.
func (p *proxy) down(client, server net.Conn) {
	defer server.Close()
	defer client.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.asked = false
		p.mu.Unlock()
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// count is the number of round trips that do takes.
func (p *proxy) count(do func()) int {
	p.mu.Lock()
	before := p.trips
	p.mu.Unlock()
	do()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips - before
}
