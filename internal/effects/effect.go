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
	Tenant, ID uuid.UUID
	Identity
	Reverts       *string   // an operation; where that was not executed, there is nothing to do
	Event         uuid.UUID // or another thing that asked for it, once
	Version       int64     // of the order, when it was asked for
	Key           uuid.UUID // what the destination knows it by
	Request       []byte    // resent unchanged
	Required      bool      // the order waits for it
	State         State
	Attempts      int32 // times that a worker took it, whatever came of that
	Token         int64 // grows with each taking, and is checked by each write
	DueAt         *time.Time
	Owner         *string
	FirstSentAt   *time.Time
	KeyValidUntil *time.Time // how long the destination remembers Key; later it is never sent again
	LastError     *string
	Evidence      json.RawMessage // an array, oldest first
	Traceparent   *string         // of the request that began it
	CreatedAt     time.Time
	EndedAt       *time.Time
}

// Identity is what makes two effects of a tenant the same one.
type Identity struct {
	Order       uuid.UUID
	Destination string // such as "payment"
	Lane        string // what the destination keeps in order within an order; empty where that is the whole order
	Operation   string // of the destination, such as "authorize"
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
