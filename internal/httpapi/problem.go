package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"orderonce/internal/fault"
)

// problemType is what one kind of fault is to a client.
type problemType struct {
	status    int
	title     string
	retryable bool   // the same request can succeed later
	keyAction string // what to do with the idempotency key
}

const (
	keepKey = "keep"
	newKey  = "new"
	noKey   = "none"
)

// problemTypes is the one table from faults to problems. A test walks every fault and compares it with openapi.yaml.
var problemTypes = map[fault.Kind]problemType{
	fault.InvalidRequest:         {400, "The request cannot be read", false, keepKey},
	fault.IdempotencyKeyMissing:  {400, "The idempotency key is missing", false, newKey},
	fault.IdempotencyKeyInvalid:  {400, "The idempotency key is malformed", false, newKey},
	fault.Unauthenticated:        {401, "The credential gives no access", false, keepKey},
	fault.Forbidden:              {403, "The credential does not allow this", false, keepKey},
	fault.ReplayForbidden:        {403, "The credential does not allow this replay", false, keepKey},
	fault.NotFound:               {404, "There is no such thing", false, keepKey},
	fault.TaskExpired:            {410, "The task's results have expired", false, keepKey},
	fault.MethodNotAllowed:       {405, "The method is not allowed here", false, keepKey},
	fault.RequestTimeout:         {408, "The body did not arrive in time", true, keepKey},
	fault.KeyReused:              {409, "The idempotency key was used for another request", false, keepKey},
	fault.InProgress:             {409, "The first request with this key is still running", true, keepKey},
	fault.CheckoutInProgress:     {409, "The checkout is being ordered right now", true, keepKey},
	fault.CheckoutAlreadyOrdered: {409, "The checkout already has an order", false, newKey},
	fault.ClientOrderExists:      {409, "The client order id names another order", false, newKey},
	fault.OrderNotCancellable:    {409, "The order cannot be cancelled any more", false, newKey},
	fault.NameTaken:              {409, "The name is taken", false, newKey},
	fault.NotActive:              {409, "What the request needs is not active", false, newKey},
	fault.TaskNotRetryable:       {409, "The task is not to be retried", false, newKey},
	fault.InventoryRefused:       {409, "The stock could not be reserved", false, newKey},
	fault.LimitReached:           {409, "There may be no more of these", false, newKey},
	fault.EffectNotMovable:       {409, "The effect cannot be moved in this way", false, newKey},
	fault.BodyTooLarge:           {413, "The body is too large", false, keepKey},
	fault.UnsupportedMediaType:   {415, "The body's media type is not supported", false, keepKey},
	fault.ValidationFailed:       {422, "The request breaks a rule of the contract", false, keepKey},
	fault.CouponUnknown:          {422, "There is no such coupon", false, newKey},
	fault.CouponNotApplicable:    {422, "The coupon does not apply", false, newKey},
	fault.CouponExpired:          {422, "The coupon has expired", false, newKey},
	fault.CouponExhausted:        {422, "The coupon is used up", false, newKey},
	fault.RateLimited:            {429, "The tenant asks too often", true, keepKey},
	fault.Internal:               {500, "The service failed", true, keepKey},
	fault.RecordIncomplete:       {500, "The stored outcome is incomplete", false, keepKey},
	fault.Busy:                   {503, "The service is busy", true, keepKey},
	fault.Unavailable:            {503, "The service is not available", true, keepKey},
	fault.OutcomeUnknown:         {503, "The outcome is not known yet", true, keepKey},
}

// problem is the body of every error, RFC 9457. Nothing else of an error leaves the service.
type problem struct {
	Type         string       `json:"type"`
	Title        string       `json:"title"`
	Status       int          `json:"status"`
	Detail       string       `json:"detail,omitempty"`
	Code         string       `json:"code"`
	Retryable    bool         `json:"retryable"`
	KeyAction    string       `json:"key_action"`
	RetryAfterMS int64        `json:"retry_after_ms,omitempty"`
	Differing    *[]string    `json:"differing,omitempty"`
	Errors       []fieldError `json:"errors,omitempty"`
	RequestID    string       `json:"request_id"`
	TraceID      string       `json:"trace_id,omitempty"`
}

type fieldError struct {
	Pointer string `json:"pointer"`
	Reason  string `json:"reason"`
}

// renderProblem is an error as status, headers and body, fit to be sent or stored.
func renderProblem(c *call, err error) (status int, header map[string]string, body []byte) {
	f, isFault := asFault(err)
	kind := fault.Internal
	if isFault {
		kind = f.Kind
	} else {
		f = fault.New(kind, "")
	}
	t := problemTypes[kind]
	p := problem{
		Type: "/problems/" + kind.String(), Title: t.title, Status: t.status, Detail: f.Detail, Code: kind.String(),
		Retryable: t.retryable, KeyAction: noKey, RetryAfterMS: f.RetryAfter.Milliseconds(), RequestID: c.requestID,
		TraceID: c.traceID(t.status),
	}
	if c.operation != nil && c.operation.policy != nil {
		p.KeyAction = t.keyAction
	}
	for _, field := range f.Fields {
		p.Errors = append(p.Errors, fieldError(field))
	}
	if kind == fault.KeyReused {
		p.Differing = &f.Differing
	}
	header = map[string]string{"Content-Type": "application/problem+json", "X-Should-Retry": strconv.FormatBool(t.retryable)}
	if f.Holder != "" {
		header["Location"] = orderPath(f.Holder)
	}
	if f.RetryAfter > 0 {
		header["Retry-After"] = strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds())))
	}
	if kind == fault.Unauthenticated {
		header["WWW-Authenticate"] = `Bearer realm="orderonce"`
	}
	var buf bytes.Buffer
	// A struct of strings and numbers: it cannot fail to be encoded.
	_ = json.NewEncoder(&buf).Encode(p)
	return t.status, header, buf.Bytes()
}

// refuse answers with the problem of err. It is the only writer of problems that are not stored.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	c := callOf(r.Context())
	err = s.confirm(r, c, err)
	kind := fault.KindOf(err)
	c.refused(kind)
	status, header, body := renderProblem(c, err)
	if status >= http.StatusInternalServerError {
		level := slog.LevelError
		if status == http.StatusServiceUnavailable {
			level = slog.LevelWarn // the client comes back; what is behind it has alarms of its own
		}
		attrs := []slog.Attr{
			slog.String("request_id", c.requestID), slog.String("operation", operationID(c)),
			slog.String("code", kind.String()), slog.String("error", err.Error()),
		}
		for _, party := range s.parties(c) {
			attrs = append(attrs, slog.String(strings.ReplaceAll(strings.TrimPrefix(string(party.Key), "orderonce."), ".", "_"), party.Value.AsString()))
		}
		s.log.LogAttrs(r.Context(), level, "request failed", attrs...)
	}
	for name, value := range header {
		w.Header().Set(name, value)
	}
	if c.operation != nil && c.operation.policy != nil {
		w.Header().Set("Idempotency-Replayed", "false")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}

func operationID(c *call) string {
	if c.operation == nil {
		return ""
	}
	return c.operation.id
}

// drained is the pause that a client is told while this process ends and another takes over.
const drained = time.Second

func asFault(err error) (*fault.Error, bool) {
	var f *fault.Error
	ok := errors.As(err, &f)
	return f, ok
}
