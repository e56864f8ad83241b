package effects

import (
	"context"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
)

// Destination is one kind of thing outside this database: what it is asked, what it can do, and how it is reached.
type Destination struct {
	Name       string
	Capability Capability
	// Retention is how long an Idempotent destination remembers a key from its first sending.
	Retention time.Duration
	// Ordered keeps the effects of one order and lane one after another, by version: the next one waits for the end of
	// its predecessor.
	Ordered bool
	// Concurrency is how many calls one process has under way at once.
	Concurrency int
	// Timeout bounds one call.
	Timeout time.Duration

	// Plan says what events ask of it, in any order. The events are of any tenants; db sees all of them.
	Plan func(ctx context.Context, db postgres.DBTX, events []outbox.Recorded) ([]Call, error)
	// Send makes the call. It sends at most one request, with the effect's key and bytes, and does not retry.
	Send func(ctx context.Context, e Effect) Result
	// Query asks a Queryable destination what became of the effect's key. Done, Refused and Absent are certain.
	Query func(ctx context.Context, e Effect) Result
	// List tells what a destination has executed or refused since a time of its own clock, page by page, for the check
	// against what was asked of it. Nil where it cannot.
	List func(ctx context.Context, since time.Time, page string) (Listing, error)
}

// Listed is an operation as a destination tells it. What the destination was not told, or does not tell, is empty.
type Listed struct {
	Tenant, Order uuid.UUID
	Operation     string
	Key           string // any text: it may be one that nobody here has made
	Executed      bool   // or refused
	Executions    int    // how often, where it counts; 1 where it does not
	Reference     string
	At            time.Time // by the destination's clock
}

// Listing is a page of operations, the oldest change first.
type Listing struct {
	Operations []Listed
	Next       string // asks for the page behind it; empty where there is none
}

// Capability is what a destination can do about a call whose outcome nobody heard.
type Capability string

const (
	Idempotent Capability = "idempotent" // the same key and bytes are executed once, while it remembers the key
	Queryable  Capability = "queryable"  // it tells what became of a key
	None       Capability = "none"       // only a person can find out
)

// Call is what an event asks of a destination.
type Call struct {
	Tenant    uuid.UUID
	Order     uuid.UUID
	Lane      string
	Operation string
	Event     uuid.UUID
	Version   int64
	Request   []byte
	Required  bool
	// Reverts is the operation of an Ordered destination that this one undoes: it waits for that one's end, and where that
	// was not executed there is nothing to do.
	Reverts     *string
	Traceparent *string
}

// Result is what a call, or a question about one, found out.
type Result struct {
	Verdict Verdict
	// RetryAfter is what the destination recommends, zero where it does not.
	RetryAfter time.Duration
	// Status is the destination's, such as 503; zero where there was no answer.
	Status int
	// Detail is for people: what went wrong, or the destination's own reference. No secret, no body.
	Detail string
}
