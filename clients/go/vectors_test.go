package orderonce_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	orderonce "orderonce/clients/go"
)

type call struct {
	Intent        string
	Operation     string
	Body          json.RawMessage
	OrderOf       string `json:"order_of"`
	Credential    string
	Reload        bool
	Wait          bool
	MaxSends      int `json:"max_sends"`
	DeadlineMS    int `json:"deadline_ms"`
	SendTimeoutMS int `json:"send_timeout_ms"`
}

type vector struct {
	Name  string
	Why   string
	Calls []call
}

type session struct {
	Session     string
	BaseURL     string `json:"base_url"`
	Credentials map[string]string
	Vector      vector
}

type outcome struct {
	Kind     string `json:"kind"`
	Code     string `json:"code,omitempty"`
	Replayed bool   `json:"replayed"`
	OrderID  string `json:"order_id,omitempty"`
	Task     string `json:"task,omitempty"`
}

// pauses are those that a client wanted to make. No test sleeps.
type pauses struct {
	mu sync.Mutex
	ms []int64
}

func (p *pauses) note(ctx context.Context, d time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ms = append(p.ms, d.Milliseconds())
	return ctx.Err()
}

// Every situation that clients/vectors knows, against the real server. What must come of each stands there.
func TestVectors(t *testing.T) {
	t.Parallel()
	var all []vector
	get(t, "/vectors", &all)
	if len(all) == 0 {
		t.Fatal("there are no vectors")
	}
	for _, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			var s session
			post(t, "/sessions/"+v.Name, nil, &s)
			p := &pauses{ms: []int64{}}
			results := run(t, s, p)
			var verdict struct {
				Passed   bool
				Failures []string
				Sends    json.RawMessage
			}
			post(t, "/verdicts/"+s.Session, map[string]any{"results": results, "pauses_ms": p.ms}, &verdict)
			if !verdict.Passed {
				t.Errorf("%s\n%q\nresults: %+v\npauses: %v ms\nsends: %s", v.Why, verdict.Failures, results, p.ms, verdict.Sends)
			}
		})
	}
}

// run makes the calls of a session, as a program does that stores each intent before it is sent.
func run(t *testing.T, s session, p *pauses) []outcome {
	t.Helper()
	stored, last := map[string][]byte{}, map[string]orderonce.Result{}
	outcomes := []outcome{}
	connections := &http.Transport{}
	defer connections.CloseIdleConnections()
	for _, c := range s.Vector.Calls {
		credential := s.Credentials["shop"]
		if c.Credential != "" {
			credential = s.Credentials[c.Credential]
		}
		if c.Reload {
			connections.CloseIdleConnections()
		}
		client := clientFor(t, s, c, credential, connections, p)
		result, err := client.Do(t.Context(), intentOf(t, c, stored, last))
		must(t, err)
		if result.Kind == orderonce.Unknown && (result.Final() || result.Problem == nil && result.Err == nil && result.Body == nil) {
			t.Errorf("unknown, and it does not say why or lets the intent go: %+v", result)
		}
		last[c.Intent] = result
		o := outcome{Kind: string(result.Kind), Replayed: result.Replayed}
		if result.Problem != nil {
			o.Code = result.Problem.Code
		}
		if result.Order != nil {
			o.OrderID = result.Order.Id.String()
		}
		if c.Wait && result.Task != nil {
			waiting, err := orderonce.New(s.BaseURL, credential, orderonce.WithTransport(connections))
			must(t, err)
			task, err := waiting.WaitForTask(t.Context(), result.Task.Id)
			must(t, err)
			o.Task = string(task.State)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

func clientFor(
	t *testing.T, s session, c call, credential string, connections http.RoundTripper, p *pauses,
) *orderonce.Client {
	t.Helper()
	client, err := orderonce.New(s.BaseURL, credential, orderonce.WithTransport(connections), orderonce.WithPolicy(orderonce.Policy{
		Deadline: time.Duration(c.DeadlineMS) * time.Millisecond, SendTimeout: time.Duration(c.SendTimeoutMS) * time.Millisecond,
		MaxSends: c.MaxSends, Pause: p.note,
	}))
	must(t, err)
	return client
}

// intentOf is what was stored for the call's intent, or a new one, which is stored first. A body that the vector has
// corrected goes under the same key.
func intentOf(t *testing.T, c call, stored map[string][]byte, last map[string]orderonce.Result) orderonce.Intent {
	t.Helper()
	intent := newIntent(t, c, last)
	if before, known := stored[c.Intent]; known {
		body := intent.Body
		intent = orderonce.Intent{}
		must(t, json.Unmarshal(before, &intent))
		intent.Body = body
	}
	text, err := json.Marshal(intent)
	must(t, err)
	stored[c.Intent] = text
	return intent
}

func newIntent(t *testing.T, c call, last map[string]orderonce.Result) (intent orderonce.Intent) {
	t.Helper()
	var err error
	switch c.Operation {
	case "cancelOrder":
		intent, err = orderonce.NewCancel(last[c.OrderOf].Order.Id)
	case "importOrders":
		intent, err = orderonce.NewIntent("importOrders", http.MethodPost, "/order-imports", c.Body)
	default:
		var order orderonce.PlaceOrder
		must(t, json.Unmarshal(c.Body, &order))
		intent, err = orderonce.NewOrder(order)
	}
	must(t, err)
	return intent
}
