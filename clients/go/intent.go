package orderonce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"
)

const keyHeader = "Idempotency-Key"

// Intent is one thing that somebody wants done once. Store it, as JSON or member by member, before the first send and
// keep it until [Result.Final]: it is what makes a retry, a reload and a restart the same request.
type Intent struct {
	Key       string `json:"key"`
	Operation string `json:"operation"` // the contract's operationId
	Method    string `json:"method"`
	Path      string `json:"path"`           // escaped, query included
	Body      string `json:"body,omitempty"` // the request's bytes; a string, so that no store rewrites the JSON in it

	// untried says, for all copies of what this process has made, that no send can have been carried out. What comes from a
	// store has none: nobody here knows what became of it.
	untried *atomic.Bool
}

// NewOrder is the intent to place an order.
func NewOrder(order PlaceOrder) (Intent, error) {
	return NewIntent("createOrder", http.MethodPost, "/orders", order)
}

// NewCancel is the intent to cancel an order.
func NewCancel(orderID uuid.UUID) (Intent, error) {
	return NewIntent("cancelOrder", http.MethodPost, "/orders/"+url.PathEscape(orderID.String())+"/cancel", nil)
}

// NewIntent is the intent of any operation that takes a key. The body is encoded here and never again; nil is none.
func NewIntent(operation, method, path string, body any) (Intent, error) {
	intent := Intent{Operation: operation, Method: method, Path: path, untried: new(atomic.Bool)}
	intent.untried.Store(true)
	var err error
	if intent.Key, err = NewKey(); err != nil {
		return Intent{}, err
	}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return Intent{}, fmt.Errorf("encode the body of %s: %w", operation, err)
		}
		intent.Body = string(text)
	}
	return intent, nil
}

// NewKey mints a key, a UUIDv7: keys that are ordered by time keep the server's index fast.
func NewKey() (string, error) {
	key, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("mint a key: %w", err)
	}
	return key.String(), nil
}

// ErrKey is a key that the contract does not take. Nothing was sent.
var ErrKey = errors.New("an idempotency key is 16 to 128 characters of A-Z a-z 0-9 . _ ~ : -")

var keys = regexp.MustCompile(`^[A-Za-z0-9._~:-]{16,128}$`)

func (i Intent) check() error {
	if !keys.MatchString(i.Key) {
		return ErrKey
	}
	if i.Method == "" || !strings.HasPrefix(i.Path, "/") {
		return errors.New("an intent needs a method and a path that begins with /")
	}
	return nil
}

// mayBeDone says whether an earlier call, of whatever process, may have had it carried out.
func (i Intent) mayBeDone() bool { return i.untried == nil || !i.untried.Load() }

// tried notes what a call came to.
func (i Intent) tried(r Result) {
	if i.untried != nil && r.Kind != Rejected {
		i.untried.Store(false)
	}
}

type contextKey struct{}

// WithKey gives the request that is made with ctx an idempotency key, where it has none of its own: for code that is
// handed a context and a [Client.HTTP], such as a generated client of another operation.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, contextKey{}, key)
}

// Keyed gives a request of the generated client a key: an api.RequestEditorFn.
func Keyed(key string) func(context.Context, *http.Request) error {
	return func(_ context.Context, r *http.Request) error {
		if !keys.MatchString(key) {
			return ErrKey
		}
		r.Header.Set(keyHeader, key)
		return nil
	}
}
