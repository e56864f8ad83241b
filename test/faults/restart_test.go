package faults

import (
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/postgres/localpg"
	"orderonce/internal/postgres/postgrestest"
	"orderonce/test/shop"
)

// While the database is away no traffic is wanted and nothing is promised; when it is back, what was committed
// replays, and what was refused runs.
func TestDatabaseRestart(t *testing.T) {
	t.Parallel()
	database := shop.Killable(t, false)
	s := shop.OpenOn(t, database)
	server := s.Serve(t, shop.Options{})
	old, refused := orderoncetest.NewKey(), orderoncetest.NewKey()
	first := server.Place(t, old, order(old))
	wantFirst(t, first)
	ready(t, server, 200)

	if err := database.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	provoked(t, "database restart", 1)
	ready(t, server, 503)
	if status := server.Status(t.Context(), "/livez"); status != 200 {
		t.Errorf("/livez is %d: a restart of the server would help nobody", status)
	}
	for _, key := range []string{old, refused} {
		a := server.Place(t, key, order(key))
		wantProblem(t, a, 503, "unavailable")
		if a.Header.Get("Retry-After") == "" || a.Header.Get("X-Should-Retry") == "false" {
			t.Errorf("%v", a.Header)
		}
	}

	startAgain(t, database)
	ready(t, server, 200)
	wantReplay(t, first, server.Place(t, old, order(old)))
	wantFirst(t, server.Place(t, refused, order(refused)))
	s.WantAccount(t, shop.Balanced(2, 0))
}

// startAgain starts another PostgreSQL on the files and the port of one that has ended.
func startAgain(t *testing.T, ended *localpg.Server) {
	t.Helper()
	again := postgrestest.Start(t, localpg.Options{Dir: ended.Dir(), Settings: map[string]string{"fsync": "off"}})
	if again.URL(localpg.Database) != ended.URL(localpg.Database) {
		t.Fatal("another process has taken the port of this test's PostgreSQL")
	}
}

// ready waits until /readyz says so.
func ready(t *testing.T, server *shop.Server, status int) {
	t.Helper()
	orderoncetest.Poll(t, "/readyz to turn", func() bool { return server.Status(t.Context(), "/readyz") == status })
}

// untilServed retries as a client does while it is told to come back.
func untilServed(t *testing.T, server *shop.Server, key, body string) (a orderoncetest.Answer) {
	t.Helper()
	orderoncetest.Poll(t, "an answer that is not 503", func() bool {
		a = server.Place(t, key, body)
		return a.Status != 503
	})
	return a
}
