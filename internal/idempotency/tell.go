package idempotency

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/trace"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
	"orderonce/internal/telemetry"
)

// tell ends the span of a Do and says there and in the metrics what became of it. A conflict is handled and no error of a
// span, but rare enough that its trace is kept.
func (r *run) tell(ctx context.Context, outcome Outcome, err error) {
	defer r.span.End()
	meters := r.keys.db.Telemetry()
	if r.waited > 0 {
		meters.Waited(ctx, r.waited)
	}
	kind := fault.KindOf(err)
	if err != nil && kind == fault.RecordIncomplete {
		meters.Incomplete(ctx)
	}
	if !r.span.IsRecording() {
		return
	}
	r.span.SetAttributes(telemetry.Role.String(r.role), telemetry.Wait.Float64(r.waited.Seconds()))
	word := outcome.Word()
	switch {
	case err == nil:
	case kind == fault.KeyReused:
		word = telemetry.KeyReused
	case kind == fault.InProgress || kind == fault.CheckoutInProgress:
		word = telemetry.InProgress
	default: // whoever answers knows what it is to the client
		word = ""
	}
	if word != "" {
		r.span.SetAttributes(telemetry.Outcome.String(word))
	}
	if err != nil && word != "" {
		telemetry.Keep(r.span, word)
	}
	if link, ok := telemetry.LinkTo(outcome.Trace); ok && outcome.Replayed {
		r.span.AddLink(link)
	}
	lock := claimKind.Name
	if timeout := (*postgres.LockTimeout)(nil); errors.As(err, &timeout) {
		lock, r.late = timeout.Kind.Name, true
	}
	if r.late {
		r.span.AddEvent(telemetry.EventLockWaitTimeout, trace.WithAttributes(telemetry.LockedBy.String(lock)))
		telemetry.Keep(r.span, telemetry.EventLockWaitTimeout)
	}
}

// Word is an outcome in one of telemetry's words.
func (o Outcome) Word() string {
	switch {
	case o.Replayed:
		return telemetry.Replayed
	case o.Rejected:
		return telemetry.Rejected
	}
	return telemetry.Created
}

// lost takes down a unit that did not commit. One that somebody else's claim ended has waited for that claim.
func (r *run) lost(ctx context.Context, err error, took time.Duration) {
	timeout := (*postgres.LockTimeout)(nil)
	taken := postgres.RefusedBy(err) == claimKind
	if taken || errors.As(err, &timeout) {
		r.waited += took
	}
	if !taken {
		r.keys.db.Telemetry().RolledBack(ctx, kindOf(err))
	}
}

// kindOf is an error in one of few words.
func kindOf(err error) string {
	timeout := (*postgres.LockTimeout)(nil)
	switch {
	case errors.Is(err, postgres.ErrCommitUnknown):
		return telemetry.CommitUnknown
	case errors.Is(err, postgres.ErrTransient):
		return "transient"
	case errors.Is(err, errVanished):
		return "record_vanished"
	case errors.As(err, &timeout):
		return "lock_timeout"
	case postgres.RefusedBy(err) != nil:
		return "row_refused"
	}
	return fault.KindOf(err).String()
}
