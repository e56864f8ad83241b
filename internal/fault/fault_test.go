package fault_test

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"orderonce/internal/fault"
)

// The names are codes that clients compare with. One that two kinds share, or that is missing, tells them nothing.
func TestEveryKindHasANameOfItsOwn(t *testing.T) {
	t.Parallel()
	kinds := fault.Kinds()
	if len(kinds) < 24 || kinds[0] != fault.Internal || kinds[len(kinds)-1] != fault.OutcomeUnknown {
		t.Fatalf("%d kinds from %v to %v: some are left out", len(kinds), kinds[0], kinds[len(kinds)-1])
	}
	form := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[string]fault.Kind{}
	for _, kind := range kinds {
		name := kind.String()
		if !form.MatchString(name) {
			t.Errorf("kind %d is named %q", uint8(kind), name)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("kinds %d and %d are both named %s", uint8(other), uint8(kind), name)
		}
		seen[name] = kind
	}
	if beyond := (kinds[len(kinds)-1] + 1).String(); form.MatchString(beyond) {
		t.Errorf("there is a kind %q that Kinds leaves out", beyond)
	}
}

// These names are in the contract and in clients that have been shipped.
func TestNamesAreStable(t *testing.T) {
	t.Parallel()
	var names []string
	for _, kind := range fault.Kinds() {
		names = append(names, kind.String())
	}
	slices.Sort(names)
	for _, name := range []string{
		"body_too_large", "busy", "checkout_already_ordered", "checkout_in_progress", "client_order_exists", "coupon_exhausted", "coupon_expired",
		"coupon_not_applicable", "coupon_unknown", "effect_not_movable", "forbidden", "idempotency_in_progress", "idempotency_key_invalid",
		"idempotency_key_missing", "idempotency_key_reused", "idempotency_record_incomplete", "internal",
		"invalid_request", "limit_reached", "method_not_allowed", "name_taken", "not_active", "not_found", "outcome_unknown", "rate_limited", "request_timeout", "unauthenticated",
		"unavailable", "unsupported_media_type", "validation_failed",
	} {
		if _, there := slices.BinarySearch(names, name); !there {
			t.Errorf("%s is no kind any more", name)
		}
	}
}

// A rejection is stored and replayed for as long as the key lives. A kind that is one by mistake would pin what the
// next try could cure; one that is none by mistake would be decided anew by each retry.
func TestRejectionsAreTheFinalBusinessNos(t *testing.T) {
	t.Parallel()
	want := []fault.Kind{
		fault.CheckoutAlreadyOrdered, fault.ClientOrderExists, fault.OrderNotCancellable, fault.NameTaken, fault.NotActive,
		fault.TaskNotRetryable, fault.InventoryRefused, fault.LimitReached, fault.EffectNotMovable, fault.CouponUnknown,
		fault.CouponNotApplicable, fault.CouponExpired, fault.CouponExhausted,
	}
	for kind := range fault.Kind(255) {
		if kind.Rejection() != slices.Contains(want, kind) {
			t.Errorf("%v: rejection is %v", kind, kind.Rejection())
		}
	}
}

func TestKindIsFoundThroughWrapping(t *testing.T) {
	t.Parallel()
	inner := fault.New(fault.CouponExpired, "gone")
	for name, c := range map[string]struct {
		err  error
		want fault.Kind
	}{
		"nil":             {nil, fault.Internal},
		"unknown":         {io.EOF, fault.Internal},
		"itself":          {inner, fault.CouponExpired},
		"wrapped":         {fmt.Errorf("place: %w", fmt.Errorf("coupon: %w", inner)), fault.CouponExpired},
		"joined":          {errors.Join(io.EOF, inner), fault.CouponExpired},
		"given a kind":    {fault.Wrap(fault.Busy, "wait", io.EOF), fault.Busy},
		"outermost":       {fault.Wrap(fault.OutcomeUnknown, "commit", inner), fault.OutcomeUnknown},
		"at one place":    {fault.Invalid("/items/0", "is too long"), fault.ValidationFailed},
		"made by literal": {&fault.Error{Kind: fault.Busy, RetryAfter: time.Second}, fault.Busy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fault.KindOf(c.err); got != c.want {
				t.Errorf("%v is %v, want %v", c.err, got, c.want)
			}
		})
	}
}

// What is wrapped is for logs: it is in the text, and in nothing that is shown to a client.
func TestWrappedErrorIsForLogsOnly(t *testing.T) {
	t.Parallel()
	cause := fmt.Errorf("dial 10.0.0.1: %w", io.EOF)
	err := fault.Wrap(fault.Unavailable, "acquire a connection", cause)
	if text := err.Error(); text != "unavailable: acquire a connection: dial 10.0.0.1: EOF" {
		t.Errorf("the text is %q", text)
	}
	if !errors.Is(err, io.EOF) {
		t.Error("the cause is lost")
	}
	shown := fmt.Sprint(err.Detail, err.Fields, err.Differing, err.Holder)
	if strings.ContainsAny(shown, "EOFdial1") {
		t.Errorf("a client is shown %q", shown)
	}
}

// Later is Wrap with a pause; a client that is told to come back at once comes back in a storm.
func TestLaterRecommendsAPause(t *testing.T) {
	t.Parallel()
	err := fault.Later(fault.Busy, "wait", io.EOF)
	if err.Kind != fault.Busy || err.RetryAfter < time.Second || !errors.Is(err, io.EOF) || err.Detail != "" {
		t.Errorf("%+v", err)
	}
	if err := fault.Wrap(fault.Busy, "wait", io.EOF); err.RetryAfter != 0 {
		t.Errorf("Wrap recommends %v", err.RetryAfter)
	}
}

func TestTextSaysWhatAndWhere(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"busy":                 fault.New(fault.Busy, ""),
		"coupon_expired: gone": fault.New(fault.CouponExpired, "gone"),
		"validation_failed: /currency is unknown": fault.Invalid("/currency", "is unknown"),
		"validation_failed: no: /a is bad: /b is worse": &fault.Error{
			Kind: fault.ValidationFailed, Detail: "no",
			Fields: []fault.Field{{Pointer: "/a", Reason: "is bad"}, {Pointer: "/b", Reason: "is worse"}},
		},
	} {
		if got := err.Error(); got != want {
			t.Errorf("the text is %q, want %q", got, want)
		}
	}
}
