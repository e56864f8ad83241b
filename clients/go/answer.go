package orderonce

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"time"
)

// answer is a response read whole.
type answer struct {
	raw     *http.Response
	body    []byte
	problem *Problem // nil where it is none of the contract's
}

func newAnswer(response *http.Response, body []byte) *answer {
	a := &answer{raw: response, body: body}
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	var p Problem
	if err == nil && media == "application/problem+json" && json.Unmarshal(body, &p) == nil && p.Code != "" {
		a.problem = &p
	}
	return a
}

// response is the answer in the form that it came in. It may be read as if it were just coming.
func (a *answer) response(r *http.Request) *http.Response {
	response := *a.raw
	response.Request, response.Body = r, io.NopCloser(bytes.NewReader(a.body))
	if response.ContentLength >= 0 && r.Method != http.MethodHead {
		response.ContentLength = int64(len(a.body))
	}
	return &response
}

func (a *answer) replayed() bool { return a.raw.Header.Get("Idempotency-Replayed") == "true" }

// stored says whether the answer is the outcome of its key, now and later.
func (a *answer) stored() bool { return a.raw.Header.Get("Idempotency-Key-Expires") != "" }

// foreign says whether something between the service and us made the answer: a gateway, or a portal that wants a
// sign-in. All that the service says about a key is a problem or has Idempotency-Replayed.
func (a *answer) foreign(keyed bool) bool {
	return a.problem == nil && (a.raw.StatusCode >= 300 || keyed && a.raw.Header.Get("Idempotency-Replayed") == "")
}

// verdict is what to do after a send.
type verdict struct {
	again bool
	after time.Duration // the service asked to wait so long
	open  bool          // the send may have been carried out all the same
}

// judge reads an answer, or the error that came in its place.
func judge(a *answer, err error, keyed bool) verdict {
	if err != nil {
		var op *net.OpError
		return verdict{again: true, open: !errors.As(err, &op) || op.Op != "dial"}
	}
	v := verdict{after: a.retryAfter(time.Now())}
	status := a.raw.StatusCode
	v.open = a.foreign(keyed) || a.problem != nil && (a.problem.Code == "outcome_unknown" || a.problem.Code == "idempotency_in_progress")
	switch said := a.raw.Header.Get("X-Should-Retry"); {
	case said == "true" || said == "false":
		v.again = said == "true"
	case a.problem != nil:
		v.again = a.problem.Retryable
	case status < 400:
		v.again = a.foreign(keyed)
	default:
		v.again = status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500
	}
	return v
}

// maxAfter bounds what an answer can ask for, so that no number of it overflows. It is beyond every deadline.
const maxAfter = 1000 * time.Hour

// retryAfter is the least pause that the answer asks for. What cannot be read asks for none.
func (a *answer) retryAfter(now time.Time) time.Duration {
	var after time.Duration
	if a.problem != nil && a.problem.RetryAfterMs != nil {
		after = time.Duration(min(*a.problem.RetryAfterMs, maxAfter.Milliseconds())) * time.Millisecond
	} else if text := a.raw.Header.Get("Retry-After"); text != "" {
		if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
			after = time.Duration(min(seconds, int64(maxAfter.Seconds()))) * time.Second
		} else if date, err := http.ParseTime(text); err == nil {
			after = date.Sub(now)
		}
	}
	return min(max(after, 0), maxAfter)
}

func until(end time.Time, d time.Duration) bool { return time.Until(end) > d }
