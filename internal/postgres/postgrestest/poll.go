package postgrestest

import (
	"testing"
	"time"
)

// tooLong is how long a test waits for what somebody else does in this process or in the database: far longer than that
// takes on a machine under load.
const tooLong = 30 * time.Second

// Poll waits until reached is true, and fails the test when that takes far too long.
func Poll(tb testing.TB, what string, reached func() bool) {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(tooLong)
	for !reached() {
		select {
		case <-tick.C:
		case <-late:
			tb.Fatalf("waited in vain for %s", what)
		}
	}
}
