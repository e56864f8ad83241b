package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// control is what a client's test talks to.
type control struct {
	vectors []Vector
	backend backend

	mu       sync.Mutex
	sessions map[string]*session
}

func newControl(vectors []Vector, b backend) *control {
	b.Keys.Stranger = "oo_not_a_key"
	return &control{vectors: vectors, backend: b, sessions: map[string]*session{}}
}

func (c *control) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /vectors", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, c.vectors) })
	mux.HandleFunc("POST /sessions/{vector}", c.open)
	mux.HandleFunc("POST /verdicts/{session}", c.judge)
	return mux
}

// open begins a session of a vector.
func (c *control) open(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("vector")
	i := slices.IndexFunc(c.vectors, func(v Vector) bool { return v.Name == name })
	if i < 0 {
		say(w, http.StatusNotFound, map[string]string{"error": "there is no vector " + name})
		return
	}
	s, err := openSession(r.Context(), c.vectors[i], c.backend)
	if err != nil {
		say(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	c.mu.Lock()
	c.sessions[s.id] = s
	c.mu.Unlock()
	say(w, http.StatusCreated, map[string]any{
		"session": s.id, "base_url": s.baseURL, "server_url": c.backend.URL, "credentials": c.backend.Keys, "vector": s.vector,
	})
}

// judge ends a session.
func (c *control) judge(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	s := c.sessions[r.PathValue("session")]
	delete(c.sessions, r.PathValue("session"))
	c.mu.Unlock()
	if s == nil {
		say(w, http.StatusNotFound, map[string]string{"error": "there is no such session"})
		return
	}
	defer s.close()
	var o Outcome
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&o); err != nil {
		say(w, http.StatusBadRequest, map[string]string{"error": fmt.Sprint("the outcome: ", err)})
		return
	}
	verdict, err := s.judge(r.Context(), o)
	if err != nil {
		say(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	say(w, http.StatusOK, verdict)
}

func (c *control) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sessions {
		s.close()
	}
}

func say(w http.ResponseWriter, status int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(what) // who asked and went away needs no answer
}
