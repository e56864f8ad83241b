package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
)

// FaultKind is what goes wrong with a request.
type FaultKind string

// What can go wrong. The names say on which side of the work it does.
const (
	NoFault           FaultKind = "none"                // in a script: this request is spared
	TimeoutBeforeWork FaultKind = "timeout_before_work" // nothing is done, and nobody answers
	TimeoutAfterWork  FaultKind = "timeout_after_work"  // it is done, and nobody answers
	CutBeforeWork     FaultKind = "cut_before_work"     // nothing is done, and the connection is cut
	CutAfterWork      FaultKind = "cut_after_work"      // it is done, and the connection is cut before the answer
	CutMidResponse    FaultKind = "cut_mid_response"    // it is done, and the connection is cut in the middle of the answer
	TooManyRequests   FaultKind = "too_many_requests"   // 429; nothing is done
	Unavailable       FaultKind = "unavailable"         // 503 with Retry-After; nothing is done
	Overloaded        FaultKind = "overloaded"          // 503 without it; nothing is done, which nobody can know
	ErrorBeforeWork   FaultKind = "error_before_work"   // 500; nothing is done, which nobody can know
	ErrorAfterWork    FaultKind = "error_after_work"    // 500; it is done
	Slow              FaultKind = "slow"                // it is done after a delay, whether anybody still waits or not
	Duplicate         FaultKind = "duplicate"           // the request arrives twice
	Decline           FaultKind = "decline"             // the service says no, for good
)

// fate is what a kind does.
type fate struct {
	skipWork bool
	status   int  // instead of the answer
	hold     bool // no answer, until the caller gives up
	cut      bool // no answer
	half     bool // half an answer
	delay    bool // before the work
	twice    bool
	declines bool
	retry    bool // with Retry-After
}

var fates = map[FaultKind]fate{
	NoFault:           {},
	TimeoutBeforeWork: {skipWork: true, hold: true},
	TimeoutAfterWork:  {hold: true},
	CutBeforeWork:     {skipWork: true, cut: true},
	CutAfterWork:      {cut: true},
	CutMidResponse:    {half: true},
	TooManyRequests:   {skipWork: true, status: http.StatusTooManyRequests, retry: true},
	Unavailable:       {skipWork: true, status: http.StatusServiceUnavailable, retry: true},
	Overloaded:        {skipWork: true, status: http.StatusServiceUnavailable},
	ErrorBeforeWork:   {skipWork: true, status: http.StatusInternalServerError},
	ErrorAfterWork:    {status: http.StatusInternalServerError},
	Slow:              {delay: true},
	Duplicate:         {twice: true},
	Decline:           {declines: true},
}

// FaultKinds are all of them, sorted.
func FaultKinds() []FaultKind { return slices.Sorted(maps.Keys(fates)) }

// Fault is a rule: which requests something happens to. What is empty fits every request. Of several rules that fit, the
// first one that draws the request takes it, so that a list with counts is a script.
type Fault struct {
	ID             int       `json:"id,omitempty"`
	Kind           FaultKind `json:"kind"`
	Service        string    `json:"service,omitempty"`
	Operation      string    `json:"operation,omitempty"`
	IdempotencyKey string    `json:"idempotency_key,omitempty"`
	OrderID        string    `json:"order_id,omitempty"`
	// Rate is the share of the requests that it happens to; 0 is all.
	Rate float64 `json:"rate,omitempty"`
	// Count is how often it happens before the rule is used up; 0 is always.
	Count int `json:"count,omitempty"`
	// Delay is how slow Slow is.
	Delay Duration `json:"delay,omitempty"`
	// RetryAfter is in seconds; 0 is 1.
	RetryAfter int `json:"retry_after,omitempty"`
	// Happened counts.
	Happened int `json:"happened"`
}

// defaultDelay is how slow Slow is.
const defaultDelay = Duration(3e9)

func (f *Fault) check() error {
	if _, ok := fates[f.Kind]; !ok {
		return fmt.Errorf("kind: there is no fault %q", f.Kind)
	}
	if _, ok := services[f.Service]; !ok && f.Service != "" {
		return fmt.Errorf("service: there is no service %q", f.Service)
	}
	if f.Rate < 0 || f.Rate > 1 {
		return errors.New("rate: must be between 0 and 1")
	}
	if f.Count < 0 || f.RetryAfter < 0 || f.Delay < 0 {
		return errors.New("count, delay and retry_after: must not be negative")
	}
	if f.Delay == 0 {
		f.Delay = defaultDelay
	}
	f.RetryAfter = max(f.RetryAfter, 1)
	return nil
}

func (f *Fault) fits(o Operation) bool {
	fits := func(want, is string) bool { return want == "" || want == is }
	return fits(f.Service, o.Service) && fits(f.Operation, o.Operation) &&
		fits(f.IdempotencyKey, o.IdempotencyKey) && fits(f.OrderID, o.OrderID)
}

// faults are the rules in force, in their order.
type faults struct {
	mu    sync.Mutex
	rules []*Fault
	last  int
}

func (f *faults) add(rule Fault) (Fault, error) {
	if err := rule.check(); err != nil {
		return Fault{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	rule.ID, rule.Happened = f.last, 0
	f.rules = append(f.rules, &rule)
	return rule, nil
}

func (f *faults) list() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]Fault, len(f.rules))
	for i, rule := range f.rules {
		all[i] = *rule
	}
	return all
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// draw says what happens to a request.
func (f *faults) draw(o Operation) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, rule := range f.rules {
		if rule.Count > 0 && rule.Happened >= rule.Count || !rule.fits(o) {
			continue
		}
		if rule.Rate > 0 && rand.Float64() >= rule.Rate { //nolint:gosec // chance, no secret
			continue
		}
		rule.Happened++
		return *rule
	}
	return Fault{Kind: NoFault}
}
