// Package orderonce places orders, exactly once per intent, over a network that loses, cuts and repeats.
//
// An [Intent] is one thing that somebody wants done once: its key and its bytes. Make it when the person decides, store
// it before the first send, and give it to [Client.Do] as often as it takes: the [Result] says created, replayed,
// accepted, rejected or unknown. Unknown is not failed: the same intent, sent again, finds what became of it or runs.
// An order that is built anew for each send, or a key that is minted anew, is another order.
//
// The package knows the HTTP contract and nothing behind it. Package api below it is generated from the contract and has
// every operation; [Client.API] is that client on the same transport.
package orderonce

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"orderonce/clients/go/api"
)

// What the contract calls them.
type (
	Metadata   = api.Metadata
	Order      = api.Order
	OrderItem  = api.OrderItem
	PlaceOrder = api.PlaceOrder
	Problem    = api.Problem
	Task       = api.Task
)

// Client talks to one server with one credential. It is safe for many goroutines.
type Client struct {
	base      string
	transport *Transport
	api       *api.ClientWithResponses
}

// Option changes a client before it is used.
type Option func(*Client)

// WithPolicy sets how long and how often a request is tried.
func WithPolicy(p Policy) Option { return func(c *Client) { c.transport.Policy = p } }

// WithTransport sets what sends each single request, instead of [http.DefaultTransport].
func WithTransport(base http.RoundTripper) Option { return func(c *Client) { c.transport.Base = base } }

// WithCredential sets where the credential comes from, which is asked before each send: a token may have been refreshed
// between two of them. It replaces New's API key.
func WithCredential(credential func(context.Context) (string, error)) Option {
	return func(c *Client) { c.transport.Credential = credential }
}

// New makes a client of the server at baseURL. The key is an API key or a token.
func New(baseURL, key string, options ...Option) (*Client, error) {
	base, err := url.Parse(baseURL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.Join(errors.New("the base URL must be like https://orders.example.org"), err)
	}
	c := &Client{base: strings.TrimRight(base.String(), "/"), transport: &Transport{
		origin:     base.Scheme + "://" + base.Host,
		Credential: func(context.Context) (string, error) { return key, nil },
	}}
	for _, option := range options {
		option(c)
	}
	c.api, err = api.NewClientWithResponses(c.base+"/", api.WithHTTPClient(c.HTTP()))
	if err != nil {
		return nil, fmt.Errorf("make the generated client: %w", err)
	}
	return c, nil
}

// API is the generated client, with every operation of the contract, on this client's transport. An operation that takes
// a key is retried there too; what is missing is the intent that outlives the process, so for what must not happen twice
// use [Client.Do].
func (c *Client) API() *api.ClientWithResponses { return c.api }

// HTTP is a client for requests of one's own to this server. It sends the credential, so it refuses any other.
func (c *Client) HTTP() *http.Client {
	return &http.Client{Transport: c.transport, CheckRedirect: neverFollow}
}

// A redirection is no answer of the contract, and a POST that follows one may come out as a GET of something else.
func neverFollow(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Place sends an order under the key of its intent. It is [Client.Do] for a caller who stores key and order its own way:
// the order has to be the same, member for member, whenever the key is. The key may have been sent before, so a no that
// is about this send alone, such as 401, is Unknown, with its Problem.
func (c *Client) Place(ctx context.Context, key string, order PlaceOrder) (Result, error) {
	intent, err := NewIntent("createOrder", http.MethodPost, "/orders", order)
	if err != nil {
		return Result{}, err
	}
	intent.Key, intent.untried = key, nil
	return c.Do(ctx, intent)
}

// Do sends an intent until its outcome is known or the policy's patience or ctx ends, and says what is known then. An
// error means that this call has sent nothing, since the intent is malformed, there is no credential or ctx was over;
// whatever happens after a send is a Result.
func (c *Client) Do(ctx context.Context, intent Intent) (Result, error) {
	if err := intent.check(); err != nil {
		return Result{}, err
	}
	r, err := http.NewRequestWithContext(ctx, intent.Method, c.base+intent.Path, strings.NewReader(intent.Body))
	if err != nil {
		return Result{}, err
	}
	r.Header.Set(keyHeader, intent.Key)
	if intent.Body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	e, err := c.transport.exchange(r)
	if err != nil {
		return Result{}, err
	}
	e.open = e.open || intent.mayBeDone()
	result := e.result(intent)
	intent.tried(result)
	return result, nil
}
