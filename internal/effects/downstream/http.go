// Package downstream owns the services that an order needs: what an event asks of each, in its words, and how it is
// asked over HTTP without being asked twice. A new one is a file such as notification.go, and its settings. It does not
// know when a call is made, nor what becomes of it afterwards.
package downstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"orderonce/internal/effects"
	"orderonce/internal/outbox"
	"orderonce/internal/postgres"
	"orderonce/internal/telemetry"
)

// Config says how a service is reached over HTTP, and what it can do.
type Config struct {
	URL string // without a path of the service's own, such as https://payments.example/v1
	// Authorization is the header's whole value, such as "Bearer …"; empty for none. It is never logged.
	Authorization string
	Capability    effects.Capability
	// Retention is how long an idempotent service remembers a key. It is the service's word: one that forgets sooner
	// executes twice.
	Retention time.Duration
	// Asked says of an idempotent service that it can be asked too; a queryable one always can.
	Asked       bool
	Timeout     time.Duration
	Concurrency int
}

// Check joins all that is wrong with it.
func (c Config) Check() error {
	var wrong []error
	if u, err := url.Parse(c.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		wrong = append(wrong, errors.New("url: must be such as https://payments.example/v1, without a credential"))
	}
	switch c.Capability {
	case effects.Idempotent, effects.Queryable, effects.None:
	default:
		wrong = append(wrong, fmt.Errorf("capability: %q is neither idempotent, queryable nor none", c.Capability))
	}
	if c.Capability == effects.Idempotent && c.Retention <= 0 {
		wrong = append(wrong, errors.New("retention: an idempotent service has one"))
	}
	if c.Capability == effects.None && c.Asked {
		wrong = append(wrong, errors.New("capability: a service that can be asked is queryable"))
	}
	if c.Timeout <= 0 || c.Concurrency < 1 {
		wrong = append(wrong, errors.New("timeout and concurrency: must be positive"))
	}
	return errors.Join(wrong...)
}

// service makes the calls to one HTTP service, each of them once.
type service struct {
	Config
	name   string
	paths  map[string]string // where each operation is asked for
	client *http.Client
}

const (
	// maxAnswer is more than any answer that we look at needs; what is behind it is not read.
	maxAnswer = 256 << 10
	// maxRetryAfter is the longest pause that a service may ask for: longer ones are a mistake of its clock.
	maxRetryAfter = time.Hour
	// maxDetail bounds what a service may write into the evidence.
	maxDetail = 200
)

// newService reaches a service that is asked for each operation at a path.
func newService(name string, c Config, paths map[string]string) *service {
	c.URL = strings.TrimSuffix(c.URL, "/")
	return &service{Config: c, name: name, paths: paths, client: &http.Client{
		// A redirect is an answer, and a question to a person: following it would be a second request.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			// HTTP/1.1 alone: over HTTP/2 the transport has more reasons of its own to send a request again.
			DialContext:            (&net.Dialer{Timeout: c.Timeout, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:    c.Timeout, // a dial outlives the call that began it
			Proxy:                  http.ProxyFromEnvironment,
			MaxIdleConnsPerHost:    c.Concurrency,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: maxAnswer,
			DisableCompression:     true, // a bounded answer that unpacks to more than its bound
			// A kept connection that the service closes just when it is used leaves a call without an answer. Here that
			// would be a person's work.
			DisableKeepAlives: c.Capability == effects.None,
		},
	}}
}

// destination is the service as a Destination. plan says what one event asks of it. What is asked for one order is done
// one after the other: nothing is undone before it was done, and a customer reads last what happened last.
func (s *service) destination(plan func(outbox.Recorded) ([]effects.Call, error)) effects.Destination {
	d := effects.Destination{
		Name: s.name, Capability: s.Capability, Retention: s.Retention, Concurrency: s.Concurrency, Timeout: s.Timeout,
		Ordered: true, Send: s.send,
		Plan: func(_ context.Context, _ postgres.DBTX, events []outbox.Recorded) (calls []effects.Call, err error) {
			for _, e := range events {
				more, err := plan(e)
				if err != nil {
					return nil, err
				}
				calls = append(calls, more...)
			}
			return calls, nil
		},
	}
	if s.Capability == effects.Queryable || s.Asked {
		d.Query, d.List = s.query, s.list
	}
	return d
}

// once is a body that cannot be read a second time. http.NewRequest would know how to rewind a *bytes.Reader, and the
// transport sends a request with an Idempotency-Key and such a body again by itself when a kept connection breaks.
type once struct{ io.Reader }

// send asks for the effect's operation. At most one request leaves.
func (s *service) send(ctx context.Context, e effects.Effect) effects.Result {
	path, known := s.paths[e.Operation]
	if !known {
		if path, known = s.paths[""]; !known {
			return effects.Result{Verdict: effects.Impossible, Detail: "the destination knows no operation " + e.Operation}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, once{bytes.NewReader(e.Request)})
	if err != nil {
		return effects.Result{Verdict: effects.Impossible, Detail: "the request cannot be made: " + err.Error()}
	}
	request.ContentLength, request.GetBody = int64(len(e.Request)), nil
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", e.Key.String())
	a, sent, err := s.exchange(ctx, request, e)
	switch {
	case err == nil:
		return a.verdict()
	case sent:
		return effects.Result{Verdict: effects.Ambiguous, Status: a.status, Detail: detail("no answer: ", err)}
	}
	return effects.Result{Verdict: effects.NotExecuted, Detail: detail("not sent: ", err)}
}

// answer is a response that was read as far as it is looked at.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	problem bool // the body is one (RFC 9457)
}

// exchange sends the request once and reads its answer. With an error, sent says whether a byte may have left; where it
// is false none has, and none will.
func (s *service) exchange(ctx context.Context, request *http.Request, e effects.Effect) (a answer, sent bool, err error) {
	// The headers go before the body, and a request whose headers have not left whole executes nothing. The transport
	// waits for its own writing before it returns an error, but not when the time is up: a request that has a connection
	// by then may still leave.
	var connected, wrote atomic.Bool
	trace := &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { connected.Store(true) },
		WroteHeaders: func() { wrote.Store(true) },
	}
	request = request.WithContext(httptrace.WithClientTrace(ctx, trace))
	request.Header.Set("User-Agent", "OrderOnce")
	request.Header.Set("Accept", "application/json, application/problem+json")
	if s.Authorization != "" {
		request.Header.Set("Authorization", s.Authorization)
	}
	if own := telemetry.Traceparent(ctx); own != "" { // of this call; its span links to the request's
		request.Header.Set("Traceparent", own)
	} else if e.Traceparent != nil {
		request.Header.Set("Traceparent", *e.Traceparent)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return answer{}, wrote.Load() || connected.Load() && ctx.Err() != nil, err
	}
	defer response.Body.Close()
	a = answer{status: response.StatusCode, header: response.Header}
	a.problem = strings.HasPrefix(response.Header.Get("Content-Type"), "application/problem+json")
	a.body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return a, true, err
}

// verdict is what an answer to a sending says of it. Whatever does not clearly say what it did is Ambiguous.
func (a answer) verdict() effects.Result {
	r := effects.Result{Status: a.status, RetryAfter: a.retryAfter(time.Now()), Detail: a.detail()}
	switch a.status {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent:
		r.Verdict = effects.Done
	case http.StatusTooManyRequests, http.StatusTooEarly:
		r.Verdict = effects.NotExecuted
	case http.StatusServiceUnavailable:
		// With a time to come back it is its front door that speaks; without, it may be anything behind it.
		r.Verdict = effects.Ambiguous
		if r.RetryAfter > 0 || a.header.Get("Retry-After") == "0" {
			r.Verdict = effects.NotExecuted
		}
	case http.StatusPaymentRequired, http.StatusConflict, http.StatusUnprocessableEntity:
		// Without a problem the service does not say that this is its last word; 409 is also said of a key in use.
		r.Verdict = effects.Ambiguous
		if a.problem && r.RetryAfter == 0 {
			r.Verdict = effects.Refused
		}
	case http.StatusRequestTimeout:
		r.Verdict = effects.Ambiguous
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		r.Verdict = effects.Impossible
	default:
		r.Verdict = effects.Ambiguous // among them 302 and 303, which may follow the work
		if a.status >= 400 && a.status <= 499 {
			r.Verdict = effects.Impossible
		}
	}
	return r
}

// retryAfter reads the header, in seconds or as a date; 0 where there is none that makes sense.
func (a answer) retryAfter(now time.Time) time.Duration {
	text := a.header.Get("Retry-After")
	var pause time.Duration
	if seconds, err := strconv.Atoi(text); err == nil {
		pause = time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		pause = at.Sub(now)
	}
	return min(max(pause, 0), maxRetryAfter)
}

// detail is the service's own name for what it did, or for what is wrong; of the rest of the body nothing is kept.
func (a answer) detail() string {
	var named struct{ Reference, Code string }
	_ = json.Unmarshal(a.body, &named) // another service's body may be anything
	if text := named.Reference + named.Code; text != "" {
		return clean(text)
	}
	return ""
}

// detail is an error for people, without the URL, which says nothing that the destination does not.
func detail(what string, err error) string {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return clean(what + err.Error())
}

// clean keeps what others wrote short and printable.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) || r == '\uFFFD' {
			return -1
		}
		return r
	}, text)
	runes := []rune(text)
	return string(runes[:min(len(runes), maxDetail)])
}
