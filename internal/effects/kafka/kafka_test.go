package kafka_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"go.uber.org/goleak"

	"orderonce/internal/effects"
	"orderonce/internal/effects/cloudevents"
	"orderonce/internal/effects/kafka"
	"orderonce/internal/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	topic    = "orders"
	patience = 30 * time.Second
)

// cluster is a Kafka of three brokers in this process.
func cluster(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append(options, kfake.NumBrokers(3), kfake.SeedTopics(4, topic))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func destination(t *testing.T, timeout time.Duration, brokers ...string) effects.Destination {
	t.Helper()
	return identified(t, nil, t.Output(), timeout, brokers...)
}

// identified publishes as somebody, and logs.
func identified(t *testing.T, as sasl.Mechanism, log io.Writer, timeout time.Duration, brokers ...string) effects.Destination {
	t.Helper()
	p, err := kafka.New(kafka.Config{
		Brokers: brokers, Topic: topic, SASL: as, Source: cloudevents.DefaultSource, Timeout: timeout, Concurrency: 4,
	}, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p.Destination()
}

func newID(t *testing.T) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func event(t *testing.T, order uuid.UUID, version int64) outbox.Recorded {
	t.Helper()
	return outbox.Recorded{
		Tenant: uuid.MustParse("0193b1f0-0000-7000-8000-00000000000a"), ID: newID(t), AggregateType: "order", AggregateID: order,
		Version: version, Type: "orderonce.order.created.v1", Payload: []byte(`{ "total_minor": 9007199254740993 }`), OccurredAt: time.Now(),
	}
}

// planned are the effects of events, as a worker has them.
func planned(t *testing.T, d effects.Destination, events ...outbox.Recorded) (all []effects.Effect) {
	t.Helper()
	calls, err := d.Plan(t.Context(), nil, events)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		all = append(all, effects.Effect{
			Tenant: c.Tenant, Identity: effects.Identity{Order: c.Order, Destination: kafka.Name, Lane: c.Lane, Operation: c.Operation},
			Event: c.Event, Version: c.Version, Request: c.Request, State: effects.InFlight, Attempts: 1,
		})
	}
	return all
}

// consume reads the first n records of the topic.
func consume(t *testing.T, n int, brokers ...string) (records []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(records), n, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// The judge is the CloudEvents project's own library. Its binding to Kafka is of another client's records; but for the
// prefix, binary mode is that of HTTP.
func TestRecordIsACloudEvent(t *testing.T) {
	t.Parallel()
	brokers := cluster(t).ListenAddrs()
	d := destination(t, patience, brokers...)
	traceparent := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	of := event(t, newID(t), 1)
	of.Traceparent = &traceparent
	foreign := event(t, newID(t), 1)
	foreign.AggregateType = "thing"
	all := planned(t, d, of, foreign)
	if len(all) != 1 {
		t.Fatalf("%d effects of one order's event", len(all))
	}
	if got := d.Send(t.Context(), all[0]); got.Verdict != effects.Done || !strings.HasPrefix(got.Detail, topic+"/") {
		t.Fatalf("%+v", got)
	}
	record := consume(t, 1, brokers...)[0]
	if string(record.Key) != of.AggregateID.String() || string(record.Value) != string(of.Payload) {
		t.Errorf("%s: %s", record.Key, record.Value)
	}
	header := http.Header{}
	for _, h := range record.Headers {
		header.Set(strings.Replace(h.Key, "ce_", "ce-", 1), string(h.Value))
	}
	got, err := binding.ToEvent(t.Context(), cehttp.NewMessage(header, nopCloser{strings.NewReader(string(record.Value))}))
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	want := []string{
		of.ID.String(), of.Type, of.AggregateID.String(), cloudevents.DefaultSource, "application/json", of.Tenant.String(),
		"0000000000000000001", traceparent, of.OccurredAt.UTC().Format(time.RFC3339Nano),
	}
	is := []string{
		got.ID(), got.Type(), got.Subject(), got.Source(), got.DataContentType(), fmt.Sprint(got.Extensions()["tenant"]),
		fmt.Sprint(got.Extensions()["sequence"]), fmt.Sprint(got.Extensions()["traceparent"]), got.Time().UTC().Format(time.RFC3339Nano),
	}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

type nopCloser struct{ *strings.Reader }

func (nopCloser) Close() error { return nil }

// One order stays in one partition, where its versions are in their order; a record that is sent again is there twice,
// and has the first one's id.
func TestOneOrderStaysInOnePartition(t *testing.T) {
	t.Parallel()
	brokers := cluster(t).ListenAddrs()
	order := newID(t)
	var sent []uuid.UUID
	for version := range int64(6) {
		d := destination(t, patience, brokers...) // of another process, each time
		all := planned(t, d, event(t, order, version+1))
		for range 1 + version%2 {
			if got := d.Send(t.Context(), all[0]); got.Verdict != effects.Done {
				t.Fatalf("%+v", got)
			}
			sent = append(sent, all[0].Event)
		}
	}
	var got []uuid.UUID
	partition := int32(-1)
	for i, record := range consume(t, len(sent), brokers...) {
		if i > 0 && record.Partition != partition {
			t.Errorf("record %d is in partition %d, not %d", i, record.Partition, partition)
		}
		partition = record.Partition
		for _, h := range record.Headers {
			if h.Key == "ce_id" {
				got = append(got, uuid.MustParse(string(h.Value)))
			}
		}
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("(-sent +got)\n%s", diff)
	}
}

func TestAnswersAreJudged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code *kerr.Error
		want effects.Verdict
	}{
		"too large":         {kerr.MessageTooLarge, effects.Impossible},
		"not allowed":       {kerr.TopicAuthorizationFailed, effects.Impossible},
		"refused by policy": {kerr.PolicyViolation, effects.Impossible},
		"unknown to us":     {kerr.UnknownServerError, effects.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := cluster(t)
			k.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
				k.KeepControl()
				return refusal(request.(*kmsg.ProduceRequest), c.code.Code), nil, true
			})
			d := destination(t, 2*time.Second, k.ListenAddrs()...)
			if got := d.Send(t.Context(), planned(t, d, event(t, newID(t), 1))[0]); got.Verdict != c.want || got.Detail == "" {
				t.Errorf("%+v, want %s", got, c.want)
			}
		})
	}
}

// refusal answers a request to produce with an error for each partition.
func refusal(request *kmsg.ProduceRequest, code int16) *kmsg.ProduceResponse {
	response := request.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range request.Topics {
		answer := kmsg.NewProduceResponseTopic()
		answer.Topic, answer.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.ErrorCode = partition.Partition, code
			answer.Partitions = append(answer.Partitions, p)
		}
		response.Topics = append(response.Topics, answer)
	}
	return response
}

// What never left is not in doubt; what may have arrived is, and the time-out holds although the producer itself goes on.
func TestNoAnswerIsJudgedByWhetherAByteLeft(t *testing.T) {
	t.Parallel()
	closed, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	d := destination(t, 2*time.Second, closed.Addr().String())
	if got := d.Send(t.Context(), planned(t, d, event(t, newID(t), 1))[0]); got.Verdict != effects.NotExecuted {
		t.Errorf("no broker: %+v", got)
	}

	k := cluster(t)
	k.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		return nil, fmt.Errorf("cut"), true
	})
	d = destination(t, 2*time.Second, k.ListenAddrs()...)
	if got := d.Send(t.Context(), planned(t, d, event(t, newID(t), 1))[0]); got.Verdict != effects.Ambiguous {
		t.Errorf("cut after the request: %+v", got)
	}
}

// said is what was logged so far.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Brokers that want to know who publishes are told.
func TestBrokersAreToldWhoPublishes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		brokers := cluster(t, kfake.EnableSASL(), kfake.Superuser(strings.ToUpper(name), "orderonce", "s3cret")).ListenAddrs()
		d := identified(t, mechanism(t, name), t.Output(), patience, brokers...)
		if got := d.Send(t.Context(), planned(t, d, event(t, newID(t), 1))[0]); got.Verdict != effects.Done {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if as, err := kafka.Mechanism("gssapi", "orderonce", "s3cret"); err == nil {
		t.Errorf("%s is taken", as.Name())
	}
}

func mechanism(t *testing.T, name string) sasl.Mechanism {
	t.Helper()
	as, err := kafka.Mechanism(name, "orderonce", "s3cret")
	if err != nil {
		t.Fatal(err)
	}
	return as
}

// A password that the brokers refuse has published nothing: the events wait until an operator, who is told in the log,
// has mended it.
func TestRefusedPasswordHasPublishedNothing(t *testing.T) {
	t.Parallel()
	k := cluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "orderonce", "another"))
	k.ControlKey(int16(kmsg.SASLAuthenticate), func(request kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		response := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		response.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return response, nil, true
	})
	log := &said{}
	d := identified(t, mechanism(t, "plain"), log, 2*time.Second, k.ListenAddrs()...)
	if got := d.Send(t.Context(), planned(t, d, event(t, newID(t), 1))[0]); got.Verdict != effects.NotExecuted {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(log.String(), "SASL_AUTHENTICATION_FAILED") || strings.Contains(log.String(), "s3cret") {
		t.Errorf("logged %s", log)
	}
}

func TestRequestThatIsNoEnvelope(t *testing.T) {
	t.Parallel()
	d := destination(t, time.Second, "127.0.0.1:1")
	if got := d.Send(t.Context(), effects.Effect{Request: []byte("{")}); got.Verdict != effects.Impossible {
		t.Errorf("%+v", got)
	}
}
