// Package httpapi owns the HTTP contract: it lets requests in, hands them to the modules inside a unit of work, and
// writes every answer and every problem. It holds no business rule. A handler that wrote to the database outside
// Server.once, or to anything outside its unit of work, would break the promise that a request happens once.
package httpapi

import (
	"context"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"orderonce"
	"orderonce/internal/effects/webhooks"
	"orderonce/internal/fault"
	"orderonce/internal/httpapi/api"
	"orderonce/internal/httpapi/internal/reference"
	"orderonce/internal/idempotency"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
	"orderonce/internal/telemetry"
)

// Config bounds requests, and says from where they may come.
type Config struct {
	MaxBody  int64         // bytes of a body
	BodyRead time.Duration // the wait for a body
	Request  time.Duration // one request from its head to its answer
	InFlight int64         // requests at once, those for health and documents not counted; then fault.Busy

	TenantRate  float64 // requests per second of one tenant, counted likewise; then fault.RateLimited. 0 for no limit
	TenantBurst int     // requests of one tenant at once, after a pause; 0 for as many as in a second

	Webhooks webhooks.Guard // where events may be sent to

	Origins []string // whose pages may ask from a browser, as browsers write them; none for no CORS
}

// Modules are what the server stands on.
type Modules struct {
	Tenants   Side // of the Request role: what callers do with their own tenant's rows
	Operators Side // of the Worker role: what operators do with any tenant's rows
	Keyring   *identity.Keyring
	Telemetry *telemetry.Telemetry
}

// Side is a database, as one role sees it, and the idempotency keys of what is done on it. Both sides keep their keys in
// one table, under the caller's tenant: a key is remembered in the transaction that did its work, and so by its role.
type Side struct {
	DB   *postgres.DB
	Keys *idempotency.Keys
}

// side is where an operation works. Its required scope decides: only one for operators reaches past the caller's tenant.
func (s *Server) side(o *operation) Side {
	if identity.ForOperators(o.scope) {
		return s.modules.Operators
	}
	return s.modules.Tenants
}

// Server answers the API. It is an http.Handler, safe for concurrent use.
type Server struct {
	config   Config
	spec     *specification
	modules  Modules
	log      *slog.Logger
	routes   *http.ServeMux
	lost     http.Handler // answers where there can be no route
	draining atomic.Bool
	inFlight atomic.Int64

	allowance *allowance
	crowd     crowd
	origins   map[string]bool
	reference func() ([]byte, error) // the contract as a page, made when it is first asked for
}

var _ api.StrictServerInterface = (*Server)(nil)

// New checks the contract and makes the server of it.
func New(ctx context.Context, config Config, modules Modules, log *slog.Logger) (*Server, error) {
	spec, err := loadSpecification(ctx, orderonce.OpenAPI)
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: config, spec: spec, modules: modules, log: log, routes: http.NewServeMux(),
		allowance: newAllowance(config.TenantRate, config.TenantBurst), origins: map[string]bool{},
	}
	s.reference = sync.OnceValues(func() ([]byte, error) {
		return reference.Page(spec.doc, orderonce.OpenAPI, template.CSS(pageStyle)) //nolint:gosec // our own
	})
	for _, origin := range config.Origins {
		s.origins[origin] = true
	}
	if s.modules.Telemetry == nil {
		s.modules.Telemetry = telemetry.Off()
	}
	_, err = s.modules.Telemetry.Observe("http.server.active_requests", "Requests under way.", s.inFlight.Load)
	if err != nil {
		return nil, fmt.Errorf("measure the requests: %w", err)
	}
	generated := api.HandlerWithOptions(
		api.NewStrictHandlerWithOptions(s, nil, api.StrictHTTPServerOptions{
			RequestErrorHandlerFunc: s.unbound, ResponseErrorHandlerFunc: s.refuse,
		}),
		api.StdHTTPServerOptions{ErrorHandlerFunc: s.unbound},
	)
	for _, o := range spec.operations {
		s.routes.Handle(o.pattern, s.door(o, generated))
	}
	s.routes.Handle("/", s.call(nil, s.unrouted))
	s.lost = s.call(nil, func(http.ResponseWriter, *http.Request, *call) error { return errUnrouted })
	return s, nil
}

// ServeHTTP answers a path that no operation can have, such as //orders, /orders/../orders or CONNECT's none, with a
// problem: http.ServeMux would redirect it, in HTML, or answer in plain text.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	s.share(w.Header(), r)
	if p := r.URL.EscapedPath(); path.Clean("/"+p) != p {
		s.lost.ServeHTTP(w, r)
		return
	}
	s.routes.ServeHTTP(w, r)
}

// Drain turns readiness false, so that no new traffic is sent here. Requests are still answered.
func (s *Server) Drain() { s.draining.Store(true) }

// LongestWait is the longest that any operation lets a duplicate wait: each bound around it must be longer.
func (s *Server) LongestWait() time.Duration {
	var longest time.Duration
	for _, o := range s.spec.operations {
		if o.policy != nil {
			longest = max(longest, o.policy.Wait)
		}
	}
	return longest
}

// unbound answers for the generated binder. The door has validated what it binds, so it only speaks up where the
// contract is laxer than its own types.
func (s *Server) unbound(w http.ResponseWriter, r *http.Request, err error) {
	s.refuse(w, r, fault.Wrap(fault.InvalidRequest, "bind the request", err))
}

var errUnrouted = fault.New(fault.NotFound, "There is no such route.")

// unrouted answers where no operation matches: a preflight, or 405 with Allow, where the path exists, and 404 where it
// does not.
func (s *Server) unrouted(w http.ResponseWriter, r *http.Request, _ *call) error {
	var allowed []string
	for _, method := range []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	} {
		probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := s.routes.Handler(probe); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return errUnrouted
	}
	if s.preflight(w, r, allowed) {
		return nil
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	detail := fmt.Sprintf("This route answers to %s.", strings.Join(allowed, ", "))
	if len(s.origins) > 0 && isPreflight(r) {
		detail += " Pages of this origin may not ask."
	}
	return fault.New(fault.MethodNotAllowed, detail)
}
