package main

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/telemetry/tracepage"
)

var hrefs = regexp.MustCompile(`<a href="(/debug/traces/[0-9a-f]{32})(#[0-9a-f]{16})?"[^>]*>([^<]*)</a>`)

// page reads a page of dev, and the links to traces on it by their text.
func (d development) page(t *testing.T, path string) (text string, links map[string]string) {
	t.Helper()
	path, query, _ := strings.Cut(path, "?")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.BaseURL+path+"?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer recorded.Body.Close()
	var body strings.Builder
	if err := recorded.Write(&body); err != nil {
		t.Fatal(err)
	}
	if recorded.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, body.String())
	}
	if policy := recorded.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'self';") {
		t.Errorf("%s: the pages' policy is %q", path, policy)
	}
	links = map[string]string{}
	for _, match := range hrefs.FindAllStringSubmatch(body.String(), -1) {
		links[match[3]] = match[1]
	}
	return body.String(), links
}

// From a replay's trace one click leads to the trace of the first request, and from there one leads back.
func TestTracesAreOnePageOfDev(t *testing.T) {
	t.Parallel()
	d := startDev(t, dataDir(t))
	key, order := orderoncetest.NewKey(), orderoncetest.Order(nil)
	d.acme.Place(t, key, order)
	d.acme.Place(t, key, order)
	_, created := d.page(t, "/debug/traces?outcome=created")
	_, replayed := d.page(t, "/debug/traces?outcome=replayed")
	text, links := d.page(t, replayed["POST /orders"])
	if got := links["POST /orders, created"]; got != created["POST /orders"] || got == "" {
		t.Fatalf("the replay's page leads to %v, not to %v:\n%s", links, created, text)
	}
	text, links = d.page(t, created["POST /orders"])
	if links["POST /orders, replayed"] != replayed["POST /orders"] {
		t.Errorf("the first request's page leads to %v, not to %v", links, replayed)
	}
	for _, word := range []string{"ClaimKey", "COMMIT", "orderonce.idempotency.acquire", "<svg"} {
		if !strings.Contains(text, word) {
			t.Errorf("%s is not on the page:\n%s", word, text)
		}
	}
	if strings.Contains(text, key) || strings.Contains(text, "<script") || strings.Contains(text, "style=") {
		t.Errorf("the page shows the key, or needs what its policy forbids:\n%s", text)
	}
	if got := d.acme.Status(t.Context(), "/debug/traces/0123456789abcdef0123456789abcdef"); got != http.StatusNotFound {
		t.Errorf("an unknown trace: %d", got)
	}
}

// From the trace of a payment's call, one that began long after its request was answered, one click leads to that request,
// and from there one leads to all that came of it.
func TestWhatComesOfARequestLeadsBackToIt(t *testing.T) {
	t.Parallel()
	d := startDev(t, dataDir(t))
	d.acme.Place(t, orderoncetest.NewKey(), orderoncetest.Order(nil))
	_, created := d.page(t, "/debug/traces?outcome=created")
	var payment string
	orderoncetest.Poll(t, "the payment's trace", func() bool {
		_, links := d.page(t, "/debug/traces")
		payment = links["authorize payment"]
		return payment != ""
	})
	text, links := d.page(t, payment)
	if got := links["POST /orders, created"]; got != created["POST /orders"] {
		t.Errorf("the payment's page leads to %v:\n%s", links, text)
	}
	for _, word := range []string{"orderonce.effect.verdict", "orderonce.attempt", "FinishEffect"} {
		if !strings.Contains(text, word) {
			t.Errorf("%s is not on the payment's page:\n%s", word, text)
		}
	}
	_, links = d.page(t, created["POST /orders"])
	for _, name := range []string{"authorize payment", "dispatch events"} {
		if links[name] == "" {
			t.Errorf("the request's page does not lead to %q, only to %v", name, links)
		}
	}
}

// Whoever is on another machine gets the API's answer.
func TestTracesAreForThisMachine(t *testing.T) {
	t.Parallel()
	handler := withTraces(http.NotFoundHandler(), tracepage.NewStore())
	for address, want := range map[string]int{
		"127.0.0.1:4711": http.StatusOK, "[::1]:4711": http.StatusOK, "10.0.0.7:4711": http.StatusNotFound, "": http.StatusNotFound,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/traces", nil)
		r.RemoteAddr = address
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("from %q: %d", address, w.Code)
		}
	}
}

// A key's life is told with all that its request made, and an unknown key is no error.
func TestShowTellsTheLifeOfAKey(t *testing.T) {
	t.Parallel()
	d := startDev(t, dataDir(t))
	key := orderoncetest.NewKey()
	order := d.acme.Place(t, key, orderoncetest.Order(nil))
	_, created := d.page(t, "/debug/traces?outcome=created")
	show := func(key, tenant string) string {
		t.Helper()
		status, stdout, stderr := run(t, nil, "idempotency", "show", key, "--tenant", tenant, "--database-url", d.DatabaseURL)
		if status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
		return stdout
	}
	var text string
	orderoncetest.Poll(t, "the order's effects", func() bool {
		text = show(key, "acme")
		return strings.Contains(text, "payment authorize")
	})
	for _, part := range []string{
		"createOrder, by shop", "completed, answered 201", order.OrderID(), "orderonce.order.created.v1", "payment authorize, ",
		strings.TrimPrefix(created["POST /orders"], "/debug/traces/"),
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not told:\n%s", part, text)
		}
	}
	for _, text := range []string{show(key, "globex"), show(orderoncetest.NewKey(), "acme")} {
		if !strings.HasPrefix(text, "nothing is remembered of this key") {
			t.Errorf("of a key that is not there: %s", text)
		}
	}
}
