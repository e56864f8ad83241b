package telemetry

import "go.opentelemetry.io/otel/attribute"

// Attributes of spans and log lines. Those of a tenant, a principal, an order or a key are never labels of a metric: their
// values have no bound.
const (
	RequestID   = attribute.Key("orderonce.request.id")
	Operation   = attribute.Key("orderonce.operation")
	TenantID    = attribute.Key("orderonce.tenant.id")
	PrincipalID = attribute.Key("orderonce.principal.id")
	OrderID     = attribute.Key("orderonce.order.id")
	ProblemCode = attribute.Key("orderonce.problem.code")

	Outcome = attribute.Key("orderonce.idempotency.outcome")
	KeyHash = attribute.Key("orderonce.idempotency.key.hash") // see Telemetry.HashKey
	Role    = attribute.Key("orderonce.idempotency.role")     // how the outcome was come by: leader, follower, memory, record
	Wait    = attribute.Key("orderonce.idempotency.wait.duration")

	Units    = attribute.Key("orderonce.transaction.units") // how many shared the commit
	LockedBy = attribute.Key("orderonce.lock.kind")         // the kind of row that was waited for

	EventID   = attribute.Key("orderonce.event.id")
	EventType = attribute.Key("orderonce.event.type")
	Events    = attribute.Key("orderonce.dispatch.events") // how many were dispatched together

	EffectID    = attribute.Key("orderonce.effect.id")
	EffectState = attribute.Key("orderonce.effect.state")
	Destination = attribute.Key("orderonce.effect.destination")
	Verdict     = attribute.Key("orderonce.effect.verdict") // what a call found out
	Asked       = attribute.Key("orderonce.effect.asked")   // it was a question about an earlier call

	TaskID  = attribute.Key("orderonce.task.id")
	Attempt = attribute.Key("orderonce.attempt")
	Fence   = attribute.Key("orderonce.fence") // the attempt token that a write was checked by

	// Reason says why a trace was kept that the sampler had not chosen; see Keep.
	Reason = attribute.Key("orderonce.sampling.reason")
)

// Names of spans.
const (
	SpanAcquire     = "orderonce.idempotency.acquire"
	SpanTransaction = "orderonce.transaction"
	SpanCommit      = "COMMIT"
)

// Names of span events.
const (
	EventLockWaitTimeout = "lock_wait_timeout"
	EventRetry           = "retry"
	EventFencedWrite     = "fenced_write"
)

// What became of a keyed request. Outcomes are labels of orderonce.idempotency.requests, so there are no others.
const (
	Created    = "created"     // the work was done, now and for the first time
	Rejected   = "rejected"    // a final "no", now and for the first time
	Replayed   = "replayed"    // the first answer again, be it a success or a rejection
	KeyReused  = "key_reused"  // 409: the key names another request
	InProgress = "in_progress" // 409: still waiting for who was first, with this key or for this checkout
	Invalid    = "invalid"     // 4xx: never got as far as its key
	Denied     = "denied"      // 401, 403 or 429: not for this caller, or not now
	Failed     = "failed"      // 5xx
)

// CommitUnknown is the error.type of a unit whose COMMIT got no answer.
const CommitUnknown = "commit_unknown"

// How an outcome was come by.
const (
	RoleLeader   = "leader"   // claimed, or met the claim of another process
	RoleFollower = "follower" // waited for a leader of this process
	RoleMemory   = "memory"   // this process remembered the outcome
	RoleRecord   = "record"   // read before it was claimed
)

// Why a trace is kept that was not sampled. The outcomes key_reused and in_progress are reasons too.
const (
	ReasonError         = "error"
	ReasonFencedWrite   = "fenced_write"
	ReasonUnknownEffect = "effect_unknown"
)
