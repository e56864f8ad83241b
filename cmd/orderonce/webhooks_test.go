package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"orderonce/cmd/orderonce/orderoncetest"
)

// A webhook's whole life by hand: each change once in the audit log, however often it is said, and never its secret.
func TestWebhooksCommands(t *testing.T) {
	t.Parallel()
	o := operator{t, databaseOfTest(t)}
	erp := []string{"--tenant=acme", "--name=erp"}
	secret := o.change(append(erp, "webhooks", "create", "--url=https://erp.example/hooks?token=t0ken", "--events=orderonce.order.created.v1")...)
	if !regexp.MustCompile(`^whsec_[A-Za-z0-9+/]{43}=\n$`).MatchString(secret) {
		t.Fatalf("not a secret alone: %q", secret)
	}
	status, stdout, stderr := o.try(append(erp, "webhooks", "create", "--url=https://erp.example/hooks?token=t0ken",
		"--events=orderonce.order.created.v1", "--reason=again")...)
	if status != 1 || stdout != "" || !strings.Contains(stderr, "there is a webhook erp already") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	if next := o.change(append(erp, "webhooks", "rotate", "--overlap=1h")...); next == secret || !strings.HasPrefix(next, "whsec_") {
		t.Errorf("rotated: %q", next)
	}
	for _, verb := range []string{"disable", "enable"} {
		for range 2 {
			want := map[string]string{"disable": "webhook erp is inactive\n", "enable": "webhook erp is active\n"}[verb]
			if got := o.change(append(erp, "webhooks", verb)...); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
	var hooks []map[string]any
	must(t, json.Unmarshal([]byte(o.do("webhooks", "list", "--tenant=acme", "--output=json")), &hooks))
	if len(hooks) != 1 || hooks[0]["name"] != "erp" || hooks[0]["active"] != true {
		t.Errorf("%v", hooks)
	}
	if table := o.do("webhooks", "list", "--tenant=acme"); !strings.Contains(table, "https://erp.example/hooks") || strings.Contains(table, "whsec_") {
		t.Error(table)
	}

	conn, err := pgx.Connect(t.Context(), o.database)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	rows, err := conn.Query(t.Context(), "SELECT action || ' ' || details FROM audit_log WHERE subject_type = 'webhook' ORDER BY id")
	must(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	said := strings.Join(lines, "\n")
	for i, action := range []string{"webhook.created", "webhook.rotated", "webhook.disabled", "webhook.enabled"} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], action) {
			t.Fatalf("audited: %s", said)
		}
	}
	if len(lines) != 4 || strings.Contains(said, "t0ken") || strings.Contains(said, strings.TrimSpace(secret)) {
		t.Errorf("audited: %s", said)
	}
}

func TestWebhooksCommandsRefuse(t *testing.T) {
	t.Parallel()
	o := operator{t, databaseOfTest(t)}
	for want, args := range map[string][]string{
		"There is no such tenant":         {"webhooks", "create", "--tenant=nobody", "--name=erp", "--url=https://erp.example/"},
		"/url must begin with https://":   {"webhooks", "create", "--tenant=acme", "--name=erp", "--url=http://erp.example/"},
		"/url must not lead to a private": {"webhooks", "create", "--tenant=acme", "--name=erp", "--url=https://169.254.169.254/"},
		"/event_types/0 is none of":       {"webhooks", "create", "--tenant=acme", "--name=erp", "--url=https://erp.example/", "--events=all"},
		"There is no such webhook":        {"webhooks", "rotate", "--tenant=acme", "--name=nobody"},
	} {
		status, stdout, stderr := o.try(append(args, "--reason=a test")...)
		if status != 1 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, %q does not say %q", args, status, stdout+stderr, want)
		}
	}
}

// Case 29, from outside: a consumer that reads an order as soon as it hears of it finds it, at the version that it was
// told or a later one. Each event comes again, since its first delivery is answered 500, and is counted once.
func TestConsumerFindsTheOrderOnReceipt(t *testing.T) {
	t.Parallel()
	d := startDev(t, dataDir(t))
	client := orderoncetest.NewClient(d.BaseURL, d.Keys["acme"])
	var hook atomic.Pointer[standardwebhooks.Webhook]
	var mu sync.Mutex
	deliveries, inbox := map[string]int{}, map[string][]string{} // by event, and the types of each order's
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = hook.Load().Verify(body, r.Header)
		}
		var event struct{ ID, Type, Subject, Sequence string }
		if err == nil {
			err = json.Unmarshal(body, &event)
		}
		if err != nil {
			t.Errorf("%s: %v", body, err)
			return
		}
		a, err := client.Do(r.Context(), http.MethodGet, "/orders/"+event.Subject, "", nil)
		if err != nil || a.Status != http.StatusOK {
			t.Errorf("the order of %s: %d %s, %v", event.Type, a.Status, a.Body, err)
		}
		told, err := strconv.Atoi(event.Sequence)
		version, err2 := strconv.Atoi(strings.Trim(a.Header.Get("ETag"), `"`))
		if err != nil || err2 != nil || version < told {
			t.Errorf("version %d was told, and %d is there: %v, %v", told, version, err, err2)
		}
		mu.Lock()
		defer mu.Unlock()
		if deliveries[event.ID]++; deliveries[event.ID] == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		if deliveries[event.ID] == 2 {
			inbox[event.Subject] = append(inbox[event.Subject], event.Type)
		}
	}))
	t.Cleanup(receiver.Close)
	header := http.Header{"Idempotency-Key": {orderoncetest.NewKey()}, "Content-Type": {"application/json"}}
	a, err := client.Do(t.Context(), http.MethodPost, "/webhooks", `{"name": "erp", "url": "`+receiver.URL+`"}`, header)
	must(t, err)
	var made struct{ Secret string }
	must(t, json.Unmarshal([]byte(a.Body), &made))
	verifier, err := standardwebhooks.NewWebhook(made.Secret)
	must(t, err)
	hook.Store(verifier)

	const orders = 5
	for range orders {
		wantFirst(t, client.Place(t, orderoncetest.NewKey(), orderoncetest.Order(nil)))
	}
	// Dev plays the services that decide the orders, so each of them is told of twice.
	orderoncetest.Poll(t, "both events of each order", func() bool {
		mu.Lock()
		defer mu.Unlock()
		done := 0
		for _, types := range inbox {
			if len(types) == 2 {
				done++
			}
		}
		return done == orders
	})
	mu.Lock()
	defer mu.Unlock()
	for order, types := range inbox {
		if types[0] != "orderonce.order.created.v1" || types[1] != "orderonce.order.confirmed.v1" {
			t.Errorf("%s: %v", order, types)
		}
	}
}
