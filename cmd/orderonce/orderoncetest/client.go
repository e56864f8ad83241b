package orderoncetest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// Client sends requests to one base URL, each on a connection of its own: a connection that is kept would be retried
// by Go's own transport, which knows the Idempotency-Key header, and a test must see every cut.
type Client struct {
	BaseURL string
	Token   string
	http    http.Client
}

// NewClient is a client without patience of its own: the server's bounds are what a test is about.
func NewClient(baseURL, token string) *Client {
	return &Client{BaseURL: baseURL, Token: token, http: http.Client{
		Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true},
	}}
}

// Answer is a response read whole.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Replayed says whether the answer is marked as one.
func (a Answer) Replayed() bool { return a.Header.Get("Idempotency-Replayed") == "true" }

// Code is a problem's code; empty where the answer is none.
func (a Answer) Code() string {
	var problem struct{ Code string }
	if a.Header.Get("Content-Type") != "application/problem+json" || json.Unmarshal([]byte(a.Body), &problem) != nil {
		return ""
	}
	return problem.Code
}

// OrderID is the id of the order that the answer holds; empty where it holds none.
func (a Answer) OrderID() string {
	var order struct{ ID string }
	if a.Status != http.StatusCreated || json.Unmarshal([]byte(a.Body), &order) != nil {
		return ""
	}
	return order.ID
}

// Do sends one request. An error is an answer that did not arrive whole.
func (c *Client) Do(ctx context.Context, method, path, body string, header http.Header) (Answer, error) {
	return c.do(ctx, method, path, "", body, header)
}

func (c *Client) do(ctx context.Context, method, path, query, body string, header http.Header) (Answer, error) {
	target, err := url.JoinPath(c.BaseURL, path)
	if err != nil {
		return Answer{}, err
	}
	if query != "" {
		target += "?" + query
	}
	request, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	request.Header = header.Clone()
	if request.Header == nil {
		request.Header = http.Header{}
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return Answer{Status: response.StatusCode, Header: response.Header, Body: string(text)}, err
}

// Query asks for a page with parameters, such as "limit=3".
func (c *Client) Query(ctx context.Context, path, query string) (Answer, error) {
	return c.do(ctx, http.MethodGet, path, query, "", nil)
}

// TryPlace sends an order that may get no answer.
func (c *Client) TryPlace(ctx context.Context, key, body string) (Answer, error) {
	return c.Do(ctx, http.MethodPost, "/orders", body, http.Header{
		"Content-Type": {"application/json"}, "Idempotency-Key": {key},
	})
}

// Place sends an order and wants an answer.
func (c *Client) Place(tb testing.TB, key, body string) Answer {
	tb.Helper()
	a, err := c.TryPlace(tb.Context(), key, body)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// Status asks for a page and tells its status, 0 where nobody answers.
func (c *Client) Status(ctx context.Context, path string) int {
	a, err := c.Do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return 0
	}
	return a.Status
}

// NewKey is a key that nobody has used.
func NewKey() string { return uuid.Must(uuid.NewV7()).String() }

// Order is a valid order with the changes that the test wants.
func Order(changes map[string]any) string {
	order := map[string]any{
		"customer_id": "customer-1", "currency": "EUR", "shipping_address_id": "address-1",
		"items": []any{map[string]any{"sku": "MUG", "quantity": 2, "unit_price_minor": 1250}},
	}
	for name, value := range changes {
		order[name] = value
	}
	text, err := json.Marshal(order)
	if err != nil {
		panic(err) //nolint:forbidigo // a test's own fault
	}
	return string(text)
}

// Pause waits for d or the end of ctx, as a client does between two tries.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
