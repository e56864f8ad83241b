// Package faults provokes every fault that the protocol promises to survive, on whole servers and a real PostgreSQL:
// killed, cut and delayed between two given steps, and at random under load. Each test names its row of the table in
// docs, checks what the immediate retry is told, and balances the account.
//
// The short form of TestRandomKills is part of every run. The long one:
//
//	go test ./test/faults -run TestRandomKills -kills 200 -timeout 20m -v
package faults

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/faultpoint"
	"orderonce/internal/postgres/postgrestest"
	"orderonce/test/shop"
)

func TestMain(m *testing.M) {
	postgrestest.Main(m, orderoncetest.RemoveBinaries, func() error { return report.print() })
}

// report says, at the end of a run with -v, how often each row was provoked.
var report ledger

type ledger struct {
	mu       sync.Mutex
	provoked map[string]int
	violated map[string]int
}

// provoked notes that the test has made a row's fault happen n times. The row is violated where the test fails.
func provoked(t *testing.T, row string, n int) {
	t.Helper()
	report.add(&report.provoked, row, n)
	t.Cleanup(func() {
		if t.Failed() {
			report.add(&report.violated, row, 1)
		}
	})
}

func (l *ledger) add(to *map[string]int, row string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if *to == nil {
		*to = map[string]int{}
	}
	(*to)[row] += n
}

func (l *ledger) print() error {
	if !testing.Verbose() {
		return nil
	}
	fmt.Fprintf(os.Stdout, "%-58s %9s %10s\n", "fault", "provoked", "violations")
	for _, row := range slices.Sorted(maps.Keys(l.provoked)) {
		fmt.Fprintf(os.Stdout, "%-58s %9d %10d\n", row, l.provoked[row], l.violated[row])
	}
	return nil
}

// hold stops a server's first unit where all its rows stand and COMMIT has not been sent, until the test lets it go on.
type hold struct{ file string }

func newHold(t *testing.T) hold {
	t.Helper()
	return hold{t.TempDir() + "/held"}
}

func (h hold) afterClaim() string { return string(faultpoint.AfterClaim) + "=pause:" + h.file }

// reached waits until the server stands there.
func (h hold) reached(t *testing.T) {
	t.Helper()
	orderoncetest.Poll(t, "the server to reach the fault point", func() bool {
		_, err := os.Stat(h.file)
		return err == nil
	})
}

func (h hold) release(t *testing.T) {
	t.Helper()
	if err := os.Remove(h.file); err != nil {
		t.Fatal(err)
	}
}

// sent is a request under way.
type sent struct{ done chan reply }

type reply struct {
	orderoncetest.Answer
	err error
}

func send(t *testing.T, to *shop.Server, key, body string) sent {
	t.Helper()
	s := sent{make(chan reply, 1)}
	go func() {
		a, err := to.TryPlace(t.Context(), key, body)
		s.done <- reply{a, err}
	}()
	return s
}

// answer waits for the request's answer.
func (s sent) answer(t *testing.T) orderoncetest.Answer {
	t.Helper()
	r := <-s.done
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.Answer
}

// lost waits for the request's end without an answer.
func (s sent) lost(t *testing.T) {
	t.Helper()
	if r := <-s.done; r.err == nil {
		t.Fatalf("an answer came: %d %s", r.Status, r.Body)
	}
}

// inTime tries what has to be done while a duplicate waits: that wait has a bound, which a machine under load may miss
// without a fault of anybody's. In a try that came too late nothing has happened yet.
func inTime(t *testing.T, try func() bool) {
	t.Helper()
	for range 10 {
		if try() {
			return
		}
	}
	t.Fatal("each time the waiter had given up before the owner was dealt with")
}

func inProgress(a orderoncetest.Answer) bool {
	return a.Status == 409 && a.Code() == "idempotency_in_progress" && a.Header.Get("Retry-After") != ""
}

// order is an order that says whose it is, so that the account finds two of one key.
func order(key string, more ...any) string {
	changes := map[string]any{"metadata": map[string]any{"key": key}}
	for pair := range slices.Chunk(more, 2) {
		changes[pair[0].(string)] = pair[1]
	}
	return orderoncetest.Order(changes)
}

// way is one of those that a unit of work goes.
type way struct {
	body string
	args []string // of the servers
}

// ways are all of them: a unit that only writes, in a commit that it could share and in one of its own, and a unit that
// reads, with a round trip for each statement.
func ways(key string) map[string]way {
	return map[string]way{
		"sharing": {body: order(key)},
		"alone":   {order(key), []string{"--shared-commits=0"}},
		"reading": {body: order(key, "coupon_code", "WELCOME10")},
	}
}

func wantFirst(t *testing.T, a orderoncetest.Answer) {
	t.Helper()
	if a.Status != 201 || a.Replayed() || a.OrderID() == "" {
		t.Errorf("got %d replayed=%v, want a first 201: %s", a.Status, a.Replayed(), a.Body)
	}
}

func wantReplayed(t *testing.T, a orderoncetest.Answer) {
	t.Helper()
	if a.Status != 201 || !a.Replayed() || a.OrderID() == "" {
		t.Errorf("got %d replayed=%v, want a replayed 201: %s", a.Status, a.Replayed(), a.Body)
	}
}

// wantReplay is wantReplayed of the very answer that the first one got.
func wantReplay(t *testing.T, first, second orderoncetest.Answer) {
	t.Helper()
	wantReplayed(t, second)
	if first.Body != second.Body || first.Header.Get("Location") != second.Header.Get("Location") {
		t.Errorf("the replay differs:\n%s\n%s", first.Body, second.Body)
	}
}

func wantProblem(t *testing.T, a orderoncetest.Answer, status int, code string) {
	t.Helper()
	if a.Status != status || a.Code() != code {
		t.Errorf("got %d %q, want %d %q: %s", a.Status, a.Code(), status, code, a.Body)
	}
}
