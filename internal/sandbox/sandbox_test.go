package sandbox_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"orderonce/internal/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a sandbox behind a real listener. Each request has a connection of its own: Go's transport sends one with an
// Idempotency-Key again when a kept connection breaks, and the counts would be its own.
type stage struct {
	t      *testing.T
	url    string
	client *http.Client
}

func setup(t *testing.T, c sandbox.Config) *stage {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	c.Log = slog.New(slog.DiscardHandler)
	services, err := sandbox.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(services)
	t.Cleanup(func() {
		services.Release()
		server.Close()
		if err := services.Close(); err != nil {
			t.Error(err)
		}
	})
	return &stage{t, server.URL, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// reply is what came of a request; status 0 is a connection that was cut.
type reply struct {
	status int
	header http.Header
	body   string
	whole  bool
}

func (s *stage) ask(method, path, body string, header ...string) (r reply) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for pair := range slices.Chunk(header, 2) {
		request.Header.Set(pair[0], pair[1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		return reply{}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(text), err == nil}
}

// authorize asks the payment service once.
func (s *stage) authorize(key string, more ...string) reply {
	s.t.Helper()
	return s.ask(http.MethodPost, "/payment/authorizations", authorization, append([]string{"Idempotency-Key", key}, more...)...)
}

const authorization = `{"order_id":"order-1","tenant_id":"tenant-1","amount_minor":2500,"currency":"EUR"}`

func (s *stage) read(path string, v any) {
	s.t.Helper()
	r := s.ask(http.MethodGet, path, "")
	if err := json.Unmarshal([]byte(r.body), v); r.status != http.StatusOK || err != nil {
		s.t.Fatalf("GET %s: %d, %v: %s", path, r.status, err, r.body)
	}
}

func (s *stage) change(method, path, body string) {
	s.t.Helper()
	if r := s.ask(method, path, body); r.status < 200 || r.status > 299 {
		s.t.Fatalf("%s %s: %d %s", method, path, r.status, r.body)
	}
}

func (s *stage) want(key string, executions, requests int) {
	s.t.Helper()
	var o sandbox.Operation
	s.read("/executions?idempotency_key="+key, &o)
	if o.Executions != executions || o.Requests != requests || o.IdempotencyKey != key {
		s.t.Errorf("key %s: %d executions of %d requests, want %d of %d", key, o.Executions, o.Requests, executions, requests)
	}
}

func newKey() string { return uuid.NewString() }

// What each fault does to the work, and what its caller sees of it. The counts of a service that is not idempotent are
// those of the work.
func TestEveryFault(t *testing.T) {
	t.Parallel()
	s := setup(t, sandbox.Config{
		Hold:     50 * time.Millisecond,
		Services: map[string]sandbox.Settings{"payment": {Queryable: true, Retention: sandbox.Duration(time.Hour)}},
	})
	for kind, want := range map[sandbox.FaultKind]struct {
		executions, requests, status int
		header                       string // that has to be there
		torn                         bool   // an answer that begins and does not end
		outcome                      int    // what a question about it gets
	}{
		sandbox.NoFault:           {1, 1, 201, "", false, 200},
		sandbox.TimeoutBeforeWork: {0, 1, 0, "", false, 404},
		sandbox.TimeoutAfterWork:  {1, 1, 0, "", false, 200},
		sandbox.CutBeforeWork:     {0, 1, 0, "", false, 404},
		sandbox.CutAfterWork:      {1, 1, 0, "", false, 200},
		sandbox.CutMidResponse:    {1, 1, 201, "", true, 200},
		sandbox.TooManyRequests:   {0, 1, 429, "Retry-After", false, 404},
		sandbox.Unavailable:       {0, 1, 503, "Retry-After", false, 404},
		sandbox.Overloaded:        {0, 1, 503, "", false, 404},
		sandbox.ErrorBeforeWork:   {0, 1, 500, "", false, 404},
		sandbox.ErrorAfterWork:    {1, 1, 500, "", false, 200},
		sandbox.Slow:              {1, 1, 201, "", false, 200},
		sandbox.Duplicate:         {2, 2, 201, "", false, 200},
		sandbox.Decline:           {0, 1, 402, "", false, 200},
	} {
		for _, way := range []string{"by header", "by rule"} {
			t.Run(fmt.Sprint(kind, " ", way), func(t *testing.T) {
				t.Parallel()
				s := &stage{t, s.url, s.client}
				key := newKey()
				var r reply
				if way == "by header" && kind != sandbox.Slow { // which would be slow by its default
					r = s.authorize(key, "Sandbox-Fault", string(kind))
				} else {
					s.change(http.MethodPost, "/faults", fmt.Sprintf(`{"kind":%q,"idempotency_key":%q,"count":1,"delay":"1ms"}`, kind, key))
					r = s.authorize(key)
				}
				if r.status != want.status || r.whole == want.torn && r.status != 0 || want.header != "" && r.header.Get(want.header) == "" {
					t.Errorf("got %+v", r)
				}
				if (r.header.Get("Retry-After") != "") != (want.header != "") {
					t.Errorf("Retry-After is %q", r.header.Get("Retry-After"))
				}
				s.want(key, want.executions, want.requests)
				if got := s.ask(http.MethodGet, "/payment/operations/"+key, ""); got.status != want.outcome {
					t.Errorf("asked about it: %d %s", got.status, got.body)
				}
			})
		}
	}
}

// An idempotent service does the work of a key once, however many ask at once and however often it arrives; one that is
// not does it each time.
func TestParallelDuplicatesAreCounted(t *testing.T) {
	t.Parallel()
	s := setup(t, sandbox.Config{NoSync: true})
	for _, idempotent := range []bool{true, false} {
		s.change(http.MethodPut, "/services/payment", fmt.Sprintf(`{"idempotent":%v}`, idempotent))
		const many = 64
		key, barrier := newKey(), make(chan struct{})
		references := make([]string, many)
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() {
				<-barrier
				r := s.authorize(key)
				var o sandbox.Operation
				if err := json.Unmarshal([]byte(r.body), &o); r.status != http.StatusCreated || err != nil {
					t.Errorf("got %d %s", r.status, r.body)
				}
				references[i] = o.Reference
			})
		}
		close(barrier)
		all.Wait()
		distinct := map[string]bool{}
		for _, reference := range references {
			distinct[reference] = true
		}
		want := many
		if idempotent {
			want = 1
		}
		s.want(key, want, many)
		if len(distinct) != want {
			t.Errorf("idempotent %v: %d different answers", idempotent, len(distinct))
		}
	}
}

// A key is forgotten with its retention, and what was done with it is not.
func TestRetentionEndsWithTheClock(t *testing.T) {
	t.Parallel()
	s := setup(t, sandbox.Config{})
	key := newKey()
	s.authorize(key)
	s.change(http.MethodPost, "/clock", `{"advance":"23h59m"}`)
	s.authorize(key)
	s.want(key, 1, 2)
	s.change(http.MethodPost, "/clock", `{"advance":"2m"}`)
	if r := s.ask(http.MethodGet, "/payment/operations/"+key, ""); r.status != http.StatusOK {
		t.Errorf("asked about a forgotten key: %d", r.status)
	}
	s.authorize(key)
	s.want(key, 2, 3)
}

// A key that stands for one thing is not taken for another.
func TestRememberedKeyWithAnotherBody(t *testing.T) {
	t.Parallel()
	s := setup(t, sandbox.Config{})
	key := newKey()
	s.authorize(key)
	other := strings.Replace(authorization, "2500", "2501", 1)
	r := s.ask(http.MethodPost, "/payment/authorizations", other, "Idempotency-Key", key)
	if r.status != http.StatusBadRequest || !strings.Contains(r.body, "key_reused") {
		t.Errorf("got %d %s", r.status, r.body)
	}
	s.want(key, 1, 2)
}

// The services' own refusals are outcomes like any other: they are remembered, and told.
func TestBusinessRefusals(t *testing.T) {
	t.Parallel()
	s := setup(t, sandbox.Config{Services: map[string]sandbox.Settings{
		"payment": {Idempotent: true, Queryable: true, Retention: sandbox.Duration(time.Hour), DeclineOver: 100},
	}})
	for path, want := range map[string]struct {
		body   string
		status int
	}{
		"/payment/authorizations": {`{"order_id":"o","amount_minor":101}`, 402},
		"/payment/voids":          {`{"order_id":"never-authorized"}`, 402},
		"/inventory/reservations": {`{"order_id":"o","items":[{"sku":"SOLD-OUT-1","quantity":1}]}`, 409},
		"/inventory/releases":     {`{"order_id":"never-reserved"}`, 409},
	} {
		key := newKey()
		for range 2 {
			if r := s.ask(http.MethodPost, path, want.body, "Idempotency-Key", key); r.status != want.status ||
				r.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s: got %d %s", path, r.status, r.body)
			}
		}
		s.want(key, 0, 2)
		service, _, _ := strings.Cut(path[1:], "/")
		var o sandbox.Operation
		if s.read("/"+service+"/operations/"+key, &o); o.Outcome != "declined" {
			t.Errorf("%s: told %+v", path, o)
		}
	}
	if r := s.ask(http.MethodPost, "/payment/authorizations", `{"order_id":"p","amount_minor":100}`, "Idempotency-Key", newKey()); r.status != 201 {
		t.Errorf("got %d %s", r.status, r.body)
	}
	if r := s.ask(http.MethodPost, "/payment/voids", `{"order_id":"p"}`, "Idempotency-Key", newKey()); r.status != 201 {
		t.Errorf("got %d %s", r.status, r.body)
	}
}

// Absent is certain: a request that is still being worked on is not.
func TestWhatIsUnderWayIsNotAbsent(t *testing.T) {
	t.Parallel()
	s := setup(t, sandbox.Config{Hold: time.Minute})
	key, came := newKey(), make(chan struct{})
	go func() {
		defer close(came)
		s.authorize(key, "Sandbox-Fault", "timeout_before_work")
	}()
	told := 0
	for told == 0 || told == http.StatusNotFound { // it has not arrived
		told = s.ask(http.MethodGet, "/payment/operations/"+key, "").status
	}
	if told != http.StatusAccepted {
		t.Errorf("told %d", told)
	}
	s.client.CloseIdleConnections()
	t.Cleanup(func() { <-came })
}

// A service that is not queryable does not say that it knows nothing.
func TestServiceThatDoesNotTell(t *testing.T) {
	t.Parallel()
	s := setup(t, sandbox.Config{})
	s.change(http.MethodPut, "/services/payment", `{"queryable":false}`)
	for _, path := range []string{"/payment/operations/" + newKey(), "/payment/operations"} {
		if r := s.ask(http.MethodGet, path, ""); r.status != 404 || strings.Contains(r.body, `"absent"`) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

// A script is a list of rules with counts: the first that fits and is not used up.
func TestScript(t *testing.T) {
	t.Parallel()
	s := setup(t, sandbox.Config{})
	s.change(http.MethodPost, "/faults", `[
		{"service":"payment","kind":"unavailable","count":1,"retry_after":7},
		{"service":"payment","kind":"none","count":1},
		{"service":"payment","operation":"authorize","kind":"error_after_work","count":2}]`)
	var got []int
	for range 5 {
		got = append(got, s.authorize(newKey()).status)
	}
	if want := []int{503, 201, 500, 500, 201}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var all struct{ Faults []sandbox.Fault }
	s.read("/faults", &all)
	if len(all.Faults) != 3 || all.Faults[2].Happened != 2 {
		t.Errorf("%+v", all.Faults)
	}
	s.change(http.MethodDelete, "/faults", "")
	s.read("/faults", &all)
	if len(all.Faults) != 0 {
		t.Errorf("%+v", all.Faults)
	}
}

// The list of all executions is read whole, page by page, oldest change first.
func TestListIsReadInPages(t *testing.T) {
	t.Parallel()
	s := setup(t, sandbox.Config{NoSync: true})
	var want []string
	for range 7 {
		want = append(want, newKey())
		s.authorize(want[len(want)-1])
	}
	s.ask(http.MethodPost, "/notification/messages", `{"order_id":"order-1","template":"confirmed"}`, "Idempotency-Key", newKey())
	for list, path := range map[string]string{"executions": "/executions?service=payment", "operations": "/payment/operations?since=2020-01-01T00:00:00Z"} {
		var got []string
		next := ""
		for more := true; more; more = next != "" {
			var page map[string]json.RawMessage
			s.read(path+"&limit=3"+next, &page)
			var operations []sandbox.Operation
			if err := json.Unmarshal(page[list], &operations); err != nil || len(operations) > 3 {
				t.Fatalf("%v: %d", err, len(operations))
			}
			for _, o := range operations {
				got = append(got, o.IdempotencyKey)
			}
			if next = strings.Trim(string(page["next"]), `"`); next != "" {
				next = "&page=" + url.QueryEscape(next)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
	var page map[string]json.RawMessage
	if s.read("/payment/operations?since=2200-01-01T00:00:00Z", &page); string(page["operations"]) != "[]" {
		t.Errorf("of the future: %s", page["operations"])
	}
}

// What cannot be understood is refused, and changes nothing.
func TestWhatIsNotUnderstood(t *testing.T) {
	t.Parallel()
	s := setup(t, sandbox.Config{})
	for _, wrong := range []struct{ method, path, body string }{
		{"POST", "/faults", `{"kind":"earthquake"}`},
		{"POST", "/faults", `[{"kind":"slow"},{"kind":"slow","rate":2}]`},
		{"POST", "/faults", `{"kind":"slow","services":"payment"}`},
		{"POST", "/faults", `{"kind":"slow","service":"shipping"}`},
		{"POST", "/faults", `{"kind":"slow","count":-1}`},
		{"POST", "/faults", `nonsense`},
		{"POST", "/clock", `{"advance":"-1h"}`},
		{"POST", "/clock", `{}`},
		{"PUT", "/services/payment", `{"retention":"0s"}`},
		{"PUT", "/services/shipping", `{}`},
		{"GET", "/executions?limit=0", ""},
		{"GET", "/executions?page=x", ""},
		{"GET", "/executions?since=yesterday", ""},
		{"POST", "/payment/authorizations", authorization}, // without a key
	} {
		if r := s.ask(wrong.method, wrong.path, wrong.body); r.status != http.StatusBadRequest {
			t.Errorf("%v: got %d %s", wrong, r.status, r.body)
		}
	}
	for _, body := range []string{"", "{", `{"order_id":""}`, "[]"} {
		if r := s.ask("POST", "/payment/authorizations", body, "Idempotency-Key", newKey()); r.status != http.StatusBadRequest {
			t.Errorf("%q: got %d %s", body, r.status, r.body)
		}
	}
	var all struct {
		Faults   []sandbox.Fault
		Services map[string]sandbox.Settings
	}
	s.read("/", &all)
	if len(all.Faults) != 0 || !maps.Equal(all.Services, map[string]sandbox.Settings{
		"payment": sandbox.Default(), "inventory": sandbox.Default(), "notification": sandbox.Default(),
	}) {
		t.Errorf("%+v", all)
	}
}
