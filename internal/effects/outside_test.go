package effects_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"orderonce/internal/effects"
)

type outside struct {
	*httptest.Server
	t          *testing.T
	forgetful  bool // executes each request
	mu         sync.Mutex
	arrivals   []arrival
	executions map[string]int
	// answer is what it does with a request that it has executed, or found executed; nil for 200.
	answer func(w http.ResponseWriter, r *http.Request, nth int)
	// before is what it does before it executes anything; it returns false to execute nothing.
	before func(w http.ResponseWriter, r *http.Request, nth int) bool
}

type arrival struct {
	key  string
	body string
	at   time.Time
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{t: t, executions: map[string]int{}}
	o.Server = httptest.NewServer(http.HandlerFunc(o.serve))
	t.Cleanup(o.Close)
	return o
}

func (o *outside) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	key := r.Header.Get("Idempotency-Key")
	if r.Method == http.MethodGet {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.executions[r.URL.Query().Get("key")] == 0 {
			w.WriteHeader(http.StatusNotFound)
		}
		return
	}
	o.mu.Lock()
	o.arrivals = append(o.arrivals, arrival{key, string(body), time.Now()})
	nth := len(o.arrivals)
	before, answer := o.before, o.answer
	o.mu.Unlock()
	if before != nil && !before(w, r, nth) {
		return
	}
	o.mu.Lock()
	if o.executions[key] == 0 || o.forgetful {
		o.executions[key]++
	}
	o.mu.Unlock()
	if answer != nil {
		answer(w, r, nth)
	}
}

func (o *outside) seen() []arrival {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.arrivals)
}

// mostExecuted is the largest number of executions of one key.
func (o *outside) mostExecuted() (most int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.executions {
		most = max(most, n)
	}
	return most
}

// destination is how the product would call it, in the simplest form.
func (o *outside) destination(name string, capability effects.Capability) effects.Destination {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	d := effects.Destination{
		Name: name, Capability: capability, Concurrency: 4, Timeout: 5 * time.Second,
		Send: func(ctx context.Context, e effects.Effect) effects.Result {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL, io.NopCloser(bytes.NewReader(e.Request)))
			if err != nil {
				return effects.Result{Verdict: effects.Impossible, Detail: err.Error()}
			}
			r.Header.Set("Idempotency-Key", e.Key.String())
			return verdict(client.Do(r))
		},
	}
	switch capability {
	case effects.Idempotent:
		d.Retention = time.Hour
	case effects.Queryable:
		d.Query = func(ctx context.Context, e effects.Effect) effects.Result {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL+"?key="+e.Key.String(), nil)
			if err != nil {
				return effects.Result{Verdict: effects.Ambiguous, Detail: err.Error()}
			}
			result := verdict(client.Do(r))
			if result.Status == http.StatusNotFound {
				result.Verdict = effects.Absent
			}
			return result
		}
	case effects.None:
	}
	return d
}

func verdict(answer *http.Response, err error) effects.Result {
	if err != nil {
		return effects.Result{Verdict: effects.Ambiguous, Detail: err.Error()}
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return effects.Result{Verdict: effects.Ambiguous, Detail: err.Error()}
	}
	result := effects.Result{Status: answer.StatusCode}
	switch seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")); {
	case answer.StatusCode < 300:
		result.Verdict = effects.Done
	case answer.StatusCode == 429 || answer.StatusCode == 503:
		result.Verdict, result.RetryAfter = effects.NotExecuted, time.Duration(seconds)*time.Second
	case answer.StatusCode == 422:
		result.Verdict = effects.Refused
	case answer.StatusCode < 500:
		result.Verdict = effects.Impossible
	default:
		result.Verdict = effects.Ambiguous
	}
	return result
}
