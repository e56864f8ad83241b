// Package kafka publishes events to a topic of Kafka: CloudEvents in the binary mode, keyed by the order, so that all of
// one order are in one partition, in their order. A record is in the topic at least once: the producer's own idempotence
// ends with its process, so consumers know an event by its id.
package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/twmb/franz-go/plugin/kslog"

	"orderonce/internal/effects"
	"orderonce/internal/effects/cloudevents"
)

// Name is the destination's.
const Name = "kafka"

// DefaultTimeout bounds one publication where nothing else is set.
const DefaultTimeout = 10 * time.Second

// maxRecord is how large an event may be: as large as a broker takes where nothing else is set.
const maxRecord = 1 << 20

// Config is what an operator decides.
type Config struct {
	Brokers     []string       // host:port
	Topic       string         // which has to be there
	TLS         *tls.Config    // nil for a plain connection
	SASL        sasl.Mechanism // nil for none
	Source      string         // of the CloudEvents
	Timeout     time.Duration
	Concurrency int
}

// Mechanism is how brokers are told who publishes: by plain, which shows the password to whoever reads the connection, or
// by scram-sha-256 or scram-sha-512.
func Mechanism(name, user, password string) (sasl.Mechanism, error) {
	switch name {
	case "plain":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	}
	return nil, errors.New("must be plain, scram-sha-256 or scram-sha-512")
}

// Publisher is a producer. It connects when there is something to publish.
type Publisher struct {
	config Config
	client *kgo.Client
	writes *writes
}

// New connects to nothing yet: a worker begins its work for other destinations without Kafka.
func New(config Config, log *slog.Logger) (*Publisher, error) {
	w := &writes{}
	options := []kgo.Opt{
		kgo.ClientID("orderonce"),
		kgo.WithLogger(warnings{kslog.New(log)}),
		kgo.SeedBrokers(config.Brokers...),
		kgo.DefaultProduceTopic(config.Topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchMaxBytes(maxRecord),
		// Sooner than the effect's own time-out, so that it is known why.
		kgo.RecordDeliveryTimeout(max(config.Timeout*3/4, time.Second)),
		// What a broker never answered stays here until it does: for a few effects, not for a day of them.
		kgo.MaxBufferedRecords(4 * config.Concurrency),
		kgo.WithHooks(w),
	}
	if config.TLS != nil {
		options = append(options, kgo.DialTLSConfig(config.TLS))
	}
	if config.SASL != nil {
		options = append(options, kgo.SASL(config.SASL))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("make a Kafka producer: %w", err)
	}
	return &Publisher{config: config, client: client, writes: w}, nil
}

// Close ends the connections. What is under way is not waited for: it is in doubt, and looked into later.
func (p *Publisher) Close() { p.client.Close() }

// Destination is the publications as effects make them.
func (p *Publisher) Destination() effects.Destination {
	return cloudevents.Destination(Name, p.config.Source, p.config.Concurrency, p.config.Timeout, p.send)
}

// send produces one record and waits until all replicas in sync have it.
func (p *Publisher) send(ctx context.Context, e effects.Effect) effects.Result {
	envelope, err := cloudevents.Unwrap(e.Request)
	if err != nil {
		return effects.Result{Verdict: effects.Impossible, Detail: "the request is no envelope"}
	}
	ctx, cancel := context.WithTimeout(ctx, p.config.Timeout)
	defer cancel()
	type outcome struct {
		record *kgo.Record
		err    error
	}
	answered := make(chan outcome, 1)
	before := p.writes.Load()
	record := &kgo.Record{
		Key: []byte(envelope.Subject.String()), Value: envelope.Data, Headers: headers(envelope.Attributes),
	}
	p.client.TryProduce(ctx, record, func(r *kgo.Record, err error) { answered <- outcome{r, err} })
	select {
	case o := <-answered:
		if o.err != nil {
			return judge(o.err, p.writes.Load() != before)
		}
		return effects.Result{Verdict: effects.Done, Detail: fmt.Sprintf("%s/%d %d", o.record.Topic, o.record.Partition, o.record.Offset)}
	case <-ctx.Done(): // a record that a broker was sent is not given up by the producer
		return effects.Result{Verdict: effects.Ambiguous, Detail: "time-out"}
	}
}

// headers are the attributes in the binary mode of the binding to Kafka.
func headers(a cloudevents.Attributes) []kgo.RecordHeader {
	all := []kgo.RecordHeader{
		{Key: "content-type", Value: []byte(a.DataContentType)},
		{Key: "ce_specversion", Value: []byte(a.SpecVersion)},
		{Key: "ce_id", Value: []byte(a.ID.String())},
		{Key: "ce_source", Value: []byte(a.Source)},
		{Key: "ce_type", Value: []byte(a.Type)},
		{Key: "ce_subject", Value: []byte(a.Subject.String())},
		{Key: "ce_time", Value: []byte(a.Time.Format(time.RFC3339Nano))},
		{Key: "ce_tenant", Value: []byte(a.Tenant.String())},
		{Key: "ce_sequence", Value: []byte(a.Sequence)},
	}
	if a.Traceparent != nil {
		all = append(all, kgo.RecordHeader{Key: "ce_traceparent", Value: []byte(*a.Traceparent)})
	}
	return all
}

// hopeless is what a broker refuses until a person changes something.
var hopeless = []error{
	kerr.MessageTooLarge, kerr.InvalidTopicException, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.PolicyViolation,
	kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.UnsupportedVersion,
}

// judge says what a producer's error means. It gives a record up only while no request with it is unanswered; written
// says whether any request to produce was written meanwhile.
func judge(err error, written bool) effects.Result {
	for _, h := range hopeless {
		if errors.Is(err, h) {
			return effects.Result{Verdict: effects.Impossible, Detail: brief(err)}
		}
	}
	if !written || errors.Is(err, kgo.ErrMaxBuffered) {
		return effects.Result{Verdict: effects.NotExecuted, Detail: brief(err)}
	}
	return effects.Result{Verdict: effects.Ambiguous, Detail: brief(err)}
}

// brief is an error as people need it: Kafka's own name of it, or the producer's, and no address.
func brief(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	for _, own := range []error{kgo.ErrRecordTimeout, kgo.ErrRecordRetries, kgo.ErrMaxBuffered, kgo.ErrClientClosed, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, own) {
			return strings.ToLower(own.Error())
		}
	}
	return "no broker was reached"
}

// warnings are what an operator can do something about, such as a password that brokers refuse: an effect learns only
// that its time ran out.
type warnings struct{ *kslog.Logger }

// Level implements [kgo.Logger].
func (warnings) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// writes counts the requests to produce that were written to a broker, whole or in part.
type writes struct{ atomic.Int64 }

const produceRequest = 0 // the key of its API

// OnBrokerWrite is kgo's hook.
func (w *writes) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, bytes int, _, _ time.Duration, _ error) {
	if key == produceRequest && bytes > 0 {
		w.Add(1)
	}
}

var _ kgo.HookBrokerWrite = (*writes)(nil)
