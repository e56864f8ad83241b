// Package secrets sends marked secrets and personal data everywhere that a client, an operator or a fault can, to a
// whole server at its most talkative, and then searches everything that the server and its database have said. Nothing
// is to be found: neither when all is well, nor in the errors of a database that is locked, broken or gone.
//
// A new output, such as spans or metrics, is one line of (*world).outputs.
package secrets

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/postgres/localpg"
	"orderonce/internal/postgres/postgrestest"
	"orderonce/test/collector"
	"orderonce/test/shop"
)

func TestMain(m *testing.M) { postgrestest.Main(m, orderoncetest.RemoveBinaries) }

// kind is what a mark stands for, which says where it may be seen.
type kind int

const (
	credential kind = iota // an API key, a password: nowhere
	key                    // an idempotency key: nowhere
	value                  // something of a request's: only in the answer that is the resource itself
	name                   // of a member or parameter: a problem may point to it, which is what pointers are for
)

// marks are all that must not be found.
type marks struct {
	kinds map[string]kind
	where map[string]string
}

// new makes a mark that is seen nowhere else. It fits wherever a client's word fits: it has 36 characters.
func (m *marks) new(k kind, where string) string {
	mark := "mark" + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "")
	m.add(k, where, mark)
	return mark
}

func (m *marks) add(k kind, where, mark string) {
	if m.kinds == nil {
		m.kinds, m.where = map[string]kind{}, map[string]string{}
	}
	m.kinds[mark], m.where[mark] = k, where
}

// want searches a text for marks, but for those that may be seen there. PostgreSQL writes bytes in hexadecimal.
func (m *marks) want(t *testing.T, in, text string, but ...kind) {
	t.Helper()
	for mark, k := range m.kinds {
		if slices.Contains(but, k) {
			continue
		}
		for _, form := range []string{mark, hex.EncodeToString([]byte(mark))} {
			if at := strings.Index(text, form); at >= 0 {
				t.Errorf("%s holds the mark from the %s:\n%s", in, m.where[mark], text[max(0, at-200):min(len(text), at+200)])
			}
		}
	}
}

// world is a server on a PostgreSQL of its own, whose log can be read, over a wire that can be cut.
type world struct {
	t      *testing.T
	marks  *marks
	server *shop.Server
	shop   *shop.Shop
	wire   *shop.Network
	pg     *localpg.Server

	collector *collector.Collector
	password  string // of the database's owner
	ended     string // the key of a principal that was sent away
}

func setup(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, marks: &marks{}, pg: shop.Killable(t, false), collector: collector.Start(t)}
	w.shop = shop.OpenOn(t, w.pg)
	on, reason := "--database-url="+w.shop.URL, "--reason=a test"
	w.command("principals", "create", "--tenant=acme", "--principal=leaver", reason, on)
	w.ended = strings.TrimSpace(w.command("keys", "create", "--tenant=acme", "--principal=leaver", "--name=2026-11", reason, on))
	w.shop.Exec(t, "UPDATE principals SET active = false WHERE name = 'leaver'")
	for where, token := range map[string]string{"API key": w.shop.Token, "ended API key": w.ended} {
		w.marks.add(credential, where, strings.Split(token, "_")[3])
	}
	// The owner has the marked password from here on.
	w.password = w.marks.new(credential, "database URL")
	w.shop.Exec(t, fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", localpg.Owner, w.password))
	w.shop.URL = withPassword(t, w.shop.URL, w.password)
	w.wire = shop.NewNetwork(t, w.shop.Address(t))
	w.server = w.shop.Serve(t, shop.Options{Through: w.wire.Address, Args: []string{
		"--log-level=debug", "--acquire-timeout=1s", "--statement-timeout=3s",
		"--trace-sampling=1", "--otlp-endpoint=" + w.collector.Endpoint, "--metrics-listen=127.0.0.1:0",
		"--telemetry-key-secret=" + w.marks.new(credential, "secret of the hashes"),
	}})
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) command(args ...string) (stdout string) {
	w.t.Helper()
	status, stdout, stderr := orderoncetest.Run(w.t, orderoncetest.Command{Binary: shop.Binary(w.t), Args: args})
	if status != 0 {
		w.t.Fatalf("%v: status %d: %s", args, status, stderr)
	}
	return stdout
}

// output is something that operators, or whoever gets hold of their logs, can read.
type output struct {
	name string
	text func() string
}

// outputs are all that there are.
func (w *world) outputs() []output {
	return []output{
		{"standard output", w.server.Stdout.String},
		{"standard error", w.server.Stderr.String},
		{"spans and metrics", w.collector.Text},
		{"scraped metrics", w.scraped},
		{"PostgreSQL's log", func() string { return w.file(filepath.Join(w.pg.Dir(), "postgresql.log")) }},
		{"pg_stat_activity", func() string {
			return w.rows("SELECT to_jsonb(a)::text FROM pg_stat_activity a WHERE application_name = 'orderonce'")
		}},
	}
}

// scraped is what Prometheus would get, exemplars included; nothing once the server has ended.
func (w *world) scraped() string {
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.server.Ready.MetricsURL, nil)
	w.must(err)
	r.Header.Set("Accept", "application/openmetrics-text")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	w.must(err)
	return string(text)
}

func (w *world) file(path string) string {
	w.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

func (w *world) rows(sql string) string {
	w.t.Helper()
	rows, err := w.shop.Connect(w.t).Query(w.t.Context(), sql)
	if err != nil {
		w.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Join(all, "\n")
}
