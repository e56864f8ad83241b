package orderonce_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	orderonce "orderonce/clients/go"
	"orderonce/clients/go/api"
)

// open begins a session of a vector for a test of its own.
func open(t *testing.T, name string, options ...orderonce.Option) (session, *orderonce.Client) {
	t.Helper()
	var s session
	post(t, "/sessions/"+name, nil, &s)
	connections := &http.Transport{}
	t.Cleanup(connections.CloseIdleConnections)
	options = append([]orderonce.Option{
		orderonce.WithTransport(connections), orderonce.WithPolicy(orderonce.Policy{Pause: (&pauses{}).note}),
	}, options...)
	client, err := orderonce.New(s.BaseURL, s.Credentials["shop"], options...)
	must(t, err)
	return s, client
}

// seen is what came to the proxy, and ends the session.
func (s session) seen(t *testing.T) (sends int, orders int) {
	t.Helper()
	var verdict struct {
		Sends  []any
		Orders int
	}
	post(t, "/verdicts/"+s.Session, map[string]any{}, &verdict)
	return len(verdict.Sends), verdict.Orders
}

func (s session) order(t *testing.T) (order orderonce.PlaceOrder) {
	t.Helper()
	must(t, json.Unmarshal(s.Vector.Calls[0].Body, &order))
	return order
}

func mint(t *testing.T) string {
	t.Helper()
	key, err := orderonce.NewKey()
	must(t, err)
	return key
}

// The generated client's operations are retried like an intent, with a key or where the method is idempotent by itself.
func TestGeneratedClientIsRetried(t *testing.T) {
	t.Parallel()
	t.Run("with a key", func(t *testing.T) {
		t.Parallel()
		s, client := open(t, "answer-lost")
		r, err := client.API().CreateOrderWithResponse(t.Context(), &api.CreateOrderParams{IdempotencyKey: mint(t)}, s.order(t))
		must(t, err)
		if r.JSON201 == nil || r.HTTPResponse.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s %s", r.Status(), r.Body)
		}
		if sends, orders := s.seen(t); sends != 2 || orders != 1 {
			t.Errorf("%d sends, %d orders", sends, orders)
		}
	})
	t.Run("by its name", func(t *testing.T) {
		t.Parallel()
		s, client := open(t, "answer-cut-amid-the-body")
		r, err := client.API().PutOrderWithResponse(t.Context(), "order-"+s.Session, s.order(t))
		must(t, err)
		if r.JSON200 == nil {
			t.Errorf("the second request finds the order of the first: %s %s", r.Status(), r.Body)
		}
		if sends, orders := s.seen(t); sends != 2 || orders != 1 {
			t.Errorf("%d sends, %d orders", sends, orders)
		}
	})
}

// A request of one's own gets the context's key. Where there is none, nothing makes a second POST harmless.
func TestPlainRequests(t *testing.T) {
	t.Parallel()
	post := func(ctx context.Context, s session, client *orderonce.Client) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.BaseURL+"/orders", strings.NewReader(string(s.Vector.Calls[0].Body)))
		must(t, err)
		r.Header.Set("Content-Type", "application/json")
		return client.HTTP().Do(r)
	}
	t.Run("keyed by the context", func(t *testing.T) {
		t.Parallel()
		s, client := open(t, "refused-twice")
		response, err := post(orderonce.WithKey(t.Context(), mint(t)), s, client)
		must(t, err)
		body, err := io.ReadAll(response.Body)
		if must(t, errors.Join(err, response.Body.Close())); response.StatusCode != http.StatusCreated || len(body) == 0 {
			t.Errorf("%s %s", response.Status, body)
		}
		if sends, orders := s.seen(t); sends != 3 || orders != 1 {
			t.Errorf("%d sends, %d orders", sends, orders)
		}
	})
	t.Run("without a key", func(t *testing.T) {
		t.Parallel()
		s, client := open(t, "refused-twice")
		response, err := post(t.Context(), s, client)
		if err == nil {
			t.Error(response.Status, response.Body.Close())
		}
		var none *orderonce.NoAnswerError
		if !errors.As(err, &none) || none.Sends != 1 || !strings.Contains(err.Error(), "not known") {
			t.Errorf("%v", err)
		}
		if sends, _ := s.seen(t); sends != 1 {
			t.Errorf("%d sends", sends)
		}
	})
	t.Run("with a malformed key", func(t *testing.T) {
		t.Parallel()
		s, client := open(t, "first-send")
		if response, err := post(orderonce.WithKey(t.Context(), "short"), s, client); !errors.Is(err, orderonce.ErrKey) {
			t.Error(err, response.Body.Close())
		}
		if sends, _ := s.seen(t); sends != 0 {
			t.Errorf("%d sends", sends)
		}
	})
}

// Go's own transport repeats a request without a body when a kept connection breaks. It is one send more, and counted.
func TestRepeatsBelowUsAreCounted(t *testing.T) {
	t.Parallel()
	s, client := open(t, "kept-connection-breaks", orderonce.WithPolicy(orderonce.Policy{MaxSends: 1, Pause: (&pauses{}).note}))
	placed, err := client.Place(t.Context(), mint(t), s.order(t))
	must(t, err)
	intent, err := orderonce.NewCancel(placed.Order.Id)
	must(t, err)
	cancelled, err := client.Do(t.Context(), intent)
	must(t, err)
	if cancelled.Kind != orderonce.Created || cancelled.Order.Status != "cancelled" {
		t.Errorf("%+v", cancelled)
	}
	if sends, _ := s.seen(t); placed.Sends != 1 || sends != placed.Sends+cancelled.Sends {
		t.Errorf("the client counts %d and %d, the proxy %d", placed.Sends, cancelled.Sends, sends)
	}
}

// A token that was refreshed counts from the next send on; without a credential nothing is sent.
func TestCredentialIsAskedForBeforeEachSend(t *testing.T) {
	t.Parallel()
	asked := 0
	var s session
	s, client := open(t, "internal-error", orderonce.WithCredential(func(context.Context) (string, error) {
		asked++
		return map[bool]string{true: "stale", false: s.Credentials["shop"]}[asked == 1], nil
	}))
	result, err := client.Place(t.Context(), mint(t), s.order(t))
	if must(t, err); result.Kind != orderonce.Created || asked != 2 || result.Sends != 2 {
		t.Errorf("asked %d times: %+v", asked, result)
	}
	s.seen(t)

	broken := errors.New("the vault is closed")
	s, client = open(t, "first-send", orderonce.WithCredential(func(context.Context) (string, error) { return "", broken }))
	if result, err := client.Place(t.Context(), mint(t), s.order(t)); !errors.Is(err, broken) {
		t.Errorf("%v, %+v", err, result)
	}
	if sends, _ := s.seen(t); sends != 0 {
		t.Errorf("%d sends", sends)
	}
}

// An error says that nothing was sent. After a send there is a result, whatever ends the call.
func TestErrorsMeanThatNothingWasSent(t *testing.T) {
	t.Parallel()
	s, client := open(t, "first-send")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if result, err := client.Place(over, mint(t), s.order(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %+v", err, result)
	}
	for _, key := range []string{"", "short", strings.Repeat("x", 129), "sixteen letters and blanks", "umlaut-ä-umlaut-ä"} {
		if result, err := client.Place(t.Context(), key, s.order(t)); !errors.Is(err, orderonce.ErrKey) {
			t.Errorf("%q: %v, %+v", key, err, result)
		}
	}
	if sends, _ := s.seen(t); sends != 0 {
		t.Errorf("%d sends", sends)
	}

	ctx, cancel := context.WithCancel(t.Context())
	s, client = open(t, "refused-twice", orderonce.WithPolicy(orderonce.Policy{
		Pause: func(ctx context.Context, _ time.Duration) error { cancel(); return ctx.Err() },
	}))
	result, err := client.Place(ctx, mint(t), s.order(t))
	if must(t, err); result.Kind != orderonce.Unknown || result.Final() || result.Sends != 1 || result.Err == nil {
		t.Errorf("%+v", result)
	}
	s.seen(t)
}
