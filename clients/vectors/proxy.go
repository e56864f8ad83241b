package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// reply is the server's answer, read whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// toServer keeps no connection: Go's transport would repeat a request with a key by itself on one that broke.
var toServer = &http.Transport{DisableKeepAlives: true, DisableCompression: true}

// forward hands a request to the server as it came.
func (s *session) forward(ctx context.Context, sent Send, header http.Header) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, sent.Method, s.backend.URL+sent.Path, bytes.NewReader(sent.body))
	if err != nil {
		return reply{}, err
	}
	r.Header = header.Clone()
	r.Header.Del("Connection")
	response, err := toServer.RoundTrip(r)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, body}, err
}

// ServeHTTP does to the n-th request what the n-th action says.
func (s *session) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.fault(fmt.Errorf("a request's body did not come whole: %w", err))
		return
	}
	sent := Send{Method: r.Method, Path: r.URL.RequestURI(), Key: r.Header.Get("Idempotency-Key"), body: body}
	action, overdue := s.arrived(sent)
	// The server's work is not the client's to interrupt: what a vector says was done has been done.
	ctx := context.WithoutCancel(r.Context())
	times := 1
	switch {
	case action.Do == refuse || action.Do == late, (action.Do == answer || action.Do == hang) && !action.Server:
		times = 0
	case action.Do == twiceFirst || action.Do == twiceSecond:
		times = 2
	}
	var replies []reply
	for range times {
		one, err := s.forward(ctx, sent, r.Header)
		if err != nil {
			s.fault(fmt.Errorf("the server did not answer: %w", err))
			panic(http.ErrAbortHandler)
		}
		replies = append(replies, one)
	}
	for _, o := range overdue {
		if _, err := s.forward(ctx, o.Send, o.header); err != nil {
			s.fault(fmt.Errorf("the server did not answer the late request: %w", err))
		}
	}
	if action.Do == late {
		s.keepLate(sent, r.Header.Clone())
	}
	s.answer(w, r, action, replies)
}

// answer gives the client what the action leaves of it.
func (s *session) answer(w http.ResponseWriter, r *http.Request, action Action, replies []reply) {
	switch action.Do {
	case hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case garbage:
		s.write(w, "this is no HTTP\r\n\r\n")
	case answer:
		if err := action.Answer.write(w); err != nil {
			s.fault(err)
		}
	case cutAnswer:
		all := replies[0]
		maps.Copy(w.Header(), all.header)
		w.Header().Set("Content-Length", strconv.Itoa(len(all.body)))
		w.WriteHeader(all.status)
		_, _ = w.Write(all.body[:len(all.body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case pass, twiceFirst, twiceSecond:
		all := replies[0]
		if action.Do == twiceSecond {
			all = replies[1]
		}
		maps.Copy(w.Header(), all.header)
		w.WriteHeader(all.status)
		_, _ = w.Write(all.body) // a client that is gone is no concern of the proxy
	default: // refuse, dropAnswer, late
		panic(http.ErrAbortHandler)
	}
}

// write puts bytes on the wire that net/http would not.
func (s *session) write(w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.fault(err)
		return
	}
	_, werr := io.WriteString(conn, text)
	if err := errors.Join(werr, conn.Close()); err != nil {
		s.fault(err)
	}
}

func (a *Answer) write(w http.ResponseWriter) error {
	body := []byte(a.Body)
	contentType := "application/json"
	switch {
	case a.HTMLLines > 0:
		contentType = "text/html; charset=utf-8"
		body = []byte("<!doctype html>\n" + strings.Repeat("<p>The gateway is not the service.</p>\n", a.HTMLLines-1))
	case a.Problem != nil:
		contentType = "application/problem+json"
		problem := map[string]any{
			"type": fmt.Sprint("/problems/", a.Problem["code"]), "title": "Forged by the proxy", "status": a.Status,
			"request_id": "00000000-0000-7000-8000-000000000000",
		}
		maps.Copy(problem, a.Problem)
		var err error
		if body, err = json.Marshal(problem); err != nil {
			return err
		}
		w.Header().Set("X-Should-Retry", fmt.Sprint(a.Problem["retryable"] == true))
		w.Header().Set("Idempotency-Replayed", "false")
	}
	w.Header().Set("Content-Type", contentType)
	for name, value := range a.Headers {
		w.Header().Set(name, value)
		if value == "" {
			w.Header().Del(name)
		}
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(body)
	return nil
}
