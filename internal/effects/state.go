package effects

import "time"

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
var after = map[State]map[Verdict]State{ //nolint:exhaustive // the others are not a worker's
	InFlight: { //nolint:exhaustive // nobody is asked about what is being sent
		Done: Succeeded, Refused: Failed, NotExecuted: Pending, Impossible: NeedsHuman, Ambiguous: Unknown,
	},
	// An earlier sending may have been executed, so that this one's failure says nothing.
	Unknown: {
		Done: Succeeded, Refused: Failed, NotExecuted: Unknown, Impossible: NeedsHuman, Ambiguous: Unknown, Absent: Pending,
	},
}

// definite says whether nothing comes after the state.
func (s State) definite() bool { return s == Succeeded || s == Failed }

// step is what a worker may do with an effect that it has taken.
type step int

const (
	send   step = iota // its bytes, for the first time or again
	ask                // the destination, what became of its key
	giveUp             // and call a person
)

// taking is an effect that this worker has taken and not yet finished.
type taking struct {
	Effect
	at    time.Time // of the taking, by the database's clock
	until time.Time // by this process's clock: whoever has not heard from the destination by then may lose the lease
}

// first says whether no earlier sending of the key can have been executed.
func (t taking) first() bool {
	return t.State == InFlight && t.FirstSentAt != nil && t.FirstSentAt.Equal(t.at)
}

// step decides by what the destination can do. A key that it may have forgotten, now or before the lease ends, is never
// sent again.
func (d *Destination) step(t taking, margin time.Duration, most int32) (s step, why string) {
	remembered := t.KeyValidUntil != nil && t.KeyValidUntil.After(t.at.Add(margin))
	switch {
	case t.first():
		return send, ""
	case t.State == Unknown && t.Attempts > most:
		return giveUp, "taken as often as it may be, and its outcome is not known"
	case d.Capability == Idempotent && remembered:
		return send, ""
	case d.Query != nil:
		return ask, ""
	case d.Capability == Idempotent:
		return giveUp, "the destination may have forgotten its key, and cannot be asked"
	}
	return giveUp, "sending it again could execute it twice, and the destination cannot be asked"
}

// land is where a taken effect goes by what was found out. At the end of its attempts a person decides: nothing is
// tried for ever, and nothing is dropped. So too where the destination refuses to undo what it did: it still stands.
func (d *Destination) land(t taking, v Verdict, most int32) State {
	to, known := after[t.State][v]
	if !known { // the destination's code says what cannot be
		to = Unknown
	}
	if to == Unknown && d.Capability == None || to == Failed && t.Reverts != nil || !to.definite() && t.Attempts >= most {
		return NeedsHuman
	}
	return to
}

// unsent says whether v makes it certain that no sending of the key was executed: its memory then begins anew.
func (t taking) unsent(v Verdict) bool {
	return v == Absent && t.State == Unknown || t.first() && (v == NotExecuted || v == Impossible)
}
