package secrets

import (
	"context"
	"net/url"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/postgres/localpg"
)

// trouble is what may happen to a database while requests come.
type trouble struct {
	name   string
	code   string // a problem that must come of it
	logged bool
	around func(w *world, send func() []answer) []answer
}

var troubles = []trouble{
	{"all well", "validation_failed", false, func(_ *world, send func() []answer) []answer { return send() }},
	altered("a table that is gone", "ALTER TABLE orders RENAME TO gone", "ALTER TABLE gone RENAME TO orders"),
	altered("a column that is gone",
		"ALTER TABLE idempotency_requests RENAME response_body TO gone", "ALTER TABLE idempotency_requests RENAME gone TO response_body"),
	// PostgreSQL would describe the row that it refuses.
	altered("a constraint that nobody thought of",
		"ALTER TABLE orders ADD CONSTRAINT unthought CHECK (customer_id = 'nobody') NOT VALID", "ALTER TABLE orders DROP CONSTRAINT unthought"),
	altered("another constraint that nobody thought of",
		"ALTER TABLE idempotency_requests ADD CONSTRAINT unthought CHECK (operation = 'none') NOT VALID",
		"ALTER TABLE idempotency_requests DROP CONSTRAINT unthought"),
	altered("a right that is gone", "REVOKE SELECT ON orders FROM orderonce_request", "GRANT SELECT ON orders TO orderonce_request"),
	{"tables that are held", "busy", true, func(w *world, send func() []answer) []answer {
		defer w.lock("orders, idempotency_requests")()
		return send()
	}},
	{"credentials that are held", "busy", true, func(w *world, send func() []answer) []answer {
		defer w.lock("api_keys")()
		return send()
	}},
	{"a connection that is cut while requests wait", "unavailable", true, func(w *world, send func() []answer) []answer {
		defer w.lock("orders")()
		sent := make(chan []answer)
		go func() { sent <- send() }()
		orderoncetest.Poll(w.t, "requests to wait", func() bool {
			return w.rows("SELECT pid::text FROM pg_stat_activity WHERE wait_event_type = 'Lock'") != ""
		})
		w.wire.Unplug()
		defer w.wire.Plug(w.t)
		return <-sent
	}},
	{"a database that is gone", "unavailable", true, func(w *world, send func() []answer) []answer {
		w.wire.Unplug()
		defer w.wire.Plug(w.t)
		return send()
	}},
	{"a password that is another now", "unavailable", true, func(w *world, send func() []answer) []answer {
		owner := w.shop.Connect(w.t)
		change := func(password string) {
			_, err := owner.Exec(w.t.Context(), "ALTER ROLE "+localpg.Owner+" PASSWORD '"+password+"'")
			w.must(err)
		}
		change("another")
		defer change(w.password)
		_, err := owner.Exec(w.t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'orderonce'")
		w.must(err)
		return send()
	}},
}

// altered is a schema that is not what the server takes it for.
func altered(name, change, back string) trouble {
	return trouble{name, "internal", true, func(w *world, send func() []answer) []answer {
		w.shop.Exec(w.t, change)
		defer w.shop.Exec(w.t, back)
		return send()
	}}
}

// lock holds whole tables until unlock, so that every statement on them waits.
func (w *world) lock(tables string) (unlock func()) {
	w.t.Helper()
	tx, err := w.shop.Connect(w.t).Begin(w.t.Context())
	w.must(err)
	_, err = tx.Exec(w.t.Context(), "LOCK TABLE "+tables)
	w.must(err)
	return func() { w.must(tx.Rollback(context.WithoutCancel(w.t.Context()))) }
}

func withPassword(t *testing.T, database, password string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String()
}
