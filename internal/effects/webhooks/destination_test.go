package webhooks_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"orderonce/internal/effects"
	"orderonce/internal/effects/webhooks"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
)

// verify judges a delivery by the library that receivers are told to use.
func verify(t *testing.T, secret string, d delivery) error {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return hook.Verify(d.body, d.header)
}

func TestPlanAsksForWhatSubscribersWant(t *testing.T) {
	t.Parallel()
	f := setup(t)
	d := f.deliveries(webhooks.Config{Guard: inside})
	all, _ := f.subscribe("all", "https://a.example/")
	some, _ := f.subscribe("some", "https://b.example/", "orderonce.order.cancelled.v1")
	off, _ := f.subscribe("off", "https://c.example/")
	f.change(func(ctx context.Context, tx *postgres.Tx) error {
		_, _, err := webhooks.Disable(ctx, tx, f.tenant, off.ID, webhooks.Requested)
		return err
	})
	created, cancelled := f.event("orderonce.order.created.v1"), f.event("orderonce.order.cancelled.v1")
	foreign, others := f.event("orderonce.order.created.v1"), f.event("orderonce.thing.made.v1")
	foreign.Tenant, others.AggregateType = newID(t), "thing"
	var got []string
	for _, call := range f.plan(d, created, cancelled, foreign, others) {
		got = append(got, fmt.Sprintln(call.Tenant, call.Order, call.Lane, call.Operation, call.Event, call.Version, call.Required))
	}
	line := func(s webhooks.Subscription, e outbox.Recorded) string {
		return fmt.Sprintln(f.tenant, e.AggregateID, s.ID, "deliver:"+e.ID.String(), e.ID, e.Version, false)
	}
	if diff := cmp.Diff([]string{line(all, created), line(all, cancelled), line(some, cancelled)}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if calls := f.plan(d, others); len(calls) != 0 {
		t.Errorf("of things without subscribers: %v", calls)
	}
}

// Every attempt has the id and the bytes of the first, a time of its own, and the signatures of all live secrets.
func TestDeliveryIsAStandardWebhook(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := receive(t, nil)
	s, first := f.subscribe("erp", r.URL+"/hooks?from=us")
	d := f.deliveries(webhooks.Config{Guard: inside})
	e := f.one(d)
	e.CreatedAt = time.Now().Add(-72 * time.Hour) // the library refuses a time of then
	rotate := func(overlap time.Duration) (secret string) {
		f.change(func(ctx context.Context, tx *postgres.Tx) (err error) {
			_, secret, err = webhooks.RotateSecret(ctx, tx, f.tenant, s.ID, overlap)
			return err
		})
		return secret
	}
	var secrets []string
	for _, next := range []func(){
		func() { secrets = []string{first} },
		func() { secrets = append(secrets, rotate(time.Hour)) },
		func() { secrets = []string{rotate(0)} },
	} {
		next()
		if result := d.Send(t.Context(), e); result.Verdict != effects.Done || result.Status != http.StatusNoContent {
			t.Fatalf("%+v", result)
		}
		got := r.deliveries()
		last := got[len(got)-1]
		if string(last.body) != string(e.Request) || last.header.Get("Webhook-Id") != e.Event.String() {
			t.Errorf("it got %v %s", last.header, last.body)
		}
		if n := len(strings.Fields(last.header.Get("Webhook-Signature"))); n != len(secrets) {
			t.Errorf("%d signatures of %d secrets", n, len(secrets))
		}
		for _, secret := range secrets {
			if err := verify(t, secret, last); err != nil {
				t.Error(err)
			}
		}
	}
	last := r.deliveries()[2]
	if verify(t, first, last) == nil {
		t.Error("a secret that has ended still signs")
	}
	last.body = append(last.body, ' ')
	if verify(t, secrets[0], last) == nil {
		t.Error("a changed body verifies")
	}
}

func TestAnswersAreJudged(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var answer atomic.Pointer[http.HandlerFunc]
	r := receive(t, func(w http.ResponseWriter, request *http.Request) { (*answer.Load())(w, request) })
	elsewhere := receive(t, nil)
	s, _ := f.subscribe("erp", r.URL)
	d := f.deliveries(webhooks.Config{Guard: inside})
	e := f.one(d)
	status := func(status int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
		}
	}
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   effects.Verdict
		pause  time.Duration
	}{
		"200":                          {status(200), effects.Done, 0},
		"202":                          {status(202), effects.Done, 0},
		"200 without an end":           {endless, effects.Done, 0},
		"200, cut in the body":         {func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "9"); cut(w, r) }, effects.Ambiguous, 0},
		"301, which is not followed":   {status(301, "Location", elsewhere.URL), effects.NotExecuted, 0},
		"307, which is not followed":   {status(307, "Location", elsewhere.URL), effects.NotExecuted, 0},
		"400":                          {status(400), effects.NotExecuted, 0},
		"401":                          {status(401), effects.NotExecuted, 0},
		"404":                          {status(404), effects.NotExecuted, 0},
		"408":                          {status(408), effects.Ambiguous, 0},
		"429":                          {status(429), effects.NotExecuted, 0},
		"429 with a pause":             {status(429, "Retry-After", "17"), effects.NotExecuted, 17 * time.Second},
		"429 with a pause for ever":    {status(429, "Retry-After", "2000000000"), effects.NotExecuted, 24 * time.Hour},
		"429 with nonsense":            {status(429, "Retry-After", "-1"), effects.NotExecuted, 0},
		"429 with a date that is over": {status(429, "Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT"), effects.NotExecuted, 0},
		"500":                          {status(500), effects.Ambiguous, 0},
		"502":                          {status(502), effects.Ambiguous, 0},
		"503":                          {status(503), effects.Ambiguous, 0},
		"503 with a pause":             {status(503, "Retry-After", "3"), effects.NotExecuted, 3 * time.Second},
		"504":                          {status(504), effects.Ambiguous, 0},
		"no answer":                    {cut, effects.Ambiguous, 0},
		"a header without an end":      {status(200, "X-Long", strings.Repeat("x", 1<<20)), effects.Ambiguous, 0},
	} {
		answer.Store(&c.answer)
		got := d.Send(t.Context(), e)
		if got.Verdict != c.want || got.RetryAfter != c.pause {
			t.Errorf("%s: %+v, want %s and %s", name, got, c.want, c.pause)
		}
	}
	if n := len(elsewhere.deliveries()); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
	if !f.read(s.ID).Active {
		t.Error("one of them has disabled the webhook")
	}
}

func endless(w http.ResponseWriter, _ *http.Request) {
	for {
		if _, err := io.WriteString(w, strings.Repeat("x", 4096)); err != nil {
			return
		}
	}
}

// What never left is not in doubt; what may have arrived is.
func TestNoAnswerIsJudgedByWhetherAByteLeft(t *testing.T) {
	t.Parallel()
	f := setup(t)
	closed, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	hold := make(chan struct{})
	silent := receive(t, func(http.ResponseWriter, *http.Request) { <-hold })
	t.Cleanup(func() { close(hold) }) // before the receiver is closed
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0) // it is told of the certificate
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	for name, c := range map[string]struct {
		url  string
		want effects.Verdict
		why  string
	}{
		"refused":     {"http://" + closed.Addr().String(), effects.NotExecuted, "the connection failed"},
		"no such":     {"http://nobody.invalid/", effects.NotExecuted, "its name does not resolve"},
		"certificate": {untrusted.URL, effects.NotExecuted, "its certificate is not valid"},
		"plain":       {strings.Replace(silent.URL, "http:", "https:", 1), effects.NotExecuted, "the connection failed"},
		"silent":      {silent.URL, effects.Ambiguous, "time-out"},
	} {
		name = strings.ReplaceAll(name, " ", "-")
		s, _ := f.subscribe(name, c.url)
		d := f.deliveries(webhooks.Config{Guard: inside, Timeout: time.Second})
		e := f.one(d)
		got := d.Send(t.Context(), e)
		if got.Verdict != c.want || got.Detail != c.why || got.Status != 0 {
			t.Errorf("%s: %+v, want %s, %s", name, got, c.want, c.why)
		}
		f.exec("UPDATE webhook_subscriptions SET active = false, disabled_reason = 'requested' WHERE id = $1", s.ID)
	}
}

// 410 is the receiver's own way to end a subscription. What waits for it ends, and nothing is sent any more.
func TestGoneDisablesTheWebhook(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	s, _ := f.subscribe("erp", r.URL)
	d := f.deliveries(webhooks.Config{Guard: inside})
	first, waiting := f.one(d), f.one(d)
	if got := d.Send(t.Context(), first); got.Verdict != effects.Refused || got.Status != http.StatusGone {
		t.Errorf("%+v", got)
	}
	if now := f.read(s.ID); now.Active || *now.DisabledReason != webhooks.Gone {
		t.Errorf("%+v", now)
	}
	if got := d.Send(t.Context(), waiting); got.Verdict != effects.Refused || got.Detail != "subscription inactive" {
		t.Errorf("what was waiting: %+v", got)
	}
	if calls := f.plan(d, f.event("orderonce.order.created.v1")); len(calls) != 0 {
		t.Errorf("asked for later: %v", calls)
	}
	if n := len(r.deliveries()); n != 1 {
		t.Errorf("it got %d deliveries", n)
	}
}

// A receiver that is never reached again would be tried for ever, with every event; one that recovers has a clean sheet.
func TestReceiverNotReachedForDaysIsGivenUp(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var broken atomic.Bool
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	s, _ := f.subscribe("erp", r.URL)
	d := f.deliveries(webhooks.Config{Guard: inside})
	e := f.one(d)
	send := func(want effects.Verdict) webhooks.Subscription {
		t.Helper()
		if got := d.Send(t.Context(), e); got.Verdict != want {
			t.Fatalf("%+v, want %s", got, want)
		}
		return f.read(s.ID)
	}
	const age = "UPDATE webhook_subscriptions SET failing_since = failing_since - $1::interval"
	broken.Store(true)
	if now := send(effects.Ambiguous); now.FailingSince == nil {
		t.Fatal("the first failure is not kept")
	}
	f.exec(age, (webhooks.GiveUp - time.Hour).String())
	old := f.read(s.ID).FailingSince
	if now := send(effects.Ambiguous); !now.Active || !now.FailingSince.Equal(*old) {
		t.Fatalf("an hour before: %+v, want failing since %s", now, old)
	}
	broken.Store(false)
	if now := send(effects.Done); now.FailingSince != nil {
		t.Fatal("a success is not kept")
	}
	broken.Store(true)
	send(effects.Ambiguous)
	f.exec(age, webhooks.GiveUp.String())
	if now := send(effects.Ambiguous); now.Active || *now.DisabledReason != webhooks.Failing {
		t.Errorf("%+v", now)
	}
	f.change(func(ctx context.Context, tx *postgres.Tx) error {
		now, _, err := webhooks.Enable(ctx, tx, f.tenant, s.ID)
		if now.FailingSince != nil {
			t.Error("enabled, it is given up at its first failure")
		}
		return err
	})
}

// Case 27: while a receiver is slow, nobody holds a transaction.
func TestNoTransactionIsOpenDuringADelivery(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var open int
	r := receive(t, func(_ http.ResponseWriter, request *http.Request) {
		err := f.watch.QueryRow(request.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL`).Scan(&open)
		if err != nil {
			t.Error(err)
		}
	})
	f.subscribe("erp", r.URL)
	d := f.deliveries(webhooks.Config{Guard: inside})
	if got := d.Send(t.Context(), f.one(d)); got.Verdict != effects.Done || open != 0 {
		t.Errorf("%+v, with %d transactions", got, open)
	}
}

// What cannot be looked up is not sent to anybody.
func TestLaneThatIsNoSubscription(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.subscribe("erp", "https://a.example/")
	d := f.deliveries(webhooks.Config{Guard: inside})
	e := f.one(d)
	for lane, want := range map[string]effects.Verdict{"": effects.Impossible, uuid.Nil.String(): effects.NotExecuted} {
		e.Lane = lane
		if got := d.Send(t.Context(), e); got.Verdict != want {
			t.Errorf("%q: %+v", lane, got)
		}
	}
}
