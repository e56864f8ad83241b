package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/idempotency"
	"orderonce/internal/identity"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// world is a server on a database of its own, with a tenant, an API key of it, and an operator's.
type world struct {
	t        *testing.T
	url      string // of the database
	db       *postgres.DB
	workers  *postgres.DB
	server   *Server
	base     string
	tenant   uuid.UUID
	token    string
	operator string
}

const poolSize = 16

func defaultConfig() Config {
	return Config{MaxBody: 256 << 10, BodyRead: 5 * time.Second, Request: 15 * time.Second, InFlight: 1024}
}

func setup(t *testing.T) *world {
	t.Helper()
	return setupWith(t, defaultConfig())
}

func setupWith(t *testing.T, config Config) *world {
	t.Helper()
	return setupOn(t, config, postgrestest.URL(t))
}

func setupOn(t *testing.T, config Config, database string) *world {
	t.Helper()
	w := &world{t: t, url: database}
	w.db, w.workers = w.open(postgres.Request, poolSize), w.open(postgres.Worker, 4)
	w.restart(config)
	w.tenant, w.token = w.principal("acme", "shop", identity.TenantScopes()...)
	_, w.operator = w.principal("operations", "ops", identity.OpsRead, identity.OpsWrite)
	return w
}

// process is one more server on the world's database, with a memory of its own.
func (w *world) process(config Config) *Server {
	w.t.Helper()
	modules := Modules{
		Tenants:   Side{DB: w.db, Keys: idempotency.New(w.db, 10*time.Second, 1000)},
		Operators: Side{DB: w.workers, Keys: idempotency.New(w.workers, 10*time.Second, 0)},
		Keyring:   identity.NewKeyring(w.workers),
	}
	server, err := New(w.t.Context(), config, modules, slog.New(slog.NewTextHandler(w.t.Output(), nil)))
	w.must(err)
	return server
}

// beside is the world as another process answers it, which remembers nothing.
func (w *world) beside() *world {
	w.t.Helper()
	other := *w
	other.restart(defaultConfig())
	return &other
}

// restart answers from a new process; the old one goes on beside it.
func (w *world) restart(config Config) {
	w.t.Helper()
	w.server = w.process(config)
	listening := httptest.NewServer(w.server)
	w.t.Cleanup(listening.Close)
	w.base = listening.URL
}

// tokenFor is a key that may do the operation.
func (w *world) tokenFor(o *operation) string {
	if identity.ForOperators(o.scope) {
		return w.operator
	}
	return w.token
}

func (w *world) open(role postgres.Role, connections int32) *postgres.DB {
	w.t.Helper()
	db, err := postgres.Open(w.t.Context(), postgres.Config{
		URL: w.url, Role: role, MaxConns: connections, TenantShare: connections * 3 / 4,
		SharedCommits: postgrestest.SharedCommits(), Acquire: 3 * time.Second, Statement: 5 * time.Second,
		IdleInTransaction: 8 * time.Second, Deadline: 10 * time.Second,
	})
	w.must(err)
	w.t.Cleanup(db.Close)
	return db
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// principal gives a principal, made where it is missing, one more key. The tenant operations is the operators'.
func (w *world) principal(tenant, name string, scopes ...string) (id uuid.UUID, token string) {
	w.t.Helper()
	by := identity.Change{Actor: "cli:tester", Reason: "a test"}
	err := w.workers.InTx(w.t.Context(), postgres.Unit{LockTimeout: time.Second}, func(ctx context.Context, tx *postgres.Tx) error {
		owner, _, err := identity.CreateTenant(ctx, tx, by, tenant, tenant == "operations")
		if err != nil {
			return err
		}
		id = owner.ID
		p, _, err := identity.CreatePrincipal(ctx, tx, by, id, name)
		if err != nil {
			return err
		}
		_, token, err = identity.CreateKey(ctx, tx, by, id, p.ID, identity.KeyPlan{Name: freshKey(), Scopes: scopes})
		return err
	})
	w.must(err)
	return id, token
}

func (w *world) coupon(c orders.Coupon) {
	w.t.Helper()
	c.TenantID = w.tenant
	if c.ValidFrom.IsZero() {
		c.ValidFrom = time.Now().Add(-time.Hour)
	}
	if c.ValidUntil.IsZero() {
		c.ValidUntil = time.Now().Add(time.Hour)
	}
	w.must(w.workers.InTx(w.t.Context(), postgres.Unit{LockTimeout: time.Second}, func(ctx context.Context, tx *postgres.Tx) error {
		return orders.PutCoupon(ctx, tx, c)
	}))
}

// connect is a session of the test's own, to hold locks with and to look at rows.
func (w *world) connect() *pgx.Conn {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), w.url)
	w.must(err)
	w.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(w.t.Context())) })
	return conn
}

func (w *world) exec(sql string) {
	w.t.Helper()
	conn := w.connect()
	defer conn.Close(w.t.Context())
	_, err := conn.Exec(w.t.Context(), sql)
	w.must(err)
}

// rows is what stands in the tables.
type rows struct{ orders, records, events int }

func (w *world) rows() (r rows) {
	w.t.Helper()
	conn := w.connect()
	defer conn.Close(w.t.Context())
	w.must(conn.QueryRow(w.t.Context(), `SELECT (SELECT count(*) FROM orders),
		(SELECT count(*) FROM idempotency_requests), (SELECT count(*) FROM outbox_events)`).Scan(&r.orders, &r.records, &r.events))
	return r
}

func (w *world) wantRows(want rows) {
	w.t.Helper()
	if got := w.rows(); got != want {
		w.t.Errorf("rows: got %+v, want %+v", got, want)
	}
}

// answer is a response read whole, with its problem where it is one.
type answer struct {
	status int
	header http.Header
	body   []byte
	problem
}

type option func(*http.Request)

func with(name string, values ...string) option {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

func as(token string) option { return with("Authorization", "Bearer "+token) }

// place sends an order.
func (w *world) place(key, body string, options ...option) answer {
	w.t.Helper()
	options = append([]option{with("Content-Type", "application/json"), with(keyHeader, key)}, options...)
	return w.send(http.MethodPost, "/orders", strings.NewReader(body), options...)
}

func (w *world) get(path string, options ...option) answer {
	w.t.Helper()
	return w.send(http.MethodGet, path, nil, options...)
}

// send makes a request and checks the answer against the contract.
func (w *world) send(method, path string, body io.Reader, options ...option) answer {
	w.t.Helper()
	a, err := w.try(method, path, body, options...)
	w.must(err)
	return a
}

func (w *world) try(method, path string, body io.Reader, options ...option) (answer, error) {
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, body)
	if err != nil {
		return answer{}, err
	}
	as(w.token)(r)
	for _, o := range options {
		o(r)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	a := answer{status: response.StatusCode, header: response.Header}
	if a.body, err = io.ReadAll(response.Body); err != nil {
		return answer{}, err
	}
	if response.Header.Get("Content-Type") == "application/problem+json" {
		if err := json.Unmarshal(a.body, &a.problem); err != nil {
			return answer{}, err
		}
	}
	return a, w.judge(r, a)
}

// judge holds an answer against openapi.yaml: its status, its headers, its body. And it has what every answer has.
func (w *world) judge(r *http.Request, a answer) error {
	if err := unprotected(a.header); err != nil {
		return fmt.Errorf("the answer is not protected: %w", err)
	}
	_, pattern := w.server.routes.Handler(r)
	for _, o := range w.server.spec.operations {
		if o.pattern != pattern {
			continue
		}
		media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
		input := &openapi3filter.ResponseValidationInput{
			RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, Route: o.route, QueryParams: url.Values{}},
			Status:                 a.status,
			Header:                 a.header,
			Options: &openapi3filter.Options{
				IncludeResponseStatus: true,
				ExcludeResponseBody:   media == "text/html" || media == "application/yaml",
			},
		}
		if err := openapi3filter.ValidateResponse(r.Context(), input.SetBodyBytes(a.body)); err != nil {
			return fmt.Errorf("the answer breaks the contract: %w\n%d %s", err, a.status, a.body)
		}
		return nil
	}
	var body any
	if err := json.Unmarshal(a.body, &body); err != nil {
		return err
	}
	return w.server.spec.doc.Components.Schemas["Problem"].Value.VisitJSON(body)
}

func freshKey() string { return uuid.Must(uuid.NewV7()).String() }

// order is a valid body with what the test changes about it.
func order(change ...func(map[string]any)) string {
	body := map[string]any{
		"customer_id": "customer-1", "currency": "EUR", "shipping_address_id": "address-1",
		"items": []any{map[string]any{"sku": "MUG", "quantity": 2, "unit_price_minor": 1250}},
	}
	for _, c := range change {
		c(body)
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func set(name string, value any) func(map[string]any) {
	return func(body map[string]any) { body[name] = value }
}

func wantProblem(t *testing.T, a answer, status int, code string) {
	t.Helper()
	if a.status != status || a.Code != code {
		t.Errorf("got %d %q, want %d %q: %s", a.status, a.Code, status, code, a.body)
	}
}

func wantCreated(t *testing.T, a answer, replayed string) {
	t.Helper()
	if a.status != http.StatusCreated || a.header.Get("Idempotency-Replayed") != replayed {
		t.Errorf("got %d replayed=%q, want 201 replayed=%q: %s", a.status, a.header.Get("Idempotency-Replayed"), replayed, a.body)
	}
}

// wantReplay checks that b repeats a: same status, same body bytes, same business headers.
func wantReplay(t *testing.T, a, b answer) {
	t.Helper()
	if b.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("not marked as a replay: %d %s", b.status, b.body)
	}
	if a.status != b.status || !bytes.Equal(a.body, b.body) {
		t.Errorf("the replay differs:\n%d %s\n%d %s", a.status, a.body, b.status, b.body)
	}
	for _, name := range []string{"Content-Type", "Location", "Etag", "Idempotency-Key-Expires"} {
		if a.header.Get(name) != b.header.Get(name) {
			t.Errorf("%s: first %q, replay %q", name, a.header.Get(name), b.header.Get(name))
		}
	}
	if a.header.Get("X-Request-Id") == b.header.Get("X-Request-Id") {
		t.Error("a replay is a request of its own and needs its own id")
	}
}
