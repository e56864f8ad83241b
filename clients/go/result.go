package orderonce

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Kind is what is known of an intent.
type Kind string

// The kinds of result.
const (
	Created  Kind = "created"  // done, by this call
	Replayed Kind = "replayed" // done, by an earlier send; the answer is the first one, byte for byte
	Accepted Kind = "accepted" // a task goes on with it; see [Client.WaitForTask]
	Rejected Kind = "rejected" // a definite no, and Problem says why
	Unknown  Kind = "unknown"  // not known yet, and never "failed": keep the intent and send it again
)

// Result is what is known of an intent after [Client.Do].
type Result struct {
	Kind     Kind
	Key      string
	Replayed bool      // the answer was a first send's, a stored no included
	Order    *Order    // of Created and Replayed, where the operation's answer is an order
	Task     *Task     // of Accepted
	Location string    // of what was made, or of what is in the way of a rejected order
	Problem  *Problem  // of Rejected; of Unknown where the last answer was one
	Body     []byte    // of the last answer; nil where there was none
	Expires  time.Time // when the key is forgotten; zero where it has no outcome. Do not send the intent past it
	Sends    int       // by this call
	Err      error     // of Unknown: why the last send got no answer; nil where it got one
}

// Final says whether the intent is over: what was stored for it can be thrown away. Where it is not, keep it: after
// Unknown to send it again as it is, after Rejected to correct what the problem names under the same key.
func (r Result) Final() bool {
	switch r.Kind {
	case Created, Replayed, Accepted:
		return true
	case Rejected:
		return r.Problem.KeyAction == "new"
	case Unknown:
	}
	return false
}

// result is what an exchange says about the intent.
func (e exchange) result(intent Intent) Result {
	r := Result{Kind: Unknown, Key: intent.Key, Sends: e.sends, Err: e.err}
	a := e.answer
	if a == nil {
		return r
	}
	r.Problem, r.Body, r.Replayed, r.Location = a.problem, a.body, a.replayed(), a.raw.Header.Get("Location")
	r.Expires, _ = http.ParseTime(a.raw.Header.Get("Idempotency-Key-Expires")) // zero where there is none
	status := a.raw.StatusCode
	switch {
	case a.problem != nil:
		if e.refused() {
			r.Kind = Rejected
		}
	case a.foreign(true):
	case status == http.StatusAccepted:
		var task Task
		if json.Unmarshal(a.body, &task) == nil && task.Id != uuid.Nil {
			r.Kind, r.Task = Accepted, &task
		}
	case answersWithOrder(intent.Operation):
		var order Order
		if json.Unmarshal(a.body, &order) == nil && order.Id != uuid.Nil {
			r.Kind, r.Order = done(r.Replayed), &order
		}
	default:
		if json.Valid(a.body) {
			r.Kind = done(r.Replayed)
		}
	}
	return r
}

// judgedAlone are what a request gets before its key is looked at: whatever became of earlier sends, none of the same
// bytes can have been carried out.
var judgedAlone = []int{
	http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
}

// refused says whether the problem means that the intent has not been carried out. One that is stored does, and so does
// one that says whose the key is: another request's. Any other is about its own send alone, and an earlier one whose
// answer was lost may have been carried out. A key that is missing or malformed was lost on the way.
func (e exchange) refused() bool {
	a := e.answer
	status, code := a.raw.StatusCode, a.problem.Code
	if status >= 500 || judge(a, nil, true).again || code == "replay_forbidden" {
		return false
	}
	alone := slices.Contains(judgedAlone, status) && !strings.HasPrefix(string(code), "idempotency_key_")
	return !e.open || a.stored() || alone || code == "idempotency_key_reused"
}

func done(replayed bool) Kind {
	if replayed {
		return Replayed
	}
	return Created
}

func answersWithOrder(operation string) bool {
	return operation == "createOrder" || operation == "cancelOrder"
}
