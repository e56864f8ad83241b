// Package fault owns the words for what can go wrong: one Kind for each thing that a caller can tell apart, and one
// error type that carries it. It knows neither HTTP nor SQL; one table in httpapi turns each Kind into a problem.
// An error that is no *Error is a bug or the unknown, and is answered as Internal.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind names one thing that can go wrong. Every switch over it is exhaustive, and a test walks Kinds.
type Kind uint8

// The kinds. Those from CheckoutAlreadyOrdered to CouponExhausted are final: see Kind.Rejection.
const (
	Internal Kind = iota
	InvalidRequest
	IdempotencyKeyMissing
	IdempotencyKeyInvalid
	Unauthenticated
	Forbidden
	ReplayForbidden
	NotFound
	MethodNotAllowed
	RequestTimeout
	KeyReused
	InProgress
	CheckoutInProgress
	BodyTooLarge
	UnsupportedMediaType
	ValidationFailed
	CheckoutAlreadyOrdered
	ClientOrderExists
	OrderNotCancellable
	NameTaken
	NotActive
	LimitReached
	EffectNotMovable
	CouponUnknown
	CouponNotApplicable
	CouponExpired
	CouponExhausted
	RateLimited
	RecordIncomplete
	Busy
	Unavailable
	OutcomeUnknown
	kinds // the number of kinds; keep it last
)

var names = [kinds]string{
	Internal:               "internal",
	InvalidRequest:         "invalid_request",
	IdempotencyKeyMissing:  "idempotency_key_missing",
	IdempotencyKeyInvalid:  "idempotency_key_invalid",
	Unauthenticated:        "unauthenticated",
	Forbidden:              "forbidden",
	ReplayForbidden:        "replay_forbidden",
	NotFound:               "not_found",
	MethodNotAllowed:       "method_not_allowed",
	RequestTimeout:         "request_timeout",
	KeyReused:              "idempotency_key_reused",
	InProgress:             "idempotency_in_progress",
	CheckoutInProgress:     "checkout_in_progress",
	BodyTooLarge:           "body_too_large",
	UnsupportedMediaType:   "unsupported_media_type",
	ValidationFailed:       "validation_failed",
	CheckoutAlreadyOrdered: "checkout_already_ordered",
	ClientOrderExists:      "client_order_exists",
	OrderNotCancellable:    "order_not_cancellable",
	NameTaken:              "name_taken",
	NotActive:              "not_active",
	LimitReached:           "limit_reached",
	EffectNotMovable:       "effect_not_movable",
	CouponUnknown:          "coupon_unknown",
	CouponNotApplicable:    "coupon_not_applicable",
	CouponExpired:          "coupon_expired",
	CouponExhausted:        "coupon_exhausted",
	RateLimited:            "rate_limited",
	RecordIncomplete:       "idempotency_record_incomplete",
	Busy:                   "busy",
	Unavailable:            "unavailable",
	OutcomeUnknown:         "outcome_unknown",
}

// Kinds lists every kind, for tests and documentation that must leave none out.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// String is the kind's stable snake_case name, the `code` of its problem.
func (k Kind) String() string {
	if k < kinds {
		return names[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Rejection says that the kind is a definite business "no": it is stored under the idempotency key, in the
// transaction that decided it, and replayed like a success. Every other kind stores nothing.
func (k Kind) Rejection() bool {
	switch k {
	case CheckoutAlreadyOrdered, ClientOrderExists, OrderNotCancellable, NameTaken, NotActive, LimitReached,
		EffectNotMovable, CouponUnknown, CouponNotApplicable, CouponExpired, CouponExhausted:
		return true
	case Internal, InvalidRequest, IdempotencyKeyMissing, IdempotencyKeyInvalid, Unauthenticated, Forbidden,
		ReplayForbidden, NotFound, MethodNotAllowed, RequestTimeout, KeyReused, InProgress, CheckoutInProgress, BodyTooLarge,
		UnsupportedMediaType, ValidationFailed, RateLimited, RecordIncomplete, Busy, Unavailable, OutcomeUnknown, kinds:
		return false
	}
	return false
}

// Field is one thing that is wrong with a request: where, as a JSON Pointer into the body or a parameter's name
// ("{orderId}", "?status"), and why. The reason never holds the value.
type Field struct {
	Pointer string
	Reason  string
}

// PointerToken writes a member's name as a JSON Pointer holds it (RFC 6901).
func PointerToken(name string) string { return pointerToken.Replace(name) }

var pointerToken = strings.NewReplacer("~", "~0", "/", "~1")

// Error is the one error type that callers may look into. Its Detail and Fields are shown to the client; the
// wrapped error is for logs only and never leaves the service.
type Error struct {
	Kind   Kind
	Detail string
	Fields []Field
	// Differing lists, for KeyReused, where the request differs from the first: pointers, never values.
	Differing []string
	// Holder is the id of the resource that stands in the way, where the caller may see it.
	Holder string
	// RetryAfter is the pause before another try, where there is one to recommend.
	RetryAfter time.Duration

	cause error
}

// New is a fault that explains itself to the client in detail.
func New(kind Kind, detail string) *Error {
	return &Error{Kind: kind, Detail: detail}
}

// Wrap gives err a kind and says what was being done, for logs. The client sees the kind's words alone.
func Wrap(kind Kind, doing string, err error) *Error {
	return &Error{Kind: kind, cause: fmt.Errorf("%s: %w", doing, err)}
}

// Later is Wrap for what a client may simply try again, after a second: about the time that the locks of a healthy unit
// last, rounded up to the whole seconds of a Retry-After header.
func Later(kind Kind, doing string, err error) *Error {
	f := Wrap(kind, doing, err)
	f.RetryAfter = time.Second
	return f
}

// Invalid is a ValidationFailed at one place of the request.
func Invalid(pointer, reason string) *Error {
	return &Error{Kind: ValidationFailed, Fields: []Field{{Pointer: pointer, Reason: reason}}}
}

func (e *Error) Error() string {
	text := e.Kind.String()
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	for _, f := range e.Fields {
		text += fmt.Sprintf(": %s %s", f.Pointer, f.Reason)
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.cause }

// KindOf is the kind of the first *Error in err's chain, and Internal where there is none.
func KindOf(err error) Kind {
	var f *Error
	if errors.As(err, &f) {
		return f.Kind
	}
	return Internal
}
