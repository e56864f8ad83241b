package orderonce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// maxAnswer bounds what is read of one answer. The contract's largest, a page of orders, is far below.
const maxAnswer = 32 << 20

// Transport is an [http.RoundTripper] that sends a request again where that is safe and can help: one with an
// Idempotency-Key, or whose method is idempotent by itself. Any other passes once. An answer is read whole before it is
// given, so that one that is cut amid its body counts as lost.
//
// Each send has the same bytes. Go's own transport would send a request with an Idempotency-Key again by itself when a
// kept connection breaks: harmless, but nobody's count and nobody's pause. Here a body cannot be rewound behind our back,
// so it does not; for a request without a body, where it still can, the sends are counted on the wire.
type Transport struct {
	Base       http.RoundTripper // nil is http.DefaultTransport
	Policy     Policy
	Credential func(context.Context) (string, error) // for Authorization, before each send; nil leaves the header alone

	origin string // the one that the credential is for; empty for any
}

// NoAnswerError is what a request ended with that got no answer. It may have been carried out: send it again with the
// same key.
type NoAnswerError struct {
	Sends int
	Err   error // of the last send
}

func (e *NoAnswerError) Error() string {
	return fmt.Sprintf("no answer to %d sends, so the outcome is not known; send the same again with the same key: %v", e.Sends, e.Err)
}

func (e *NoAnswerError) Unwrap() error { return e.Err }

// exchange is what a request and its retries came to.
type exchange struct {
	answer *answer // the last one; nil where the last send got none
	err    error   // why there is none
	sends  int
	open   bool // an earlier send may have been carried out, and nobody has told
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	e, err := t.exchange(r)
	if err != nil {
		return nil, err
	}
	if e.answer == nil {
		return nil, &NoAnswerError{e.sends, e.err}
	}
	return e.answer.response(r), nil
}

// exchange sends r until its outcome is known or patience ends. An error means that nothing was sent.
func (t *Transport) exchange(r *http.Request) (exchange, error) {
	body, err := wholeBody(r)
	if err != nil {
		return exchange{}, err
	}
	policy := t.Policy.withDefaults()
	ctx, cancel := context.WithTimeout(r.Context(), policy.Deadline)
	defer cancel()
	var e exchange
	var wire atomic.Int64 // requests that were written to a connection, by us or below us
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { wire.Add(1) },
	})
	for try := 1; ; try++ {
		prepared, err := t.prepare(ctx, r)
		if err != nil || ctx.Err() != nil {
			if err = errors.Join(err, ctx.Err()); try == 1 {
				return exchange{}, err
			}
			e.answer, e.err = nil, err
			return e, nil
		}
		a, err := t.send(prepared, body, policy)
		e.sends = max(try, int(wire.Load()))
		e.answer, e.err = a, err
		next := judge(a, err, prepared.Header.Get(keyHeader) != "")
		if !next.again || !repeatable(prepared) || e.sends >= policy.MaxSends {
			return e, nil
		}
		d := policy.between(try, next.after)
		if end, ok := ctx.Deadline(); ok && !until(end, d) {
			return e, nil
		}
		e.open = e.open || next.open
		if policy.Pause(ctx, d) != nil {
			return e, nil
		}
	}
}

// prepare is r with the key and the credential that it is sent with, and without its body.
func (t *Transport) prepare(ctx context.Context, r *http.Request) (*http.Request, error) {
	prepared := r.Clone(ctx)
	if key, ok := ctx.Value(contextKey{}).(string); ok && prepared.Header.Get(keyHeader) == "" {
		if !keys.MatchString(key) {
			return nil, ErrKey
		}
		prepared.Header.Set(keyHeader, key)
	}
	if to := r.URL.Scheme + "://" + r.URL.Host; t.origin != "" && to != t.origin {
		return nil, fmt.Errorf("the credential is for %s, and does not go to %s", t.origin, to)
	}
	if t.Credential != nil {
		credential, err := t.Credential(ctx)
		if err != nil {
			return nil, fmt.Errorf("get the credential: %w", err)
		}
		prepared.Header.Set("Authorization", "Bearer "+credential)
	}
	return prepared, nil
}

func (t *Transport) send(prepared *http.Request, body []byte, policy Policy) (*answer, error) {
	ctx, cancel := context.WithTimeout(prepared.Context(), policy.SendTimeout)
	defer cancel()
	r := prepared.WithContext(ctx)
	r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0
	if len(body) > 0 {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	response, err := base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return newAnswer(response, text), nil
}

// wholeBody reads the request's body, and closes it as a RoundTripper has to.
func wholeBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return nil, fmt.Errorf("read the request's body: %w", err)
	}
	return body, nil
}

// repeatable says whether a second send can do no harm.
func repeatable(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header.Get(keyHeader) != ""
}
