package effects

// State is where an effect stands.
type State string

// An effect begins as Pending. Succeeded and Failed are definite and final.
const (
	Pending    State = "pending"     // not sent, or certainly not executed
	InFlight   State = "in_flight"   // committed before the first byte leaves; found with an ended lease, it was possibly sent
	Unknown    State = "unknown"     // sent, and nobody heard whether it was executed
	NeedsHuman State = "needs_human" // nothing that the service may do finds out
	Succeeded  State = "succeeded"
	Failed     State = "failed"
)

// Verdict is what a destination's answer, or the lack of one, says of the call.
type Verdict string

const (
	Done        Verdict = "done"         // executed, now or by an earlier sending of the same key
	Refused     Verdict = "refused"      // a definite no that no retry changes
	NotExecuted Verdict = "not_executed" // this sending did nothing: no connection, 429, 503 with Retry-After
	Impossible  Verdict = "impossible"   // this sending did nothing, nor would another: 401, 404, a body that it cannot read
	Ambiguous   Verdict = "ambiguous"    // sent, and the answer is lost or says nothing: time-out, cut, 500, 502, 504
	Absent      Verdict = "absent"       // asked, the destination is certain that it never executed the key
)

// after is the whole state machine of a worker: where an effect goes from a state, by what is found out. What is not in
// it cannot happen. People move an effect by Moves.
var after = map[State]map[Verdict]State{
	InFlight: {
		Done: Succeeded, Refused: Failed, NotExecuted: Pending, Impossible: NeedsHuman, Ambiguous: Unknown,
	},
	// An earlier sending may have been executed, so that this one's failure says nothing.
	Unknown: {
		Done: Succeeded, Refused: Failed, NotExecuted: Unknown, Impossible: NeedsHuman, Ambiguous: Unknown, Absent: Pending,
	},
}
