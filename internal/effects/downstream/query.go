package downstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects"
)

// told is an operation in the words of the services that we know.
type told struct {
	TenantID       string    `json:"tenant_id"`
	OrderID        string    `json:"order_id"`
	Operation      string    `json:"operation"`
	IdempotencyKey string    `json:"idempotency_key"`
	Outcome        string    `json:"outcome"`
	Executions     int       `json:"executions"`
	Reference      string    `json:"reference"`
	ChangedAt      time.Time `json:"changed_at"`
}

const (
	outcomeExecuted = "executed"
	outcomeDeclined = "declined"
	codeAbsent      = "absent"
)

// query asks what became of the effect's key. 200 with an outcome of this very key, and 404 with a problem whose code is
// absent, are certain; a 404 of a proxy, or of a service that does not tell, is not.
func (s *service) query(ctx context.Context, e effects.Effect) effects.Result {
	a, r := s.ask(ctx, e, "/"+s.name+"/operations/"+e.Key.String())
	if r.Verdict != "" {
		return r
	}
	r = effects.Result{Verdict: effects.Ambiguous, Status: a.status, RetryAfter: a.retryAfter(time.Now()), Detail: a.detail()}
	switch a.status {
	case http.StatusOK:
		var found told
		if json.Unmarshal(a.body, &found) != nil || found.IdempotencyKey != e.Key.String() {
			r.Detail = "the answer does not speak of this key"
			return r
		}
		switch found.Outcome {
		case outcomeExecuted:
			r.Verdict = effects.Done
		case outcomeDeclined:
			r.Verdict = effects.Refused
		}
	case http.StatusNotFound:
		var problem struct{ Code string }
		if a.problem && json.Unmarshal(a.body, &problem) == nil && problem.Code == codeAbsent {
			r.Verdict = effects.Absent
		}
	}
	return r
}

// list reads a page of what was executed or refused since a time, by the destination's clock.
func (s *service) list(ctx context.Context, since time.Time, page string) (effects.Listing, error) {
	query := url.Values{"limit": {"100"}}
	if page != "" {
		query.Set("page", page)
	} else {
		query.Set("since", since.UTC().Format(time.RFC3339Nano))
	}
	a, r := s.ask(ctx, effects.Effect{}, "/"+s.name+"/operations?"+query.Encode())
	if r.Verdict != "" {
		return effects.Listing{}, fmt.Errorf("list the operations of %s: %s", s.name, r.Detail)
	}
	var body struct {
		Operations []told
		Next       string
	}
	if a.status != http.StatusOK {
		return effects.Listing{}, fmt.Errorf("list the operations of %s: status %d %s", s.name, a.status, a.detail())
	}
	if err := json.Unmarshal(a.body, &body); err != nil {
		return effects.Listing{}, fmt.Errorf("list the operations of %s: %w", s.name, err)
	}
	listing := effects.Listing{Next: body.Next}
	for _, o := range body.Operations {
		one := effects.Listed{
			Operation: o.Operation, Key: o.IdempotencyKey, Executed: o.Outcome == outcomeExecuted,
			Executions: max(o.Executions, 1), Reference: clean(o.Reference), At: o.ChangedAt,
		}
		one.Tenant, _ = uuid.Parse(o.TenantID) // nil where somebody else asked for it
		one.Order, _ = uuid.Parse(o.OrderID)
		listing.Operations = append(listing.Operations, one)
	}
	return listing, nil
}

// ask reads something of the service. The result has a verdict where there is no whole answer.
func (s *service) ask(ctx context.Context, e effects.Effect, path string) (answer, effects.Result) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return answer{}, effects.Result{Verdict: effects.Impossible, Detail: "the request cannot be made: " + err.Error()}
	}
	a, _, err := s.exchange(ctx, request, e)
	if err != nil {
		return a, effects.Result{Verdict: effects.Ambiguous, Status: a.status, Detail: detail("no answer: ", err)}
	}
	return a, effects.Result{}
}
