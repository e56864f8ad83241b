// Command consumer is an example of a team that gets OrderOnce's events as webhooks and counts each of them once, however
// often it comes. It keeps a shop's revenue in a database of its own; copy it and put your own work where that is done.
//
//	PGHOST=… PGDATABASE=… go run ./docs/examples/consumer -secret-file erp.secret -listen 127.0.0.1:8099
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // sql.Open("pgx", …)
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// schema has two tables: what the team is there for, and the inbox, which knows what it has done already.
const schema = `
CREATE TABLE IF NOT EXISTS revenue (
    order_id    uuid PRIMARY KEY,
    version     bigint NOT NULL,
    status      text NOT NULL,
    total_minor bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS inbox (
    source      text NOT NULL,
    event_id    text NOT NULL, -- unique within its source
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, event_id)
);
CREATE TABLE IF NOT EXISTS confirmations (event_id text NOT NULL); -- a thing that must happen once: here, a line`

// event is a CloudEvent, as far as this consumer reads it.
type event struct {
	ID       string `json:"id"`
	Source   string `json:"source"`
	Type     string `json:"type"`
	Subject  string `json:"subject"`
	Sequence string `json:"sequence"`
	Data     struct {
		Status     string `json:"status"`
		TotalMinor int64  `json:"total_minor"`
	} `json:"data"`
}

type consumer struct {
	db   *sql.DB
	hook *standardwebhooks.Webhook
}

// ServeHTTP answers 2xx when the event's work is committed, and only then: whatever else it answers, or if it answers
// nothing, the event comes again under the same id.
func (c *consumer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	// The signature is of these very bytes; a body that was decoded and encoded again would not verify.
	if err := c.hook.Verify(body, r.Header); err != nil {
		http.Error(w, "the signature does not verify", http.StatusUnauthorized)
		return
	}
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		http.Error(w, "the body is no event", http.StatusBadRequest)
		return
	}
	if err := c.take(r.Context(), e); err != nil {
		slog.ErrorContext(r.Context(), "an event was not taken", "id", e.ID, "error", err)
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// take does the event's work once: the line in the inbox and the work are one transaction. A second delivery that comes
// while the first is at work waits for it at the primary key.
func (c *consumer) take(ctx context.Context, e event) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	taken, err := tx.ExecContext(ctx, "INSERT INTO inbox (source, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING", e.Source, e.ID)
	if err != nil {
		return fmt.Errorf("look into the inbox: %w", err)
	}
	if n, err := taken.RowsAffected(); err != nil || n == 0 {
		return err // it was done before
	}
	if err := work(ctx, tx, e); err != nil {
		return err
	}
	return tx.Commit()
}

// work is what this team is there for. It touches nothing outside tx: what it sent elsewhere could not be undone, and
// would be sent again.
func work(ctx context.Context, tx *sql.Tx, e event) error {
	version, err := strconv.ParseInt(e.Sequence, 10, 64)
	if err != nil {
		return fmt.Errorf("sequence %q: %w", e.Sequence, err)
	}
	// An older state never replaces a newer one, even if events were read from several places at once.
	_, err = tx.ExecContext(ctx, `INSERT INTO revenue (order_id, version, status, total_minor) VALUES ($1, $2, $3, $4)
		ON CONFLICT (order_id) DO UPDATE SET version = EXCLUDED.version, status = EXCLUDED.status, total_minor = EXCLUDED.total_minor
		WHERE revenue.version < EXCLUDED.version`, e.Subject, version, e.Data.Status, e.Data.TotalMinor)
	if err != nil {
		return fmt.Errorf("keep the revenue: %w", err)
	}
	if e.Type == "orderonce.order.confirmed.v1" {
		if _, err := tx.ExecContext(ctx, "INSERT INTO confirmations (event_id) VALUES ($1)", e.ID); err != nil {
			return fmt.Errorf("write a confirmation: %w", err)
		}
	}
	return nil
}

// forget removes what no delivery can ask for any more: OrderOnce sends nothing again after seven days.
func (c *consumer) forget(ctx context.Context) error {
	_, err := c.db.ExecContext(ctx, "DELETE FROM inbox WHERE received_at < now() - interval '8 days'")
	return err
}

func newConsumer(ctx context.Context, db *sql.DB, secret string) (*consumer, error) {
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, fmt.Errorf("make the tables: %w", err)
	}
	return &consumer{db: db, hook: hook}, nil
}

func run(ctx context.Context, listen, secretFile string) error {
	secret, err := os.ReadFile(secretFile) //nolint:gosec // the one that the caller names
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", "") // where PGHOST, PGDATABASE … lead
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := newConsumer(ctx, db, strings.TrimSpace(string(secret)))
	if err != nil {
		return err
	}
	if err := c.forget(ctx); err != nil {
		return err
	}
	server := http.Server{Addr: listen, Handler: c, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second}
	go func() {
		<-ctx.Done()
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(bound)
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8099", "where events are received")
	secretFile := flag.String("secret-file", "", "a file with the webhook's secret, whsec_…")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *listen, *secretFile); err != nil {
		slog.ErrorContext(ctx, "consumer", "error", err)
	}
}
