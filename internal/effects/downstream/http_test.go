package downstream_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"orderonce/internal/effects"
	"orderonce/internal/effects/downstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a call may take that is answered at once.
const patience = 30 * time.Second

func reach(url string, capability effects.Capability) effects.Destination {
	return downstream.Payment(downstream.Config{
		URL: url, Authorization: "Bearer marked-secret", Capability: capability, Retention: time.Hour,
		Asked: capability == effects.Idempotent, Timeout: patience, Concurrency: 4,
	})
}

// impatient is reach with a time-out that is met.
func impatient(url string) effects.Destination {
	return downstream.Payment(downstream.Config{
		URL: url, Capability: effects.Idempotent, Retention: time.Hour, Timeout: 100 * time.Millisecond, Concurrency: 4,
	})
}

func effect() effects.Effect {
	return effects.Effect{
		Identity: effects.Identity{Destination: "payment", Operation: "authorize"}, Key: uuid.New(),
		Request: []byte(`{"order_id":"order-1","amount_minor":2500}`),
	}
}

// What each status says of a sending. Whatever does not clearly say what it did is ambiguous.
func TestVerdictOfEveryStatus(t *testing.T) {
	t.Parallel()
	type headers = map[string]string
	retry, problem := headers{"Retry-After": "7"}, headers{"Content-Type": "application/problem+json"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var status int
		_, _ = fmt.Sscanf(r.Header.Get("Traceparent"), "%d", &status)
		for _, header := range strings.Split(r.Header.Get("Traceparent"), ";")[1:] {
			name, value, _ := strings.Cut(header, "=")
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		if status != http.StatusNoContent && status != http.StatusNotModified {
			_, _ = io.WriteString(w, `{"code":"its_code","secret":"marked-body"}`)
		}
	}))
	t.Cleanup(server.Close)
	to := reach(server.URL, effects.Idempotent)
	check := func(status int, with headers, want effects.Verdict, after time.Duration) {
		t.Helper()
		asked := fmt.Sprint(status)
		for name, value := range with {
			asked += ";" + name + "=" + value
		}
		e := effect()
		e.Traceparent = &asked // says what to answer
		got := to.Send(t.Context(), e)
		if got.Verdict != want || got.Status != status || got.RetryAfter != after {
			t.Errorf("%s: %+v, want %s after %s", asked, got, want, after)
		}
		if strings.Contains(got.Detail, "marked") || status != 204 && status != 304 && got.Detail != "its_code" {
			t.Errorf("%s: the detail is %q", asked, got.Detail)
		}
	}
	for status := 200; status < 600; status++ {
		want := effects.Ambiguous
		switch status {
		case 200, 201, 204:
			want = effects.Done
		case 425, 429:
			want = effects.NotExecuted
		case 301, 307, 308:
			want = effects.Impossible
		case 402, 408, 409, 422: // no problem says that it is meant
		default:
			if status >= 400 && status < 500 {
				want = effects.Impossible
			}
		}
		check(status, nil, want, 0)
	}
	for _, status := range []int{402, 409, 422} {
		check(status, problem, effects.Refused, 0)
		check(status, headers{"Content-Type": "application/problem+json", "Retry-After": "7"}, effects.Ambiguous, 7*time.Second)
	}
	for _, status := range []int{429, 503} {
		check(status, retry, effects.NotExecuted, 7*time.Second)
	}
	for _, status := range []int{500, 502, 504} {
		check(status, retry, effects.Ambiguous, 7*time.Second)
	}
	check(503, headers{"Retry-After": "0"}, effects.NotExecuted, 0)
	check(503, headers{"Retry-After": "999999999999"}, effects.NotExecuted, time.Hour)
	check(503, headers{"Retry-After": time.Now().Add(48 * time.Hour).UTC().Format(http.TimeFormat)}, effects.NotExecuted, time.Hour)
	for _, nonsense := range []string{"-5", "soon", "1.5", "99999999999999999999999"} {
		check(503, headers{"Retry-After": nonsense}, effects.Ambiguous, 0)
	}
}

// wire is a service that is nothing but a listener: it counts the requests whose head has come, and does with each
// connection what the test says.
type wire struct {
	net.Listener
	requests, connections atomic.Int64
}

func listen(t *testing.T, serve func(w *wire, c net.Conn)) *wire {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w, ended := &wire{Listener: listener}, make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			w.connections.Add(1)
			go func() {
				defer c.Close()
				serve(w, c)
			}()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	return w
}

func (w *wire) url() string { return "http://" + w.Addr().String() }

// read reads one request whole; false where there is none.
func (w *wire) read(from *bufio.Reader) bool {
	r, err := http.ReadRequest(from)
	if err != nil {
		return false
	}
	w.requests.Add(1)
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

const created = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

// One Send is one request, whatever the transport thinks of it: with Go's own idea of a request with an Idempotency-Key
// the reused connection that is cut makes it two.
func TestCutConnectionIsNoSecondRequest(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(c net.Conn){
		"closed":                  func(net.Conn) {},
		"reset":                   func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) },
		"closed in the head":      func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 201 Cre") },
		"closed before the body":  func(c net.Conn) { _, _ = io.WriteString(c, strings.TrimSuffix(created, "{}")) },
		"closed within the body":  func(c net.Conn) { _, _ = io.WriteString(c, strings.TrimSuffix(created, "}")) },
		"answered with no answer": func(c net.Conn) { _, _ = io.WriteString(c, "nonsense\r\n\r\n") },
	} {
		for _, before := range []int{0, 3} { // answered requests on the same connection
			t.Run(fmt.Sprint(name, " after ", before), func(t *testing.T) {
				t.Parallel()
				w := listen(t, func(w *wire, c net.Conn) {
					from := bufio.NewReader(c)
					for range before {
						if !w.read(from) {
							return
						}
						_, _ = io.WriteString(c, created)
					}
					if w.read(from) {
						cut(c)
					}
				})
				to := reach(w.url(), effects.Idempotent)
				for range before {
					if got := to.Send(t.Context(), effect()); got.Verdict != effects.Done {
						t.Fatalf("got %+v", got)
					}
				}
				got := to.Send(t.Context(), effect())
				if got.Verdict != effects.Ambiguous {
					t.Errorf("got %+v", got)
				}
				if n := w.requests.Load(); n != int64(before)+1 || w.connections.Load() != 1 {
					t.Errorf("%d requests on %d connections for %d sendings", n, w.connections.Load(), before+1)
				}
			})
		}
	}
}

// A service that closes an idle connection just as it is used has read nothing, or something: never is the request sent
// again, and whatever was read was read once.
func TestConnectionClosedWhileIdle(t *testing.T) {
	t.Parallel()
	w := listen(t, func(w *wire, c net.Conn) {
		if w.read(bufio.NewReader(c)) {
			_, _ = io.WriteString(c, created) // and close
		}
	})
	to := reach(w.url(), effects.Idempotent)
	for i := range 200 {
		got, before := to.Send(t.Context(), effect()), w.requests.Load()
		if got.Verdict != effects.Done && got.Verdict != effects.Ambiguous && got.Verdict != effects.NotExecuted {
			t.Errorf("got %+v", got)
		}
		if before > int64(i)+1 {
			t.Fatalf("%d requests for %d sendings", before, i+1)
		}
	}
}

// A service for which an unknown outcome is a person's work gets a connection for each call.
func TestNoneKeepsNoConnection(t *testing.T) {
	t.Parallel()
	w := listen(t, func(w *wire, c net.Conn) {
		for from := bufio.NewReader(c); w.read(from); {
			_, _ = io.WriteString(c, created)
		}
	})
	to := downstream.Payment(downstream.Config{URL: w.url(), Capability: effects.None, Timeout: patience, Concurrency: 1})
	for range 3 {
		if got := to.Send(t.Context(), effect()); got.Verdict != effects.Done {
			t.Errorf("got %+v", got)
		}
	}
	if w.connections.Load() != 3 || to.Query != nil || to.List != nil {
		t.Errorf("%d connections, %+v", w.connections.Load(), to)
	}
}

// What cannot have been heard was not executed.
func TestNothingLeft(t *testing.T) {
	t.Parallel()
	w := listen(t, func(*wire, net.Conn) {})
	_ = w.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	deaf := listen(t, func(_ *wire, c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	for name, try := range map[string]func() effects.Result{
		"nobody listens": func() effects.Result { return reach(w.url(), effects.None).Send(t.Context(), effect()) },
		"no such host": func() effects.Result {
			return reach("http://nowhere.invalid", effects.None).Send(t.Context(), effect())
		},
		"no TLS at the door":  func() effects.Result { return impatient("https://"+deaf.Addr().String()).Send(t.Context(), effect()) },
		"stopped before that": func() effects.Result { return reach(deaf.url(), effects.None).Send(ended, effect()) },
	} {
		if got := try(); got.Verdict != effects.NotExecuted || got.Detail == "" || got.Status != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Once a byte may have left, silence says nothing, whoever loses patience.
func TestSilenceIsAmbiguous(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]string{"no answer": "", "half an answer": strings.TrimSuffix(created, "}")} {
		for _, stopped := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", stopped ", stopped), func(t *testing.T) {
				t.Parallel()
				came := make(chan struct{}, 100)
				w := listen(t, func(w *wire, c net.Conn) {
					if from := bufio.NewReader(c); w.read(from) {
						_, _ = io.WriteString(c, answers)
						came <- struct{}{}
						_, _ = from.ReadByte() // until the caller goes away
					}
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if stopped {
					go func() {
						<-came
						cancel()
					}()
					if got := reach(w.url(), effects.Idempotent).Send(ctx, effect()); got.Verdict != effects.Ambiguous {
						t.Errorf("got %+v", got)
					}
					return
				}
				for len(came) == 0 { // on a busy machine the time is up before there is a connection
					got := impatient(w.url()).Send(ctx, effect())
					if got.Verdict != effects.Ambiguous && got.Verdict != effects.NotExecuted {
						t.Errorf("got %+v", got)
					}
				}
			})
		}
	}
}

// A redirect is an answer. Following it would be a second request, to somebody else.
func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	to := reach(server.URL, effects.Idempotent)
	if got := to.Send(t.Context(), effect()); got.Verdict != effects.Impossible || got.Status != 307 || requests.Load() != 1 {
		t.Errorf("%+v of %d requests", got, requests.Load())
	}
	if got := to.Query(t.Context(), effect()); got.Verdict != effects.Ambiguous || requests.Load() != 2 {
		t.Errorf("asked: %+v of %d requests", got, requests.Load())
	}
}

// An answer without end costs what is looked at of it.
func TestAnswerWithoutEnd(t *testing.T) {
	t.Parallel()
	w := listen(t, func(w *wire, c net.Conn) {
		if w.read(bufio.NewReader(c)) {
			_, err := io.WriteString(c, "HTTP/1.1 201 Created\r\n\r\n")
			for err == nil {
				_, err = io.WriteString(c, strings.Repeat("x", 4096))
			}
		}
	})
	if got := reach(w.url(), effects.Idempotent).Send(t.Context(), effect()); got.Verdict != effects.Done {
		t.Errorf("got %+v", got)
	}
	endless := listen(t, func(w *wire, c net.Conn) {
		if w.read(bufio.NewReader(c)) {
			_, err := io.WriteString(c, "HTTP/1.1 201 Created\r\n")
			for err == nil {
				_, err = io.WriteString(c, "X-More: "+strings.Repeat("x", 4096)+"\r\n")
			}
		}
	})
	if got := reach(endless.url(), effects.Idempotent).Send(t.Context(), effect()); got.Verdict != effects.Ambiguous {
		t.Errorf("got %+v", got)
	}
}

// The request is the effect's bytes under its key, and says who sends it and what began it.
func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	heard := make(chan *http.Request, 1)
	bodies := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		heard <- r
		bodies <- string(body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"reference":"pay_\u0000\u202e\n1 `+strings.Repeat("é", 1000)+`"}`)
	}))
	t.Cleanup(server.Close)
	e := effect()
	e.Traceparent = new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	got := reach(server.URL+"/v1/", effects.Idempotent).Send(t.Context(), e)
	r, body := <-heard, <-bodies
	if r.Method != http.MethodPost || r.URL.Path != "/v1/payment/authorizations" || body != string(e.Request) ||
		r.ContentLength != int64(len(e.Request)) {
		t.Errorf("%s %s, %d bytes: %s", r.Method, r.URL, r.ContentLength, body)
	}
	for name, want := range map[string]string{
		"Idempotency-Key": e.Key.String(), "Content-Type": "application/json", "User-Agent": "OrderOnce",
		"Authorization": "Bearer marked-secret", "Traceparent": *e.Traceparent, "Accept-Encoding": "",
	} {
		if is := r.Header.Get(name); is != want {
			t.Errorf("%s: %q, want %q", name, is, want)
		}
	}
	if got.Verdict != effects.Done || !strings.HasPrefix(got.Detail, "pay_1 éé") || len([]rune(got.Detail)) != 200 {
		t.Errorf("%+v", got)
	}
	e.Operation = "refund"
	if got := reach(server.URL, effects.Idempotent).Send(t.Context(), e); got.Verdict != effects.Impossible {
		t.Errorf("an operation that there is not: %+v", got)
	}
}

func TestConfigSaysAllThatIsWrong(t *testing.T) {
	t.Parallel()
	right := downstream.Config{
		URL: "https://payments.example/v1", Capability: effects.Idempotent, Retention: time.Hour, Timeout: time.Second, Concurrency: 1,
	}
	if err := right.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(c *downstream.Config){
		"no url":                func(c *downstream.Config) { c.URL = "" },
		"another scheme":        func(c *downstream.Config) { c.URL = "ftp://payments.example" },
		"a credential":          func(c *downstream.Config) { c.URL = "https://user:secret@payments.example" },
		"a query":               func(c *downstream.Config) { c.URL += "?x=1" },
		"no capability":         func(c *downstream.Config) { c.Capability = "" },
		"another capability":    func(c *downstream.Config) { c.Capability = "perfect" },
		"no retention":          func(c *downstream.Config) { c.Retention = 0 },
		"asked, but cannot say": func(c *downstream.Config) { c.Capability, c.Asked = effects.None, true },
		"no timeout":            func(c *downstream.Config) { c.Timeout = 0 },
		"no concurrency":        func(c *downstream.Config) { c.Concurrency = 0 },
	} {
		c := right
		change(&c)
		if err := c.Check(); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
