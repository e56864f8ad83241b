// Package idempotency owns the promise that an operation happens once: the key's syntax, the fingerprint, the
// policies, and the protocol of claim, work, record and replay. It knows neither orders nor HTTP. The primary key of
// its table is the only arbiter; nothing in memory decides who may run. Work that touches anything outside its unit
// of work breaks the promise, for it may run and roll back several times before one commit.
package idempotency

import (
	"context"
	"errors"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
	"orderonce/internal/telemetry"
)

// Keys runs operations under their idempotency keys. Safe for concurrent use.
type Keys struct {
	db       *postgres.DB
	deadline time.Duration
	rules    ruleBook
	flights  flights
	recent   recent
}

// New serves keys from db. deadline bounds one Do from its first claim to its answer, the client's own patience
// notwithstanding. So many of the latest outcomes are remembered in memory; 0 for none.
func New(db *postgres.DB, deadline time.Duration, remembered int) *Keys {
	return &Keys{db: db, deadline: deadline, rules: currentRules, recent: newRecent(remembered)}
}

// Request is one try of a client.
type Request struct {
	Scope      Scope
	Policy     Policy
	APIVersion string
	Parameters *Parameters
	// Wait is how long the caller would wait for a first request, where that is less than the policy's bound; nil for
	// the policy's.
	Wait *time.Duration
	// Before are rows written ahead of the claim, such as the check of the caller's credential. Where its table
	// refuses one, nothing is claimed or replayed and Do returns the *postgres.Refused.
	Before []postgres.Staged
	// Authorise judges the caller by the database of now, before an answer is given that no unit of the caller's own
	// has checked.
	Authorise func(context.Context) error
}

func (r *Request) wait() time.Duration {
	if r.Wait != nil {
		return min(*r.Wait, r.Policy.Wait)
	}
	return r.Policy.Wait
}

// Work does the operation's business on tx and says what to answer.
type Work func(ctx context.Context, tx *postgres.Tx) (Answer, error)

// Do runs work at most once for a scope. A later call with the same parameters gets the first outcome, byte for
// byte; other parameters are fault.KeyReused. A call that meets the first one still running waits up to the policy's
// bound and is then fault.InProgress. Work may run and roll back several times before one commit, so it must touch
// nothing outside tx.
//
// Once the claim is on its way the caller's cancellation no longer counts: the unit is finished and recorded, so
// that the retry replays. An error other than fault.OutcomeUnknown stored nothing.
func (k *Keys) Do(ctx context.Context, request Request, work Work) (outcome Outcome, err error) {
	ctx, span := telemetry.Start(ctx, telemetry.SpanAcquire)
	r := run{
		keys:      k,
		request:   &request,
		print:     k.rules.known[k.rules.writes](request.APIVersion, request.Scope.Operation, request.Parameters),
		work:      work,
		waitUntil: time.Now().Add(request.wait()),
		span:      span,
	}
	defer func() { r.tell(ctx, outcome, err) }()
	if outcome, answered, err := r.replay(ctx); answered {
		return outcome, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return Outcome{}, fault.Later(fault.Busy, "begin", err)
		}
		ahead, err := k.flights.join(&r)
		if err != nil {
			return Outcome{}, err
		}
		if ahead == nil {
			return r.lead(ctx)
		}
		outcome, again, err := r.follow(ctx, ahead)
		k.flights.leave(ahead)
		if !again {
			return outcome, err
		}
	}
}

// lead runs the request for itself and for its followers, to whom it leaves the outcome whatever happens.
func (r *run) lead(ctx context.Context) (Outcome, error) {
	r.role = telemetry.RoleLeader
	outcome, err := Outcome{}, errPanicked
	defer func() { r.keys.flights.land(r.request.Scope, outcome, err) }()
	ctx, cancel := postgres.Detach(ctx, r.keys.deadline)
	defer cancel()
	outcome, err = r.decide(ctx)
	return outcome, err
}

// errPanicked is what followers learn of work that never returned.
var errPanicked = errors.New("the work panicked")

// decide runs the unit until the database has decided, a bounded number of times.
func (r *run) decide(ctx context.Context) (Outcome, error) {
	var err error
	for try := range postgres.MaxTries {
		if try > 0 && postgres.Pause(ctx, try, err) != nil {
			break
		}
		var outcome Outcome
		if outcome, err = r.once(ctx); err == nil {
			return outcome, nil
		}
		if !r.again(err) {
			break
		}
		r.span.AddEvent(telemetry.EventRetry, trace.WithAttributes(semconv.ErrorTypeKey.String(kindOf(err))))
	}
	return Outcome{}, r.final(err)
}

// run is one Do under way.
type run struct {
	keys      *Keys
	request   *Request
	print     fingerprint
	work      Work
	waitUntil time.Time
	open      bool        // a table refused a staged row: work must learn that while its transaction is open
	unknown   *completion // what a COMMIT whose outcome is unknown would have stored

	span   trace.Span
	role   string        // how the outcome was come by
	waited time.Duration // for whoever was first
	late   bool          // the wait ended at its bound
}

// errVanished says that the record which took the key away is gone: purged, or expired and forgotten.
var errVanished = errors.New("the idempotency record vanished")

// errNewerRules says that a record was made by rules that only a newer version of the service knows.
var errNewerRules = errors.New("the fingerprint's rules are not known here")

// once claims the key and works, or answers from the record of whoever was first.
func (r *run) once(ctx context.Context) (Outcome, error) {
	outcome, err := r.own(ctx)
	if by := postgres.RefusedBy(err); by == claimKind {
		return r.recorded(ctx)
	}
	return outcome, err
}

// again says whether another try may end better, and prepares it.
func (r *run) again(err error) bool {
	if by := postgres.RefusedBy(err); by != nil && by.Rank > postgres.RankClaim && !r.open {
		r.open = true
		return true
	}
	return errors.Is(err, errVanished) || errors.Is(err, postgres.ErrTransient) ||
		errors.Is(err, postgres.ErrCommitUnknown)
}

// final is what the client is told when the tries are used up, or one ended for good.
func (r *run) final(err error) error {
	kind := fault.KindOf(err)
	if r.unknown != nil && kind != fault.KeyReused && kind != fault.InProgress {
		return fault.Later(fault.OutcomeUnknown, "decide an unknown commit", err)
	}
	if errors.Is(err, errVanished) {
		return fault.Later(fault.Busy, "claim", err)
	}
	return err
}

// own claims the key, works and records the outcome, in one unit.
func (r *run) own(ctx context.Context) (Outcome, error) {
	began := time.Now()
	c := &claim{
		request: r.request, print: r.print, createdAt: began.UTC().Truncate(time.Microsecond), trace: telemetry.Traceparent(ctx),
	}
	unit := postgres.Unit{
		Tenant:      r.request.Scope.Tenant,
		First:       append(r.request.Before[:len(r.request.Before):len(r.request.Before)], postgres.Staged{Kind: claimKind, Row: c}),
		LockTimeout: r.request.Policy.Wait, FirstTimeout: r.claimTimeout(),
		Open: r.open,
	}
	var done *completion
	var unsent error // the work judged the request before its claim was on its way
	err := r.keys.db.InTx(ctx, unit, func(ctx context.Context, tx *postgres.Tx) error {
		answer, err := r.work(ctx, tx)
		if err != nil {
			if !tx.Opened() && definite(err) {
				unsent = err
			}
			return err
		}
		if answer.Rejected {
			tx.Undo()
		}
		if done, err = complete(answer, r.request.Policy); err != nil {
			return err
		}
		done.trace = c.trace
		if tx.Opened() {
			tx.Stage(resultKind, &result{scope: r.request.Scope, completion: done})
		} else {
			c.completion = done
		}
		return nil
	})
	if errors.Is(err, postgres.ErrCommitUnknown) {
		r.unknown = done
		r.waitUntil = time.Now().Add(r.request.Policy.Wait) // the COMMIT may be under way: its claim is worth a wait
	}
	if unsent != nil {
		return r.recordedBefore(ctx, unsent)
	}
	if err != nil {
		r.lost(ctx, err, time.Since(began))
		return Outcome{}, err
	}
	r.keys.recent.keep(r.request.Scope, r.print, done.recorded())
	return Outcome{Answer: done.answer, Expires: done.expires(), Trace: done.trace}, nil
}

// definite says that the work's fault is a judgement of the request, and not the service's trouble of the moment.
func definite(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Kind != fault.Internal && f.RetryAfter == 0
}

// claimTimeout is what is left of the caller's wait. A hair less than all of it is all of it: the same text for every
// claim that does not wait for the second time.
func (r *run) claimTimeout() time.Duration {
	const hair = 10 * time.Millisecond
	left, all := time.Until(r.waitUntil), r.request.wait()
	if all-left < hair {
		left = all
	}
	return max(left, time.Millisecond)
}
