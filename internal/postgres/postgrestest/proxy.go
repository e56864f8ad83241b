package postgrestest

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands between a pool and PostgreSQL: it counts round trips, and cuts a connection at the one moment that
// matters, while COMMIT is under way.
type Proxy struct {
	listener net.Listener
	server   string // host and port
	atCommit atomic.Pointer[Fate]
	ends     sync.WaitGroup

	mu    sync.Mutex
	gone  bool
	conns []net.Conn
	trips int  // how often the client has spoken after the server
	asked bool // the client spoke last
}

// Fate is what becomes of a COMMIT: cut ends the client's connection, deliver brings the COMMIT to the server. Afterwards
// both connections end.
type Fate func(cut, deliver func())

// The fates. An unanswered COMMIT looks the same to the client whether it arrived or not.
var (
	Lost       Fate = func(cut, _ func()) { cut() }
	Unanswered Fate = func(cut, deliver func()) { cut(); deliver() }
)

// Last is a Fate: an unanswered COMMIT after which nobody comes in to ask what became of it.
func (p *Proxy) Last(cut, deliver func()) {
	_ = p.listener.Close()
	Unanswered(cut, deliver)
}

// ThroughProxy starts a proxy for the database at a URL and returns the URL that leads through it.
func ThroughProxy(tb testing.TB, to string) (p *Proxy, through string) {
	tb.Helper()
	u, err := url.Parse(to)
	if err != nil {
		tb.Fatal(err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p = &Proxy{listener: listener, server: u.Host}
	p.ends.Go(func() { p.serve(context.WithoutCancel(tb.Context())) })
	tb.Cleanup(func() {
		p.Vanish()
		p.ends.Wait()
	})
	u.Host = listener.Addr().String()
	return p, u.String()
}

// AtCommit decides about the next COMMIT.
func (p *Proxy) AtCommit(fate Fate) { p.atCommit.Store(&fate) }

// Vanish cuts all connections and refuses new ones: the database is gone.
func (p *Proxy) Vanish() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	for _, conn := range p.conns {
		_ = conn.Close()
	}
}

func (p *Proxy) serve(ctx context.Context) {
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
			p.Vanish()
		}
		p.ends.Go(func() { p.up(client, server.(*net.TCPConn)) })
		p.ends.Go(func() { p.down(client, server) })
	}
}

// up carries the client's words. COMMIT comes alone: the client has waited for the answers to all that it sent before.
func (p *Proxy) up(client net.Conn, server *net.TCPConn) {
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
func (p *Proxy) down(client, server net.Conn) {
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

// Count is the number of round trips that do takes.
func (p *Proxy) Count(do func()) int {
	p.mu.Lock()
	before := p.trips
	p.mu.Unlock()
	do()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips - before
}
