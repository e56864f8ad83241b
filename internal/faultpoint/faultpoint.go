// Package faultpoint owns the named places at which the tests of whole processes hold or kill a server: between two
// steps whose order a promise depends on, and which no signal from outside could hit. It knows nothing of what
// happens there. In a binary without the build tag faults, which is every binary that anybody ships, a Hit is an
// empty function that the compiler leaves out, and no variable is read.
package faultpoint

// Point is one place in the code.
type Point string

// The places of a unit of work, in the order in which a request comes by. A request that is replayed, or that runs
// its unit again, comes by again.
const (
	BeforeClaim    Point = "before_claim"    // nothing has been sent to the database
	AfterClaim     Point = "after_claim"     // all rows have been written and answered; COMMIT has not been sent
	AfterCommit    Point = "after_commit"    // COMMIT has been answered
	BeforeResponse Point = "before_response" // the outcome is known; no byte of the answer has been written
)

// The places of a batch of events.
const (
	BeforeDispatched Point = "before_dispatched" // what comes of the events has been written; COMMIT has not been sent
	AfterDispatched  Point = "after_dispatched"  // COMMIT has been answered
)

// The places of an effect that a worker has taken.
const (
	BeforeSend   Point = "before_send"   // that it may have been sent is committed; no byte of it has left
	AfterAnswer  Point = "after_answer"  // the destination has answered, or will not; nothing of that has been written
	BeforeFinish Point = "before_finish" // the outcome and what follows from it have been written; COMMIT has not been sent
	AfterFinish  Point = "after_finish"  // COMMIT has been answered
)
