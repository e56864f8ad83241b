package faults

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/test/shop"
)

// wired is a shop with one server that reaches its database over a wire, held where it is about to send COMMIT.
func wired(t *testing.T, s *shop.Shop, args ...string) (*shop.Server, *shop.Network, hold) {
	t.Helper()
	wire, h := shop.NewNetwork(t, s.Address(t)), newHold(t)
	return s.Serve(t, shop.Options{Through: wire.Address, Faults: []string{h.afterClaim()}, Args: args}), wire, h
}

const (
	rowCut      = "after claim, before COMMIT, connection cut"
	rowReached  = "at COMMIT, ack lost, COMMIT had reached PostgreSQL"
	rowNotThere = "at COMMIT, ack lost, COMMIT had not reached PostgreSQL"
)

// The connection goes where the claim stands and COMMIT has not been sent: PostgreSQL rolls back, the unit runs again.
func TestConnectionCutAfterTheClaim(t *testing.T) {
	t.Parallel()
	key := orderoncetest.NewKey()
	for name, w := range ways(key) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shop.Open(t)
			server, wire, h := wired(t, s, w.args...)
			first := send(t, server, key, w.body)
			h.reached(t)
			wire.Unplug()
			wire.Plug(t)
			provoked(t, rowCut, 1)
			h.release(t)
			a := first.answer(t)
			wantFirst(t, a)
			wantReplay(t, a, server.Place(t, key, w.body))
			s.WantAccount(t, shop.Balanced(1, 0))
		})
	}
}

// PostgreSQL ends the session of a claim that still waits for another one.
func TestBackendTerminatedWhileTheClaimWaits(t *testing.T) {
	t.Parallel()
	s := shop.Open(t)
	server := s.Serve(t, shop.Options{})
	mould, key := orderoncetest.NewKey(), orderoncetest.NewKey()
	wantFirst(t, server.Place(t, mould, order(mould)))
	inTime(t, func() bool {
		held := claimed(t, s, mould, key)
		first := send(t, server, key, order(key))
		ended := terminated(t, s, first)
		held.end(t, pgx.Tx.Rollback)
		a := first.answer(t)
		if !ended || inProgress(a) {
			return false
		}
		provoked(t, rowCut, 1)
		wantFirst(t, a)
		return true
	})
	s.WantAccount(t, shop.Balanced(2, 0))
}

// terminated ends the session that waits for a lock, for as long as a request is under way, and says whether there was one.
func terminated(t *testing.T, s *shop.Shop, while sent) (ended bool) {
	t.Helper()
	conn := s.Connect(t)
	orderoncetest.Poll(t, "a session that waits to be ended", func() bool {
		tag, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`)
		if err != nil {
			t.Fatal(err)
		}
		ended = tag.RowsAffected() > 0
		return ended || len(while.done) > 0
	})
	return ended
}

// Case 3: COMMIT was sent and nobody said how it ended. The server runs the unit again and lets its claim decide; the
// client sees nothing but the first answer, whichever it was.
func TestAcknowledgementOfTheCommitLost(t *testing.T) {
	t.Parallel()
	for where, c := range map[string]struct {
		row string
		cut func(*shop.Network)
	}{
		"reached":     {rowReached, func(wire *shop.Network) { wire.Down.CutNext() }},
		"not reached": {rowNotThere, func(wire *shop.Network) { wire.Up.CutNext() }},
	} {
		key := orderoncetest.NewKey()
		for name, w := range ways(key) {
			t.Run(where+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := shop.Open(t)
				server, wire, h := wired(t, s, w.args...)
				first := send(t, server, key, w.body)
				h.reached(t)
				c.cut(wire)
				h.release(t)
				a := first.answer(t)
				if cuts := wire.Up.Cuts() + wire.Down.Cuts(); cuts != 1 {
					t.Fatalf("%d connections were cut", cuts)
				}
				provoked(t, c.row, 1)
				wantFirst(t, a)
				wantReplay(t, a, server.Place(t, key, w.body))
				s.WantAccount(t, shop.Balanced(1, 0))
			})
		}
	}
}

// Where the database stays out of reach the server cannot let the claim decide: it says that it does not know, and
// that the key is to be kept. The retry finds out.
func TestAcknowledgementOfTheCommitLostForLong(t *testing.T) {
	t.Parallel()
	for where, c := range map[string]struct {
		row       string
		cut       func(*shop.Network)
		committed int
	}{
		"reached":     {rowReached, func(wire *shop.Network) { wire.Down.Cut() }, 1},
		"not reached": {rowNotThere, func(wire *shop.Network) { wire.Up.Cut() }, 0},
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			s := shop.Open(t)
			server, wire, h := wired(t, s)
			key := orderoncetest.NewKey()
			first := send(t, server, key, order(key))
			h.reached(t)
			c.cut(wire)
			h.release(t)
			a := first.answer(t)
			provoked(t, c.row, 1)
			wantProblem(t, a, 503, "outcome_unknown")
			if !strings.Contains(a.Body, `"key_action":"keep"`) || a.Header.Get("Retry-After") == "" {
				t.Errorf("%v %s", a.Header, a.Body)
			}
			s.WantAccount(t, shop.Balanced(c.committed, 0))
			wire.Up.Mend()
			wire.Down.Mend()
			second := untilServed(t, server, key, order(key))
			if c.committed == 1 {
				wantReplayed(t, second)
			} else {
				wantFirst(t, second)
			}
			s.WantAccount(t, shop.Balanced(1, 0))
		})
	}
}

// A connection that goes silent at COMMIT, and stays open: nobody waits for it past the server's bounds, neither the
// unit itself nor those that come after it.
func TestCommitThatIsNeverAnswered(t *testing.T) {
	t.Parallel()
	bounds := []string{
		"--acquire-timeout=1s", "--statement-timeout=3s", "--idle-in-transaction-timeout=4s", "--unit-deadline=5s",
		"--body-timeout=1s", "--request-timeout=6s",
	}
	key := orderoncetest.NewKey()
	for name, w := range ways(key) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shop.Open(t)
			server, wire, h := wired(t, s, append(bounds, w.args...)...)
			first := send(t, server, key, w.body)
			h.reached(t)
			wire.Up.SilenceNext()
			h.release(t)
			provoked(t, "at COMMIT, connection silent", 1)
			others := map[string]sent{}
			for range 5 {
				other := orderoncetest.NewKey()
				others[other] = send(t, server, other, order(other))
			}
			for other, sent := range others {
				a := sent.answer(t)
				if a.Status == 503 && a.Code() == "busy" { // bounds this short are met on a machine under load
					a = untilServed(t, server, other, order(other))
				}
				wantFirst(t, a)
			}
			// PostgreSQL gives up the silent transaction before the unit's deadline, and the unit has the rest of that to
			// run again. On a machine under load that is not enough; then the client is told to keep its key.
			a := first.answer(t)
			if a.Status != 503 || a.Code() != "outcome_unknown" {
				wantFirst(t, a)
			}
			if again := untilServed(t, server, key, w.body); again.Status != 201 || a.Status == 201 && again.Body != a.Body {
				t.Errorf("%d %s", again.Status, again.Body)
			}
			s.WantAccount(t, shop.Balanced(6, 0))
		})
	}
}

// The hardest one: COMMIT has been sent and its connection is gone, but PostgreSQL has not come to it yet. The unit
// that runs again must wait for the commit under way, and find it.
func TestAcknowledgementLostWhileTheCommitIsUnderWay(t *testing.T) {
	t.Parallel()
	for name := range ways("") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shop.OpenOn(t, shop.Killable(t, false))
			orders := 0
			inTime(t, func() bool {
				orders++
				return commitFoundUnderWay(t, s, name)
			})
			s.WantAccount(t, shop.Balanced(orders, 0))
		})
	}
}

// commitFoundUnderWay places one order and says whether its second claim was seen to wait for the first one's commit: it
// has the rest of one wait, which a machine under load may let pass.
func commitFoundUnderWay(t *testing.T, s *shop.Shop, name string) bool {
	t.Helper()
	key := orderoncetest.NewKey()
	w := ways(key)[name]
	server, wire, h := wired(t, s, w.args...)
	first := send(t, server, key, w.body)
	h.reached(t)
	backend := idleInTransaction(t, s)
	signal(t, backend.pid, syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(backend.pid, syscall.SIGCONT) }) // or its server could not be stopped
	h.release(t)
	orderoncetest.Poll(t, "COMMIT to lie before the stopped backend", func() bool { return unread(t, s.Address(t), backend.port) })
	wire.Unplug()
	wire.Plug(t)
	seen := waits(t, s, 1, first)
	if seen {
		provoked(t, rowReached+" late", 1)
	}
	signal(t, backend.pid, syscall.SIGCONT)

	// A client that was told of no end keeps its key, as after every wait.
	a := first.answer(t)
	if !inProgress(a) {
		wantFirst(t, a)
	}
	wantReplayed(t, untilDone(t, server, key, w.body))
	return seen
}

func signal(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}

// unread says whether bytes from the given port lie in PostgreSQL's socket that nobody has read.
func unread(t *testing.T, address string, from int) bool {
	t.Helper()
	_, at, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	// Local and remote address, state, queue of unsent bytes and queue of unread ones, in hexadecimal.
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		var local, remote, unread int
		if len(fields) < 5 || fields[3] != "01" {
			continue
		}
		if _, err := fmt.Sscanf(fields[1]+" "+fields[2], "0100007F:%X 0100007F:%X", &local, &remote); err != nil {
			continue
		}
		_, queue, _ := strings.Cut(fields[4], ":")
		if _, err := fmt.Sscanf(queue, "%X", &unread); err == nil && fmt.Sprint(local) == at && remote == from && unread > 0 {
			return true
		}
	}
	return false
}
