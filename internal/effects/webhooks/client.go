package webhooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"orderonce/internal/effects"
	"orderonce/internal/effects/cloudevents"
)

const (
	statusGone = http.StatusGone

	// maxAnswer is how much of an answer is read, to keep its connection. Nothing in it counts.
	maxAnswer = 16 << 10
	// maxRetryAfter is the longest pause that a receiver may ask for.
	maxRetryAfter = 24 * time.Hour
)

// client makes deliveries to addresses that nobody trusts.
type client struct{ http.Client }

func newClient(config Config) client {
	dialer := net.Dialer{Timeout: config.Timeout, Resolver: config.Resolver, Control: config.Guard.control}
	return client{http.Client{
		Timeout: config.Timeout,
		// A redirect would be followed to an address that the tenant has not given.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  nil, // one from the environment would be asked to go where we may not
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: config.RootCAs, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    config.Timeout,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // a small answer may be a large one, compressed
			MaxResponseHeaderBytes: maxAnswer,
			MaxIdleConnsPerHost:    2,
			MaxIdleConns:           100,
			IdleConnTimeout:        30 * time.Second,
		},
	}}
}

// deliver sends one request and says what became of it.
func (c *client) deliver(ctx context.Context, url, id string, secrets [][]byte, body []byte) effects.Result {
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }, // from here on a byte may have left
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return effects.Result{Verdict: effects.Refused, Detail: "the URL is none"}
	}
	request.GetBody = nil // with it the transport may send a body twice by itself
	now := time.Now()
	request.Header = http.Header{
		"Content-Type":      {cloudevents.ContentType},
		"User-Agent":        {"orderonce-webhooks/1"},
		"Webhook-Id":        {id},
		"Webhook-Timestamp": {strconv.FormatInt(now.Unix(), 10)},
		"Webhook-Signature": {sign(secrets, id, now, body)},
	}
	response, err := c.Do(request)
	if err != nil {
		verdict := effects.NotExecuted
		if sent.Load() {
			verdict = effects.Ambiguous
		}
		return effects.Result{Verdict: verdict, Detail: reason(err)}
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer) // the status is the whole answer
	return judge(response, now)
}

// judge reads a receiver's status as Standard Webhooks does: 2xx is success, everything else is not, and is sent again.
func judge(response *http.Response, now time.Time) effects.Result {
	result := effects.Result{
		Status: response.StatusCode, Detail: "HTTP " + strconv.Itoa(response.StatusCode), RetryAfter: retryAfter(response.Header.Get("Retry-After"), now),
	}
	switch status := response.StatusCode; {
	case status >= 200 && status < 300:
		result.Verdict = effects.Done
	case status == statusGone:
		result.Verdict, result.Detail = effects.Refused, "HTTP 410: the receiver wants no more"
	case status == http.StatusServiceUnavailable && result.RetryAfter > 0:
		result.Verdict = effects.NotExecuted
	case status >= 500 || status == http.StatusRequestTimeout:
		result.Verdict = effects.Ambiguous // it may have failed after its work
	default:
		result.Verdict = effects.NotExecuted
	}
	return result
}

// retryAfter is the pause of a header in seconds or with a date; zero where there is none.
func retryAfter(header string, now time.Time) time.Duration {
	var pause time.Duration
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		pause = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		pause = at.Sub(now)
	}
	return min(max(pause, 0), maxRetryAfter)
}

// reason says for people why there was no answer. What a resolver or a private host said stays here.
func reason(err error) string {
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.Is(err, errNotPublic):
		return errNotPublic.Error()
	case errors.As(err, &dns):
		return "its name does not resolve"
	case errors.As(err, &certificate):
		return "its certificate is not valid"
	case errors.Is(err, context.Canceled):
		return "stopped"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "time-out"
	}
	return "the connection failed"
}
