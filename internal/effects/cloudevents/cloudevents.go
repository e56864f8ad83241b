// Package cloudevents owns the envelope in which events leave: CloudEvents 1.0, as JSON. An envelope is written once, when
// its effect is made, and its data are the bytes that were committed with the change; whoever wrote the event a second
// time, from the order as it is later, would tell another story under the same id.
package cloudevents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/outbox"
)

// ContentType is that of an envelope: the structured mode of the bindings to HTTP and NATS.
const ContentType = "application/cloudevents+json; charset=utf-8"

// DefaultSource names this service where nothing else is set. Source and id together are unique.
const DefaultSource = "/orderonce"

// Attributes is all of an envelope but its data. Those after DataContentType are extensions.
type Attributes struct {
	SpecVersion     string    `json:"specversion"`
	ID              uuid.UUID `json:"id"` // the event's, the same in every delivery: what a consumer knows a duplicate by
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         uuid.UUID `json:"subject"` // the order
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Tenant          uuid.UUID `json:"tenant"`
	// Sequence is the order's version: without gaps, from 1, and as long a text for each, since it is compared as text.
	Sequence    string  `json:"sequence"`
	Traceparent *string `json:"traceparent,omitempty"`
}

// Envelope is an event as it leaves.
type Envelope struct {
	Attributes
	Data json.RawMessage `json:"data"`
}

// Wrap writes an event's envelope.
func Wrap(source string, event outbox.Recorded) ([]byte, error) {
	text, err := json.Marshal(Attributes{
		SpecVersion: "1.0", ID: event.ID, Source: source, Type: event.Type, Subject: event.AggregateID,
		Time: event.OccurredAt.UTC(), DataContentType: "application/json", Tenant: event.Tenant,
		Sequence: fmt.Sprintf("%019d", event.Version), Traceparent: event.Traceparent,
	})
	if err != nil {
		return nil, fmt.Errorf("wrap event %s: %w", event.ID, err)
	}
	// encoding/json would write the data anew: without their blanks, and with other escapes.
	return bytes.Join([][]byte{bytes.TrimSuffix(text, []byte("}")), []byte(`,"data":`), event.Payload, []byte("}")}, nil), nil
}

// Unwrap reads an envelope that Wrap wrote.
func Unwrap(text []byte) (Envelope, error) {
	var e Envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return Envelope{}, fmt.Errorf("read an envelope: %w", err)
	}
	return e, nil
}
