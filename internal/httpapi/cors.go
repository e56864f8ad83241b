package httpapi

import (
	"net/http"
	"strings"
)

// What a page of another origin may send and read: the headers of the contract. A test compares them with it.
const (
	corsRequestHeaders  = "Authorization, Content-Type, Idempotency-Key, API-Version, Prefer, traceparent, tracestate"
	corsResponseHeaders = "Location, ETag, Idempotency-Replayed, Idempotency-Key-Expires, Preference-Applied, " +
		"Retry-After, X-Should-Retry, X-Request-Id, WWW-Authenticate, Allow"
)

// corsMaxAge is for how many seconds a browser may remember a preflight's answer, and so for how long an origin that
// is no longer listed may still send: its pages can read nothing any more.
const corsMaxAge = "600"

const (
	allowOrigin   = "Access-Control-Allow-Origin"
	requestMethod = "Access-Control-Request-Method"
)

// share lets the pages of a listed origin read the answer, whatever it will be. There is no credentials mode: who asks
// is said by a header that a page must set itself, never by a cookie that a browser adds.
func (s *Server) share(header http.Header, r *http.Request) {
	if len(s.origins) == 0 {
		return
	}
	header.Add("Vary", "Origin") // on every answer: a cache would give one origin's to another, or to nobody's
	if origin := r.Header.Get("Origin"); s.origins[origin] {
		header.Set(allowOrigin, origin)
		header.Set("Access-Control-Expose-Headers", corsResponseHeaders)
	}
}

// preflight answers a listed origin's browser that asks what a route takes, and reports whether it did. The answer is
// what there is, not a judgement of what is asked for: the browser compares, and can then tell its developer what was
// not allowed.
func (s *Server) preflight(w http.ResponseWriter, r *http.Request, methods []string) bool {
	if !isPreflight(r) || w.Header().Get(allowOrigin) == "" {
		return false
	}
	w.Header().Set("Access-Control-Allow-Methods", strings.Join(methods, ", "))
	w.Header().Set("Access-Control-Allow-Headers", corsRequestHeaders)
	w.Header().Set("Access-Control-Max-Age", corsMaxAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get(requestMethod) != ""
}
