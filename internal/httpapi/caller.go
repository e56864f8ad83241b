package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"orderonce/internal/fault"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

// identify tells who asks and whether they may. A remembered principal will do at first: the handler's own reads or
// unit of work confirm it in their round trip (see checks), and whatever is refused before that is confirmed by confirm.
func (s *Server) identify(r *http.Request, c *call) error {
	values := r.Header.Values("Authorization")
	scheme, credential, _ := strings.Cut(strings.Join(values, ","), " ")
	if len(values) != 1 || !strings.EqualFold(scheme, "bearer") {
		return fault.New(fault.Unauthenticated, "Send one API key or token, as Authorization: Bearer ….")
	}
	c.credential = credential
	c.principal, c.recalled = s.modules.Keyring.Recall(credential)
	if c.recalled && c.principal.Authorise(c.operation.scope) == nil {
		return nil
	}
	return s.authenticate(r.Context(), c)
}

// authenticate asks the database of now.
func (s *Server) authenticate(ctx context.Context, c *call) error {
	var err error
	if c.principal, err = s.modules.Keyring.Authenticate(ctx, c.credential); err != nil {
		return err
	}
	c.recalled = false
	return c.principal.Authorise(c.operation.scope)
}

// authorise is authenticate for a caller who may be asking for a replay.
func (s *Server) authorise(ctx context.Context, c *call) error {
	return s.orReplay(ctx, c, s.authenticate(ctx, c))
}

// checks are the rows without which nothing may be done or told for the caller. Every handler hands them to what it asks
// of the database.
func (c *call) checks() []postgres.Staged {
	return []postgres.Staged{c.principal.Confirm(c.operation.scope)}
}

// read runs queries on the rows that the operation's side lets it see, behind the caller's checks.
func (s *Server) read(ctx context.Context, read func(context.Context, postgres.DBTX) error) error {
	c := callOf(ctx)
	return s.explain(ctx, s.side(c.operation).DB.Read(ctx, c.principal.Tenant, read, c.checks()...))
}

var errRestored = errors.New("the credential was given back meanwhile")

// explain tells why the caller's checks failed, where that is what err says.
func (s *Server) explain(ctx context.Context, err error) error {
	if postgres.RefusedBy(err) != identity.Credential {
		return err
	}
	c := callOf(ctx)
	if err := s.authorise(ctx, c); err != nil {
		return err
	}
	// Given back between the two looks: the next try will see it.
	return fault.Later(fault.Busy, "confirm the credential", errRestored)
}

// confirm keeps the order of checks for a caller who was only remembered: whoever gives no access any more is told
// so, not what else was wrong with the request. A service in trouble answers with its trouble, and a tenant past its
// rate with that: a limit that let each request look at the database would protect nothing.
func (s *Server) confirm(r *http.Request, c *call, err error) error {
	kind := fault.KindOf(err)
	if !c.recalled || kind == fault.RateLimited || problemTypes[kind].status >= http.StatusInternalServerError {
		return err
	}
	if denied := s.authorise(r.Context(), c); denied != nil {
		return denied
	}
	return err
}

// orReplay tells a caller whose rights were reduced, or whose credential was ended, since the first request with this
// key that it is the replay that is refused.
func (s *Server) orReplay(ctx context.Context, c *call, err error) error {
	principal := c.principal
	var ended *identity.Ended
	if errors.As(err, &ended) {
		principal = ended.Principal
	} else if fault.KindOf(err) != fault.Forbidden {
		return err
	}
	if c.operation.policy == nil || c.key == "" {
		return err
	}
	scope := c.operation.policy.Scope(principal.Tenant, principal.ID, c.operation.id, c.key)
	state, lookErr := s.side(c.operation).Keys.Look(ctx, scope)
	if lookErr != nil {
		return lookErr
	}
	if state.Completed {
		return fault.New(fault.ReplayForbidden, "The credential no longer allows what this key's first request did.")
	}
	return err
}
