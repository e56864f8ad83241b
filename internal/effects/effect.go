// Package effects owns the calls to things outside this database: what an event asks of each destination, who may send
// it now, and what became of it. A call whose outcome nobody heard is unknown, and stays so until the destination or a
// person says more; it is never sent under a second identity, and never silently dropped. It does not know what an
// effect means for the order; whoever does is told of its end in the same transaction.
package effects

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Effect is one call to a destination, with one identity for ever.
type Effect struct {
	Tenant      uuid.UUID  `json:"tenant_id"`
	ID          uuid.UUID  `json:"id"`
	Identity               // its members beside the others
	Reverts     *string    `json:"reverts,omitempty"` // an operation; where that was not executed, there is nothing to do
	Event       uuid.UUID  `json:"event_id"`          // or another thing that asked for it, once
	Version     int64      `json:"version"`           // of the order, when it was asked for
	Key         uuid.UUID  `json:"idempotency_key"`   // what the destination knows it by
	Request     []byte     `json:"-"`                 // resent unchanged
	Required    bool       `json:"required"`          // the order waits for it
	State       State      `json:"state"`
	Attempts    int32      `json:"attempts"`      // times that a worker took it, whatever came of that
	Token       int64      `json:"attempt_token"` // grows with each taking, and is checked by each write
	DueAt       *time.Time `json:"due_at,omitempty"`
	Owner       *string    `json:"owner,omitempty"`
	FirstSentAt *time.Time `json:"first_sent_at,omitempty"`
	// KeyValidUntil is how long the destination remembers Key; later it is never sent again.
	KeyValidUntil *time.Time      `json:"key_valid_until,omitempty"`
	LastError     *string         `json:"last_error,omitempty"`
	Evidence      json.RawMessage `json:"evidence"`              // an array, oldest first
	Traceparent   *string         `json:"traceparent,omitempty"` // of the request that began it
	CreatedAt     time.Time       `json:"created_at"`
	EndedAt       *time.Time      `json:"ended_at,omitempty"`
}

// Identity is what makes two effects of a tenant the same one.
type Identity struct {
	Order       uuid.UUID `json:"order_id"`
	Destination string    `json:"destination"`    // such as "payment"
	Lane        string    `json:"lane,omitempty"` // what the destination keeps in order within an order; empty where that is the whole order
	Operation   string    `json:"operation"`      // of the destination, such as "authorize"
}

// keys is the name space of all idempotency keys that destinations see. Changing it, or what key hashes, would let every
// effect under way happen a second time.
var keys = uuid.MustParse("5b0e3c52-6f0c-5d0b-9a52-0c6a9a1f7d11")

// key is the idempotency key of an identity: a UUIDv5 over its parts, each ended by a NUL, which none of them holds.
// Never a part of it: an attempt, a time, an event's id.
func (i Identity) key(tenant uuid.UUID) uuid.UUID {
	name := tenant.String() + "\x00" + i.Order.String() + "\x00" + i.Destination + "\x00" + i.Lane + "\x00" + i.Operation + "\x00"
	return uuid.NewSHA1(keys, []byte(name))
}
