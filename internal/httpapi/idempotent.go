package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/faultpoint"
	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
)

// This file is the only bridge between handlers and the idempotency protocol. A keyed operation's handler calls once
// and has a Visit method on stored below; nothing else of the protocol reaches it.

// reply is what a keyed operation answers: the generated response, by its Visit method, and what it made or changed.
type reply struct {
	visit    func(http.ResponseWriter) error
	resource idempotency.Resource // zero where it made and changed nothing that has an id
	// promise says that the work is still to be done, by the task that is the resource: the key is kept until it ends.
	promise bool
}

// once runs work under the request's idempotency key and answers with the first outcome of that key. Work may run
// several times before one commit, so it must touch nothing outside tx. A rejection among its errors is stored like a
// success; any other error stores nothing.
//
// Where the first body was not kept, rebuild makes the answer of the resource as it is now.
func (s *Server) once(
	ctx context.Context, rebuild func(context.Context, uuid.UUID) (reply, error),
	work func(context.Context, *postgres.Tx) (reply, error),
) (stored, error) {
	c := callOf(ctx)
	policy := *c.operation.policy
	request := idempotency.Request{
		Scope:      policy.Scope(c.principal.Tenant, c.principal.ID, c.operation.id, c.key),
		Policy:     policy,
		APIVersion: c.apiVersion,
		Parameters: c.parameters,
		Wait:       c.wait,
		Before:     c.checks(),
		Authorise:  func(ctx context.Context) error { return s.authorise(ctx, c) },
	}
	outcome, err := s.side(c.operation).Keys.Do(ctx, request, func(ctx context.Context, tx *postgres.Tx) (idempotency.Answer, error) {
		c.problem = "" // of an earlier run of the work
		r, err := work(ctx, tx)
		if kind := fault.KindOf(err); kind.Rejection() {
			c.problem = kind.String()
			status, header, body := renderProblem(c, err)
			return idempotency.Answer{Status: status, Header: businessHeader(header), Body: body, Rejected: true}, nil
		}
		if err != nil {
			return idempotency.Answer{}, err
		}
		return record(r)
	})
	if err == nil && outcome.ByReference {
		err = restore(ctx, &outcome, rebuild)
	}
	if err != nil {
		return stored{}, s.explain(ctx, err)
	}
	c.outcome = outcome.Word()
	if outcome.Resource != nil {
		c.resource = *outcome.Resource
	}
	faultpoint.Hit(faultpoint.BeforeResponse)
	return stored{outcome}, nil
}

// rebuilt makes a keyed operation's answer of its resource as it is now.
func rebuilt[Thing any](
	s *Server, find func(context.Context, postgres.DBTX, uuid.UUID) (Thing, error), answer func(Thing) reply,
) func(context.Context, uuid.UUID) (reply, error) {
	return func(ctx context.Context, id uuid.UUID) (reply, error) {
		var thing Thing
		err := s.read(ctx, func(ctx context.Context, db postgres.DBTX) (err error) {
			thing, err = find(ctx, db, id)
			return err
		})
		return answer(thing), err
	}
}

// restore gives an outcome that was kept by reference its body again. The status stays the first one.
func restore(ctx context.Context, outcome *idempotency.Outcome, rebuild func(context.Context, uuid.UUID) (reply, error)) error {
	r, err := rebuild(ctx, outcome.Resource.ID)
	if err != nil {
		return err
	}
	now, err := record(r)
	outcome.Header, outcome.Body = now.Header, now.Body
	return err
}

// record visits the generated response and keeps what it wrote.
func record(r reply) (idempotency.Answer, error) {
	rec := recorder{header: http.Header{}}
	if err := r.visit(&rec); err != nil {
		return idempotency.Answer{}, fmt.Errorf("encode the answer: %w", err)
	}
	header := map[string]string{}
	for name := range rec.header {
		header[name] = rec.header.Get(name)
	}
	answer := idempotency.Answer{Status: rec.status, Header: businessHeader(header), Body: rec.body.Bytes(), Promise: r.promise}
	if r.resource != (idempotency.Resource{}) {
		answer.Resource = &r.resource
	}
	return answer, nil
}

// businessHeader keeps the headers that a replay repeats. Everything else belongs to one response.
func businessHeader(header map[string]string) map[string]string {
	kept := map[string]string{}
	for _, name := range []string{"Content-Type", "Etag", "Location", "Retry-After"} {
		if value, ok := header[name]; ok {
			kept[name] = value
		}
	}
	return kept
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// stored answers any keyed operation with the outcome of its key.
type stored struct{ outcome idempotency.Outcome }

func (s stored) write(w http.ResponseWriter) error {
	header := w.Header()
	for name, value := range s.outcome.Header {
		header.Set(name, value)
	}
	header.Set("Idempotency-Replayed", strconv.FormatBool(s.outcome.Replayed))
	if !s.outcome.Expires.IsZero() {
		header.Set("Idempotency-Key-Expires", s.outcome.Expires.UTC().Format(http.TimeFormat))
	}
	if s.outcome.Rejected || s.outcome.Status >= http.StatusBadRequest {
		header.Set("X-Should-Retry", "false")
	}
	w.WriteHeader(s.outcome.Status)
	_, err := w.Write(s.outcome.Body)
	return err
}

// One line for each keyed operation: the generated interface of its responses asks for it.

func (s stored) VisitCreateOrderResponse(w http.ResponseWriter) error         { return s.write(w) }
func (s stored) VisitCancelOrderResponse(w http.ResponseWriter) error         { return s.write(w) }
func (s stored) VisitImportOrdersResponse(w http.ResponseWriter) error        { return s.write(w) }
func (s stored) VisitRetryTaskResponse(w http.ResponseWriter) error           { return s.write(w) }
func (s stored) VisitCreateWebhookResponse(w http.ResponseWriter) error       { return s.write(w) }
func (s stored) VisitRotateWebhookSecretResponse(w http.ResponseWriter) error { return s.write(w) }
func (s stored) VisitDisableWebhookResponse(w http.ResponseWriter) error      { return s.write(w) }
func (s stored) VisitEnableWebhookResponse(w http.ResponseWriter) error       { return s.write(w) }
func (s stored) VisitCreateTenantResponse(w http.ResponseWriter) error        { return s.write(w) }
func (s stored) VisitActivateTenantResponse(w http.ResponseWriter) error      { return s.write(w) }
func (s stored) VisitDeactivateTenantResponse(w http.ResponseWriter) error    { return s.write(w) }
func (s stored) VisitCreatePrincipalResponse(w http.ResponseWriter) error     { return s.write(w) }
func (s stored) VisitActivatePrincipalResponse(w http.ResponseWriter) error   { return s.write(w) }
func (s stored) VisitDeactivatePrincipalResponse(w http.ResponseWriter) error { return s.write(w) }
func (s stored) VisitCreateAPIKeyResponse(w http.ResponseWriter) error        { return s.write(w) }
func (s stored) VisitRotateAPIKeyResponse(w http.ResponseWriter) error        { return s.write(w) }
func (s stored) VisitRevokeAPIKeyResponse(w http.ResponseWriter) error        { return s.write(w) }
func (s stored) VisitResolveEffectResponse(w http.ResponseWriter) error       { return s.write(w) }
