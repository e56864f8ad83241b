package idempotency

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency/internal/idempotencydb"
	"orderonce/internal/postgres"
)

var queries = idempotencydb.New()

// The claim's row decides whether its unit may happen; the result's row completes a claim that had to be written
// before its work was done.
var (
	claimKind  = &postgres.Kind{Name: "idempotency claim", Rank: postgres.RankClaim, Busy: fault.InProgress}
	resultKind = &postgres.Kind{Name: "idempotency result", Rank: postgres.RankResult, Busy: fault.InProgress}
)

// Resource is what an outcome created or changed.
type Resource struct {
	Type string    `json:"type"`
	ID   uuid.UUID `json:"id"`
}

// Answer is what a client is told, in the form that is stored: a replay has the same status, the same header values
// and the same body bytes.
type Answer struct {
	Status   int
	Header   map[string]string // business headers only; what belongs to one response (Date, request id) is not stored
	Body     []byte
	Resource *Resource
	// Rejected says that the answer is a final "no": everything that the work wrote is taken back before it is stored.
	Rejected bool
	// Promise says that the answer only promises an outcome: the record is kept until EndRetention begins its retention.
	Promise bool
}

// Outcome is an answer with what is true of this request alone.
type Outcome struct {
	Answer
	Replayed bool      // the answer is the first request's
	Expires  time.Time // when the key is forgotten; zero while the answer is a promise that was not kept yet
	// ByReference says that the first answer's body was not kept: it is to be made of Resource as that is now.
	ByReference bool
	// Trace is the W3C trace context of the request that made the answer; empty where nobody can look at it.
	Trace string
}

// completion is the part of a record that the work's end brings.
type completion struct {
	answer      Answer
	headers     json.RawMessage
	body        []byte // nil where the record only refers to the resource
	completedAt time.Time
	expiresAt   *time.Time // nil where the answer is a promise
	trace       string
}

// complete decides how an answer is remembered. One that is too large is kept by reference where it has a resource to
// refer to, and whole where it has none: never cut, and never by running the work again.
func complete(answer Answer, policy Policy) (*completion, error) {
	headers, err := json.Marshal(answer.Header)
	if err != nil {
		return nil, fmt.Errorf("encode the headers: %w", err)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	c := &completion{answer: answer, headers: headers, completedAt: now}
	if expires := now.Add(policy.Retention); !answer.Promise {
		c.expiresAt = &expires
	}
	if answer.Resource == nil || !policy.Reference && len(answer.Body) <= policy.MaxResponse {
		c.body = append([]byte{}, answer.Body...) // an empty body is not NULL
	}
	return c, nil
}

// recorded is the outcome as a replay reads it.
func (c *completion) recorded() Outcome {
	outcome := Outcome{Answer: c.answer, Expires: c.expires(), ByReference: c.body == nil, Trace: c.trace}
	outcome.Body = c.body
	return outcome
}

func (c *completion) expires() (at time.Time) {
	if c.expiresAt != nil {
		at = *c.expiresAt
	}
	return at
}

// recordedAs says whether the record is this completion's: times of one microsecond and equal bytes are.
func (c *completion) recordedAs(row idempotencydb.ReadOutcomeRow) bool {
	return row.CompletedAt != nil && row.CompletedAt.Equal(c.completedAt) && bytes.Equal(row.ResponseBody, c.body)
}

func (c *completion) resource() (kind *string, id uuid.NullUUID) {
	if r := c.answer.Resource; r != nil {
		return &r.Type, uuid.NullUUID{UUID: r.ID, Valid: true}
	}
	return nil, uuid.NullUUID{}
}

// claim is the row that makes one transaction the owner of a key.
type claim struct {
	request    *Request
	print      fingerprint
	createdAt  time.Time
	trace      string
	completion *completion // nil while the work is still to come
}

func (c *claim) Write(ctx context.Context, db postgres.DBTX) error {
	scope := c.request.Scope
	params := idempotencydb.ClaimKeyParams{
		TenantID: scope.Tenant, PrincipalID: scope.Principal, Operation: scope.Operation,
		IdempotencyKey: string(scope.Key),
		Fingerprint:    c.print.sum[:], FingerprintVersion: c.print.version,
		FieldDigests: digest(c.request.Parameters), ApiVersion: c.request.APIVersion,
		CreatedAt: c.createdAt,
	}
	if c.trace != "" {
		params.Traceparent = &c.trace
	}
	if done := c.completion; done != nil {
		status := int16(done.answer.Status) //nolint:gosec // an HTTP status
		params.ResponseStatus, params.ResponseHeaders, params.ResponseBody = &status, done.headers, done.body
		params.ResourceType, params.ResourceID = done.resource()
		params.CompletedAt, params.ExpiresAt = &done.completedAt, done.expiresAt
	}
	return queries.ClaimKey(ctx, db, params)
}

func (c *claim) LockOrder() string {
	s := c.request.Scope
	return string(s.Principal[:]) + s.Operation + "\x00" + string(s.Key)
}

func (c *claim) Undo(ctx context.Context, db postgres.DBTX) error {
	scope := c.request.Scope
	return queries.UndoClaim(ctx, db, idempotencydb.UndoClaimParams{
		TenantID: scope.Tenant, PrincipalID: scope.Principal, Operation: scope.Operation, IdempotencyKey: string(scope.Key),
	})
}

// result puts the answer into a claim that the same transaction wrote without one.
type result struct {
	scope      Scope
	completion *completion
}

func (r *result) Write(ctx context.Context, db postgres.DBTX) error {
	done := r.completion
	status := int16(done.answer.Status) //nolint:gosec // an HTTP status
	params := idempotencydb.CompleteKeyParams{
		TenantID: r.scope.Tenant, PrincipalID: r.scope.Principal, Operation: r.scope.Operation,
		IdempotencyKey: string(r.scope.Key),
		ResponseStatus: &status, ResponseHeaders: done.headers, ResponseBody: done.body,
		CompletedAt: &done.completedAt, ExpiresAt: done.expiresAt,
	}
	params.ResourceType, params.ResourceID = done.resource()
	return queries.CompleteKey(ctx, db, params)
}

// outcomeOf is what a complete record remembers.
func outcomeOf(row idempotencydb.ReadOutcomeRow) (Outcome, error) {
	outcome := Outcome{
		Answer:      Answer{Status: int(*row.ResponseStatus), Body: row.ResponseBody},
		ByReference: row.ResponseBody == nil,
	}
	if err := json.Unmarshal(row.ResponseHeaders, &outcome.Header); err != nil {
		return Outcome{}, fmt.Errorf("decode the stored headers: %w", err)
	}
	if row.ResourceType != nil {
		outcome.Resource = &Resource{Type: *row.ResourceType, ID: row.ResourceID.UUID}
	}
	if row.ExpiresAt != nil {
		outcome.Expires = *row.ExpiresAt
	}
	if row.Traceparent != nil {
		outcome.Trace = *row.Traceparent
	}
	return outcome, nil
}
