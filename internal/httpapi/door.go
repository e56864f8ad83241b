package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency"
	"orderonce/internal/identity"
	"orderonce/internal/imports"
)

// shed is the pause that a request is told which came while too many others were under way.
const shed = time.Second

const keyHeader = "Idempotency-Key"

// call is what the door found out about a request.
type call struct {
	operation  *operation // nil where no operation matched
	requestID  string
	credential string // as shown; never logged
	principal  identity.Principal
	recalled   bool // the principal is remembered, not confirmed yet
	key        idempotency.Key
	apiVersion string
	wait       *time.Duration // how long the client would wait for a first request; nil for the policy's bound
	parameters *idempotency.Parameters
	input      *imports.Input // of a body of rows; nil where it has another

	// What is told of it.
	span     trace.Span
	status   int    // that was sent
	problem  string // its code, where it was one
	outcome  string // of a keyed request
	kept     bool   // the trace, for its outcome
	resource idempotency.Resource
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// door lets a request in to its handler once it is known who asks, that they may, and that the request is what the
// contract says, in this order. What fails here has consumed nothing.
func (s *Server) door(o *operation, next http.Handler) http.Handler {
	return s.call(o, func(w http.ResponseWriter, r *http.Request, c *call) error {
		if o.scope != "" {
			defer s.inFlight.Add(-1)
			if s.inFlight.Add(1) > s.config.InFlight {
				return &fault.Error{Kind: fault.Busy, Detail: "Too many requests at once.", RetryAfter: shed}
			}
		}
		r, err := s.admit(w, r, c)
		if err != nil {
			return err
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// call gives a request its id and its deadline, and turns an error or a panic into a problem.
func (s *Server) call(o *operation, serve func(http.ResponseWriter, *http.Request, *call) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{operation: o, requestID: newRequestID()}
		w.Header().Set("X-Request-Id", c.requestID)
		ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), callKey{}, c), s.config.Request)
		defer cancel()
		w, ctx, told := s.observe(ctx, w, r, c)
		defer told()
		r = r.WithContext(ctx)
		s.boundBody(w, r)
		defer func() {
			bug := recover()
			if bug == http.ErrAbortHandler { //nolint:errorlint // net/http panics with this very value
				panic(bug) //nolint:forbidigo // net/http asks for it
			}
			if bug != nil {
				s.refuse(w, r, fmt.Errorf("panic: %v\n%s", bug, debug.Stack()))
			}
		}()
		if err := serve(w, r, c); err != nil {
			s.refuse(w, r, err)
		}
	})
}

// boundBody ends the wait for a body that nobody reads: net/http takes in what is left of it before it sends the answer,
// be that a 401, and by itself waits for ever.
func (s *Server) boundBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return // the deadline would end the watch that the server keeps on the connection
	}
	// A connection without deadlines is no connection: there is nothing to hold up.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.config.BodyRead))
}

func newRequestID() string {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.Nil.String() // the system has no random numbers: nothing else will work either
	}
	return id.String()
}

func (s *Server) admit(w http.ResponseWriter, r *http.Request, c *call) (*http.Request, error) {
	o := c.operation
	if o.scope != "" {
		denied := s.identify(r, c)
		// Who is known and may not do this counts too: saying so costs a look at the database.
		if denied == nil || fault.KindOf(denied) == fault.Forbidden {
			if err := s.allowance.take(c.principal.Tenant); err != nil {
				return nil, err
			}
		}
		if denied != nil {
			c.key, _ = idempotency.ParseKey(r.Header.Values(keyHeader)) // malformed or missing, there is nothing to replay
			return nil, s.orReplay(r.Context(), c, denied)
		}
	}
	if o.policy != nil {
		var err error
		if c.key, err = idempotency.ParseKey(r.Header.Values(keyHeader)); err != nil {
			return nil, err
		}
		if lines := r.Header.Values("Prefer"); len(lines) > 1 {
			r.Header.Set("Prefer", strings.Join(lines, ", ")) // one list, says RFC 7240; the generated binder takes one line
		}
		c.preferWait(w, r)
	}
	limit := max(s.config.MaxBody, o.maxBody)
	var document any
	var taken *intake
	var err error
	switch {
	case o.rows != nil:
		taken, err = s.takeIn(w, r, c, limit)
	case o.body != nil:
		document, err = o.readDocument(w, r, limit, s.config.BodyRead)
	}
	if err != nil {
		return nil, err
	}
	c.parameters = &idempotency.Parameters{}
	path, query, err := o.validateParameters(r)
	if err != nil {
		return nil, err
	}
	c.parameters.Path(path)
	switch {
	case o.rows != nil:
		if err := taken.admit(c, query); err != nil {
			return nil, err
		}
		r.Body = admitted{taken.other}
	case o.body != nil:
		c.parameters.Query(query)
		if err := c.admit(document); err != nil {
			return nil, err
		}
		r.Body = admitted{document}
	default:
		c.parameters.Query(query)
	}
	c.apiVersion = r.Header.Get("API-Version")
	if c.apiVersion == "" {
		c.apiVersion = s.spec.apiVersion
	}
	return r, nil
}

// admit judges a decoded body, puts its defaults into it, and takes it for a parameter but for what is of one try only.
func (c *call) admit(document any) error {
	if err := c.operation.validateBody(document); err != nil {
		return err
	}
	if members, ok := document.(map[string]any); ok && len(c.operation.transport) > 0 {
		members = maps.Clone(members)
		for _, name := range c.operation.transport {
			delete(members, name)
		}
		document = members
	}
	return c.parameters.Body(document)
}

// admitted is a body that was decoded and judged. The generated binder takes the document and never reads it again.
type admitted struct{ document any }

// ValidatedValue is what the binder asks for, by a name of its own.
func (a admitted) ValidatedValue() any { return a.document }

var errUnbound = errors.New("the generated types cannot hold what the contract lets in")

func (admitted) Read([]byte) (int, error) { return 0, errUnbound }
func (admitted) Close() error             { return nil }
