package cloudevents_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"orderonce/internal/effects/cloudevents"
	"orderonce/internal/outbox"
)

func recorded() outbox.Recorded {
	traceparent := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	return outbox.Recorded{
		Tenant:        uuid.MustParse("0193b1f0-0000-7000-8000-00000000000a"),
		ID:            uuid.MustParse("0193b1f0-0000-7000-8000-00000000000b"),
		AggregateType: "order", AggregateID: uuid.MustParse("0193b1f0-0000-7000-8000-00000000000c"), Version: 12,
		Type: "orderonce.order.cancelled.v1", Payload: []byte("{ \"note\": \"<b> & \\u00e9 ü\",\n \"total_minor\": 9007199254740993 }"),
		Traceparent: &traceparent,
		OccurredAt:  time.Date(2026, 3, 29, 7, 15, 0, 123456000, time.FixedZone("Kathmandu", 5*3600+45*60)),
	}
}

// The judge is the CloudEvents project's own library.
func TestEnvelopeIsACloudEvent(t *testing.T) {
	t.Parallel()
	text, err := cloudevents.Wrap("/shops/acme", recorded())
	if err != nil {
		t.Fatal(err)
	}
	var e event.Event
	if err := e.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
	got := map[string]any{
		"specversion": e.SpecVersion(), "id": e.ID(), "source": e.Source(), "type": e.Type(), "subject": e.Subject(),
		"time": e.Time().Format(time.RFC3339Nano), "datacontenttype": e.DataContentType(),
	}
	for name, value := range e.Extensions() {
		got[name] = value
	}
	want := map[string]any{
		"specversion": "1.0", "id": "0193b1f0-0000-7000-8000-00000000000b", "source": "/shops/acme",
		"type": "orderonce.order.cancelled.v1", "subject": "0193b1f0-0000-7000-8000-00000000000c",
		"time": "2026-03-29T01:30:00.123456Z", "datacontenttype": "application/json",
		"tenant": "0193b1f0-0000-7000-8000-00000000000a", "sequence": "0000000000000000012",
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got)\n%s", diff)
	}
}

// What leaves is what was committed: no blank is lost, no escape changed, no digit rounded.
func TestDataAreTheCommittedBytes(t *testing.T) {
	t.Parallel()
	text, err := cloudevents.Wrap(cloudevents.DefaultSource, recorded())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(text), `,"data":`+string(recorded().Payload)+"}") {
		t.Errorf("the envelope is %s", text)
	}
	envelope, err := cloudevents.Unwrap(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(recorded().Payload), string(envelope.Data)); diff != "" {
		t.Errorf("data, unwrapped (-want +got)\n%s", diff)
	}
}

// A consumer compares sequences as text.
func TestSequencesSortAsTheVersionsDo(t *testing.T) {
	t.Parallel()
	last := ""
	for _, version := range []int64{1, 2, 9, 10, 11, 99, 100, 1 << 40, 1<<63 - 1} {
		r := recorded()
		r.Version = version
		text, err := cloudevents.Wrap(cloudevents.DefaultSource, r)
		if err != nil {
			t.Fatal(err)
		}
		envelope, err := cloudevents.Unwrap(text)
		if err != nil {
			t.Fatal(err)
		}
		if envelope.Sequence <= last {
			t.Errorf("%s comes after %s", envelope.Sequence, last)
		}
		last = envelope.Sequence
	}
}

// An event of a request without a trace has no traceparent, rather than an empty one, which no tracer can read.
func TestNoTraceparentIsNone(t *testing.T) {
	t.Parallel()
	r := recorded()
	r.Traceparent = nil
	text, err := cloudevents.Wrap(cloudevents.DefaultSource, r)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "traceparent") {
		t.Errorf("the envelope is %s", text)
	}
}
