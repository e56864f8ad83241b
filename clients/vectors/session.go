package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Send is one request as it came to the proxy.
type Send struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Key    string `json:"key"`
	Action string `json:"action"` // what was done to it
	body   []byte
}

// session is one run of one vector, with a port of its own.
type session struct {
	id      string
	vector  Vector
	backend backend
	baseURL string
	server  *http.Server // nil where nobody listens

	mu      sync.Mutex
	sends   []Send
	overdue []overdue
	faults  []error // of the proxy itself: the run says nothing then
}

// overdue is a request that the network still carries.
type overdue struct {
	Send
	header http.Header
}

func openSession(ctx context.Context, v Vector, b backend) (*session, error) {
	id := uuid.Must(uuid.NewV7()).String()
	own, err := v.forSession(id, time.Now())
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &session{id: id, vector: own, backend: b, baseURL: "http://" + listener.Addr().String()}
	if v.Nobody {
		return s, listener.Close()
	}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() {
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.fault(err)
		}
	}()
	return s, nil
}

func (s *session) close() {
	if s.server != nil {
		_ = s.server.Close() // nothing is left to be said on its connections
	}
}

// arrived notes a request, and returns what to do to it and what is to be delivered after it. One that only reads, such
// as a look at a task, passes and counts for nothing.
func (s *session) arrived(sent Send) (Action, []overdue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	action := Action{Do: pass}
	if sent.Method == http.MethodGet {
		return action, nil
	}
	if n := len(s.sends); n < len(s.vector.Proxy) {
		action = s.vector.Proxy[n]
	}
	sent.Action = action.Do
	s.sends = append(s.sends, sent)
	due := s.overdue
	s.overdue = nil
	return action, due
}

func (s *session) keepLate(sent Send, header http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overdue = append(s.overdue, overdue{sent, header})
}

func (s *session) fault(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, err)
}
