// Package natsjs publishes events to a stream of NATS JetStream: CloudEvents in the structured mode, which is the one
// that the binding to NATS knows. A message is in the stream once for each sending that the server does not know any
// more; consumers know an event by its id. The stream is the operators': this package makes none, and would rather
// publish nothing than into another one.
package natsjs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderonce/internal/effects"
	"orderonce/internal/effects/cloudevents"
)

// Name is the destination's.
const Name = "nats"

// DefaultTimeout bounds one publication where nothing else is set.
const DefaultTimeout = 5 * time.Second

// Config is what an operator decides.
type Config struct {
	URL         string // of one server or several, separated by commas
	Credentials string // a file with a user's JWT and seed; empty for none, or for those in the URL
	Stream      string // that has to take the subjects
	// Prefix begins the subjects, <prefix>.<tenant>.<kind of event>, such as
	// orderonce.0193b1f0-0000-7000-8000-000000000001.order.created.v1.
	Prefix      string
	Source      string // of the CloudEvents
	Timeout     time.Duration
	Concurrency int
}

// Publisher is a connection. It is made anew for as long as it takes, in the background.
type Publisher struct {
	config Config
	conn   *nats.Conn
	stream jetstream.JetStream
}

// New connects, or goes on trying: a worker begins its work for other destinations without NATS.
func New(config Config, log *slog.Logger) (*Publisher, error) {
	options := []nats.Option{
		nats.Name("orderonce"),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		// What is written while there is no connection must fail, and not leave by itself when there is one again.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS is away", slog.String("error", err.Error()))
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("NATS is back") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("NATS complains", slog.String("error", err.Error()))
		}),
	}
	if config.Credentials != "" {
		options = append(options, nats.UserCredentials(config.Credentials))
	}
	conn, err := nats.Connect(config.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	stream, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	return &Publisher{config: config, conn: conn, stream: stream}, nil
}

// Close ends the connection.
func (p *Publisher) Close() { p.conn.Close() }

// Destination is the publications as effects make them.
func (p *Publisher) Destination() effects.Destination {
	return cloudevents.Destination(Name, p.config.Source, p.config.Concurrency, p.config.Timeout, p.send)
}

// subject leads the event's type by the tenant, which a consumer may be allowed alone.
func (p *Publisher) subject(a cloudevents.Attributes) string {
	return p.config.Prefix + "." + a.Tenant.String() + "." + strings.TrimPrefix(a.Type, "orderonce.")
}

// send publishes once and waits for the stream's word. Within the stream's duplicate window the server knows the event's
// id and keeps one message of it.
func (p *Publisher) send(ctx context.Context, e effects.Effect) effects.Result {
	envelope, err := cloudevents.Unwrap(e.Request)
	if err != nil {
		return effects.Result{Verdict: effects.Impossible, Detail: "the request is no envelope"}
	}
	if !p.conn.IsConnected() {
		return effects.Result{Verdict: effects.NotExecuted, Detail: "no connection"}
	}
	message := nats.NewMsg(p.subject(envelope.Attributes))
	message.Header.Set("Content-Type", cloudevents.ContentType)
	message.Data = e.Request
	ctx, cancel := context.WithTimeout(ctx, p.config.Timeout)
	defer cancel()
	ack, err := p.stream.PublishMsg(ctx, message,
		jetstream.WithMsgID(envelope.ID.String()), jetstream.WithExpectStream(p.config.Stream), jetstream.WithRetryAttempts(0))
	if err != nil {
		return judge(err)
	}
	detail := fmt.Sprintf("%s %d", ack.Stream, ack.Sequence)
	if ack.Duplicate {
		detail += ", known already"
	}
	return effects.Result{Verdict: effects.Done, Detail: detail}
}

func judge(err error) effects.Result {
	var refused *jetstream.APIError
	switch {
	case errors.As(err, &refused):
		return effects.Result{Verdict: effects.NotExecuted, Status: refused.Code, Detail: refused.Description}
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return effects.Result{Verdict: effects.NotExecuted, Detail: "no stream takes the subject"}
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return effects.Result{Verdict: effects.NotExecuted, Detail: "no connection"}
	case errors.Is(err, nats.ErrMaxPayload):
		return effects.Result{Verdict: effects.Impossible, Detail: "the event is larger than the server allows"}
	case errors.Is(err, context.DeadlineExceeded):
		return effects.Result{Verdict: effects.Ambiguous, Detail: "time-out"}
	}
	return effects.Result{Verdict: effects.Ambiguous, Detail: "no acknowledgement"}
}
