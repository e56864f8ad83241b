package natsjs_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"orderonce/internal/effects"
	"orderonce/internal/effects/cloudevents"
	"orderonce/internal/effects/natsjs"
	"orderonce/internal/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	stream   = "ORDERS"
	patience = 30 * time.Second
)

// serve is a NATS server of this test, on a port of its own or on the given one.
func serve(t *testing.T, port int, store string) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: store, NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("NATS does not start")
	}
	return s
}

// open makes the stream, as an operator does.
func open(t *testing.T, s *server.Server, config jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	made, err := js.CreateOrUpdateStream(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

var orders = jetstream.StreamConfig{Name: stream, Subjects: []string{"orderonce.>"}, Duplicates: time.Minute}

func destination(t *testing.T, url string, timeout time.Duration) (effects.Destination, *natsjs.Publisher) {
	t.Helper()
	p, err := natsjs.New(natsjs.Config{
		URL: url, Stream: stream, Prefix: "orderonce", Source: cloudevents.DefaultSource, Timeout: timeout, Concurrency: 4,
	}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p.Destination(), p
}

func newID(t *testing.T) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// effect is what a new order's event asks for, as a worker has it.
func effect(t *testing.T, d effects.Destination) effects.Effect {
	t.Helper()
	event := outbox.Recorded{
		Tenant: uuid.MustParse("0193b1f0-0000-7000-8000-00000000000a"), ID: newID(t), AggregateType: "order", AggregateID: newID(t),
		Version: 1, Type: "orderonce.order.created.v1", Payload: []byte(`{"total_minor": 100}`), OccurredAt: time.Now(),
	}
	calls, err := d.Plan(t.Context(), nil, []outbox.Recorded{event})
	if err != nil || len(calls) != 1 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	return effects.Effect{
		Tenant: event.Tenant, Identity: effects.Identity{Order: calls[0].Order, Destination: natsjs.Name, Operation: calls[0].Operation},
		Event: event.ID, Request: calls[0].Request, State: effects.InFlight, Attempts: 1,
	}
}

// The judge is the CloudEvents project's own library.
func TestMessageIsACloudEvent(t *testing.T) {
	t.Parallel()
	s := serve(t, -1, t.TempDir())
	made := open(t, s, orders)
	d, _ := destination(t, s.ClientURL(), patience)
	e := effect(t, d)
	if got := d.Send(t.Context(), e); got.Verdict != effects.Done || got.Detail != "ORDERS 1" {
		t.Fatalf("%+v", got)
	}
	message, err := made.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if want := "orderonce.0193b1f0-0000-7000-8000-00000000000a.order.created.v1"; message.Subject != want {
		t.Errorf("the subject is %s", message.Subject)
	}
	if id := message.Header.Get(nats.MsgIdHdr); id != e.Event.String() {
		t.Errorf("the message's id is %s", id)
	}
	if kind := message.Header.Get("Content-Type"); !strings.HasPrefix(kind, ce.ApplicationCloudEventsJSON) {
		t.Errorf("the content type is %s", kind)
	}
	var got ce.Event
	if err := got.UnmarshalJSON(message.Data); err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(); err != nil || got.ID() != e.Event.String() || got.Subject() != e.Order.String() {
		t.Errorf("%s, %v", got, err)
	}
}

// Within its window the server knows a message that is sent again, by whichever process.
func TestSentAgainIsKnownWithinTheWindow(t *testing.T) {
	t.Parallel()
	s := serve(t, -1, t.TempDir())
	made := open(t, s, orders)
	first, _ := destination(t, s.ClientURL(), patience)
	second, _ := destination(t, s.ClientURL(), patience)
	e := effect(t, first)
	for i, d := range []effects.Destination{first, second, first} {
		got := d.Send(t.Context(), e)
		if got.Verdict != effects.Done || strings.HasSuffix(got.Detail, "known already") != (i > 0) {
			t.Errorf("sending %d: %+v", i, got)
		}
	}
	info, err := made.Info(t.Context())
	if err != nil || info.State.Msgs != 1 {
		t.Errorf("%d messages, %v", info.State.Msgs, err)
	}
}

func TestAnswersAreJudged(t *testing.T) {
	t.Parallel()
	s := serve(t, -1, t.TempDir())
	d, _ := destination(t, s.ClientURL(), time.Second)
	e := effect(t, d)
	wants := func(name string, want effects.Verdict, detail string) {
		t.Helper()
		if got := d.Send(t.Context(), e); got.Verdict != want || !strings.Contains(got.Detail, detail) {
			t.Errorf("%s: %+v, want %s, %s", name, got, want, detail)
		}
	}
	wants("no stream", effects.NotExecuted, "no stream takes the subject")

	other := orders
	other.Name = "OTHER"
	open(t, s, other)
	wants("the stream of somebody else", effects.NotExecuted, "expected stream does not match")

	// Somebody who takes the message and says nothing, as a server does that dies before its acknowledgement.
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), other.Name); err != nil {
		t.Fatal(err)
	}
	silent, err := conn.SubscribeSync("orderonce.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	wants("silence", effects.Ambiguous, "time-out")
	if _, err := silent.NextMsg(patience); err != nil {
		t.Error(err)
	}
	e.Request = []byte("{")
	wants("no envelope", effects.Impossible, "no envelope")
	e.Request = []byte(`{"id":"0193b1f0-0000-7000-8000-00000000000a","subject":"0193b1f0-0000-7000-8000-00000000000a",
		"tenant":"0193b1f0-0000-7000-8000-00000000000a","type":"t","time":"2026-01-01T00:00:00Z","data":"` + strings.Repeat("x", 2<<20) + `"}`)
	wants("too large", effects.Impossible, "larger")
}

// A stream that is full says so, and has not taken the message.
func TestFullStreamHasNotTakenIt(t *testing.T) {
	t.Parallel()
	s := serve(t, -1, t.TempDir())
	full := orders
	full.Discard, full.MaxMsgs = jetstream.DiscardNew, 1
	open(t, s, full)
	d, _ := destination(t, s.ClientURL(), patience)
	if got := d.Send(t.Context(), effect(t, d)); got.Verdict != effects.Done {
		t.Fatalf("%+v", got)
	}
	if got := d.Send(t.Context(), effect(t, d)); got.Verdict != effects.NotExecuted || got.Status == 0 {
		t.Errorf("%+v", got)
	}
}

// While NATS is away nothing is kept to leave by itself later: what was told not to have been sent never is.
func TestNothingLeavesLaterThatFailed(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	d, p := destination(t, "nats://"+free.Addr().String(), time.Second) // begins without a server
	e := effect(t, d)
	if got := d.Send(t.Context(), e); got.Verdict != effects.NotExecuted {
		t.Errorf("before there is a server: %+v", got)
	}
	s := serve(t, port, store)
	made := open(t, s, orders)
	connected(t, p)
	info, err := made.Info(t.Context())
	if err != nil || info.State.Msgs != 0 {
		t.Errorf("%d messages, %v", info.State.Msgs, err)
	}
	if got := d.Send(t.Context(), e); got.Verdict != effects.Done {
		t.Errorf("with a server: %+v", got)
	}
	s.Shutdown()
	s.WaitForShutdown()
	if got := d.Send(t.Context(), effect(t, d)); got.Verdict == effects.Done {
		t.Errorf("after it: %+v", got)
	}
}

func connected(t *testing.T, p *natsjs.Publisher) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Connected(ctx); err != nil {
		t.Fatal(err)
	}
}
