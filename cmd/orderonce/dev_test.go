package main

import (
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/postgres/postgrestest"
)

// development is a running `orderonce dev` with all that it printed.
type development struct {
	*orderoncetest.Process
	orderoncetest.Ready
	acme *orderoncetest.Client
}

// dataDir is a directory for dev's own PostgreSQL, which must not outlive the test.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := postgrestest.TempDir(t)
	t.Cleanup(func() {
		orderoncetest.Poll(t, "dev's PostgreSQL to end", func() bool { return len(orderoncetest.Postgres(dir)) == 0 })
	})
	return dir
}

func startDev(t *testing.T, data string, args ...string) development {
	t.Helper()
	process, ready := orderoncetest.StartServer(t, orderoncetest.Command{
		Binary: orderoncetest.Binary(t), Args: append([]string{"dev", "--data=" + data}, args...),
	})
	return development{process, ready, orderoncetest.NewClient(ready.BaseURL, ready.Keys["acme"])}
}

// databaseOfTest is a migrated database, with a PostgreSQL of its own below it.
func databaseOfTest(t *testing.T) string {
	t.Helper()
	return startDev(t, dataDir(t)).DatabaseURL
}

// query reads one value as the database's owner.
func (d development) query(t *testing.T, sql string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.DatabaseURL)
	must(t, err)
	defer conn.Close(t.Context())
	must(t, conn.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

const countOrders = `SELECT count(*) FROM orders`

// pasted sends what the printed curl sends. It reads the text as a shell would, so a quote or a backslash that is
// missing there is missed here.
func (d development) pasted(t *testing.T) orderoncetest.Answer {
	t.Helper()
	_, command, _ := strings.Cut(d.Stdout.String(), "\ncurl -i ")
	command = strings.ReplaceAll(command, " \\\n", " ")
	command, _, _ = strings.Cut(command, "\n")
	url, options, _ := strings.Cut(command, " ")
	if rest := regexp.MustCompile(` *-[Hd] '[^']*'`).ReplaceAllString(options, ""); rest != "" {
		t.Fatalf("a shell would not understand %q of\n%s", rest, command)
	}
	header, body := http.Header{}, ""
	for _, option := range regexp.MustCompile(`-([Hd]) '([^']*)'`).FindAllStringSubmatch(options, -1) {
		if name, value, ok := strings.Cut(option[2], ": "); ok && option[1] == "H" {
			header.Set(name, value)
		} else {
			body = option[2]
		}
	}
	base, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	token := strings.TrimPrefix(header.Get("Authorization"), "Bearer ")
	a, err := orderoncetest.NewClient("http://"+base, token).Do(t.Context(), http.MethodPost, path, body, header)
	must(t, err)
	return a
}

// wantReplay checks that second repeats first: status, bytes and business headers.
func wantReplay(t *testing.T, first, second orderoncetest.Answer) {
	t.Helper()
	if !second.Replayed() || second.Status != first.Status || second.Body != first.Body {
		t.Errorf("no replay of\n%d %s\nbut replayed=%v\n%d %s", first.Status, first.Body, second.Replayed(), second.Status, second.Body)
	}
	for _, name := range []string{"Location", "Content-Type", "Idempotency-Key-Expires"} {
		if first.Header.Get(name) != second.Header.Get(name) {
			t.Errorf("%s was %q and is %q", name, first.Header.Get(name), second.Header.Get(name))
		}
	}
}

func wantFirst(t *testing.T, a orderoncetest.Answer) {
	t.Helper()
	if a.Status != http.StatusCreated || a.Replayed() || a.OrderID() == "" {
		t.Fatalf("got %d replayed=%v, want a first 201: %s", a.Status, a.Replayed(), a.Body)
	}
}

// What a newcomer does in the first minute.
func TestDevsCurlPastedTwiceIsOneOrder(t *testing.T) {
	t.Parallel()
	d := startDev(t, dataDir(t))
	first := d.pasted(t)
	wantFirst(t, first)
	wantReplay(t, first, d.pasted(t))
	if n := d.query(t, countOrders); n != 1 {
		t.Errorf("%d orders", n)
	}
	if acme := d.Keys["acme"]; acme == d.Keys["globex"] || !strings.Contains(d.Stdout.String(), acme) || d.PIDs["server"] != d.PID() {
		t.Errorf("the ready-file says %+v", d.Ready)
	}
}

// A definite "no" belongs to its key: what became true later is for the next key.
func TestDevsExpiredCouponStaysRefused(t *testing.T) {
	t.Parallel()
	d := startDev(t, dataDir(t))
	key, body := orderoncetest.NewKey(), orderoncetest.Order(map[string]any{"coupon_code": "EXPIRED10"})
	first := d.acme.Place(t, key, body)
	if first.Status != http.StatusUnprocessableEntity || first.Code() != "coupon_expired" || first.Replayed() {
		t.Fatalf("%d %s", first.Status, first.Body)
	}
	if n := d.query(t, countOrders); n != 0 {
		t.Errorf("%d orders", n)
	}
	d.query(t, `WITH valid AS (UPDATE coupons SET valid_until = now() + interval '1 day' WHERE code = 'EXPIRED10' RETURNING 1)
		SELECT count(*) FROM valid`)
	wantReplay(t, first, d.acme.Place(t, key, body))
	wantFirst(t, d.acme.Place(t, orderoncetest.NewKey(), body))
}

// A load balancer is told first, and loses nothing: between the two, requests are answered.
func TestDevEndsInOrder(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	d := startDev(t, data, "--drain-delay=2s")
	if status := d.acme.Status(t.Context(), "/readyz"); status != http.StatusOK {
		t.Fatalf("/readyz is %d", status)
	}
	d.Signal(t, syscall.SIGTERM)
	orderoncetest.Poll(t, "/readyz to turn false", func() bool {
		status := d.acme.Status(t.Context(), "/readyz")
		if status == 0 {
			t.Fatal("the listener closed before /readyz turned false")
		}
		return status == http.StatusServiceUnavailable
	})
	wantFirst(t, d.acme.Place(t, orderoncetest.NewKey(), orderoncetest.Order(nil)))
	if status := d.Wait(t); status != 0 {
		t.Errorf("status %d: %s", status, d.Stderr)
	}
	if status := d.acme.Status(t.Context(), "/livez"); status != 0 {
		t.Errorf("somebody still answers: %d", status)
	}
	if left := orderoncetest.Postgres(data); len(left) > 0 {
		t.Errorf("PostgreSQL still runs: %v", left)
	}
}

func TestDevsDataHaveOneServer(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	d := startDev(t, data)
	status, _, stderr := run(t, nil, "dev", "--listen=127.0.0.1:0", "--data="+data)
	if status != 1 || !strings.Contains(stderr, "already in use by pid") || !strings.Contains(stderr, data) {
		t.Errorf("status %d: %s", status, stderr)
	}
	wantFirst(t, d.acme.Place(t, orderoncetest.NewKey(), orderoncetest.Order(nil)))
}
