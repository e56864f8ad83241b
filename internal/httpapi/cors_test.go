package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

const shop = "https://shop.example"

func setupCORS(t *testing.T) *world {
	t.Helper()
	config := defaultConfig()
	config.Origins = []string{shop, "http://localhost:3000"}
	return setupWith(t, config)
}

// ask of a browser on behalf of a page, before the page's own request.
func (w *world) preflight(path, origin, method string, headers ...string) answer {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodOptions, w.base+path, nil)
	w.must(err)
	r.Header.Set("Origin", origin)
	r.Header.Set(requestMethod, method)
	if len(headers) > 0 {
		slices.Sort(headers)
		r.Header.Set("Access-Control-Request-Headers", strings.ToLower(strings.Join(headers, ",")))
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	w.must(err)
	w.must(response.Body.Close())
	w.must(unprotected(response.Header))
	return answer{status: response.StatusCode, header: response.Header}
}

// listed says whether a header that is a list names it.
func listed(header http.Header, name, want string) bool {
	return slices.ContainsFunc(strings.Split(header.Get(name), ","), func(one string) bool {
		return strings.EqualFold(strings.TrimSpace(one), want)
	})
}

// sends is what a browser makes of a preflight's answer (Fetch, CORS-preflight fetch, 7): nil where the page's request
// may follow.
func sends(a answer, origin, method string, headers ...string) error {
	if a.status < 200 || a.status > 299 || a.header.Get(allowOrigin) != origin {
		return fmt.Errorf("the origin is refused: %d, for %q", a.status, a.header.Get(allowOrigin))
	}
	if !listed(a.header, "Access-Control-Allow-Methods", method) && !slices.Contains([]string{"GET", "HEAD", "POST"}, method) {
		return fmt.Errorf("the method is refused: %q", a.header.Get("Access-Control-Allow-Methods"))
	}
	for _, name := range headers {
		if !listed(a.header, "Access-Control-Allow-Headers", name) {
			return fmt.Errorf("%s is refused: %q", name, a.header.Get("Access-Control-Allow-Headers"))
		}
	}
	return nil
}

// A page of a listed origin may send to every route what the contract says it takes, and no more.
func TestPreflightAllowsWhatTheContractTakes(t *testing.T) {
	t.Parallel()
	w := setupCORS(t)
	for o, address := range w.addresses() {
		methods := slices.Collect(maps.Keys(o.route.PathItem.Operations()))
		headers := []string{"Authorization", "Content-Type"}
		for _, p := range o.route.Operation.Parameters {
			if p.Value.In == openapi3.ParameterInHeader {
				headers = append(headers, p.Value.Name)
			}
		}
		for _, origin := range w.server.config.Origins {
			a := w.preflight(address, origin, o.route.Method, headers...)
			if err := sends(a, origin, o.route.Method, headers...); err != nil || a.status != http.StatusNoContent {
				t.Errorf("%s from %s: %d, %v", o.id, origin, a.status, err)
			}
			for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "PROPFIND"} {
				a := w.preflight(address, origin, method)
				if listed(a.header, "Access-Control-Allow-Methods", method) != slices.Contains(methods, method) {
					t.Errorf("%s %s: allowed are %s", method, o.id, a.header.Get("Access-Control-Allow-Methods"))
				}
			}
			for _, header := range []string{"Cookie", "X-Forwarded-For", "X-HTTP-Method-Override", "*"} {
				if sends(w.preflight(address, origin, o.route.Method, header), origin, o.route.Method, header) == nil {
					t.Errorf("%s: a page may send %s", o.id, header)
				}
			}
			if got := a.header.Values("Vary"); len(got) != 1 || got[0] != "Origin" || a.header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s: Vary is %q; %v", o.id, got, a.header)
			}
		}
	}
	if a := w.preflight("/nowhere", shop, "GET"); a.status != http.StatusNotFound {
		t.Errorf("the preflight of no route: %d", a.status)
	}
}

// An origin that looks like a listed one is another one.
func TestOtherOriginsAreToldNothing(t *testing.T) {
	t.Parallel()
	w := setupCORS(t)
	for _, origin := range []string{
		"https://shop.example.evil.example", "https://evil-shop.example", "https://a.shop.example", "http://shop.example", "https://shop.example:8443",
		"https://SHOP.example", "https://shop.example/", "https://shop.example.", "null", "*", "http://localhost", "http://localhost:30001", "file://", "x",
	} {
		for what, a := range map[string]answer{
			"preflight": w.preflight("/orders", origin, "POST", "idempotency-key"),
			"request":   w.get("/orders", with("Origin", origin)), "problem": w.get("/nowhere", with("Origin", origin)),
		} {
			for name := range a.header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("the %s of %s is told %s: %s", what, origin, name, a.header.Get(name))
				}
			}
			if a.header.Get("Vary") != "Origin" {
				t.Errorf("the %s of %s: Vary is %q", what, origin, a.header.Get("Vary"))
			}
		}
		refused := w.send(http.MethodOptions, "/orders", nil, with("Origin", origin), with(requestMethod, "POST"))
		wantProblem(t, refused, 405, "method_not_allowed")
		if !strings.Contains(refused.Detail, "Pages of this origin may not ask.") || refused.header.Get("Allow") != "GET, HEAD, POST" {
			t.Errorf("it is not said plainly: %s", refused.body)
		}
	}
}

// A page reads whatever it is answered, first answers, replays and problems alike, and every header of the contract.
func TestListedOriginReadsTheAnswer(t *testing.T) {
	t.Parallel()
	w := setupCORS(t)
	from := with("Origin", shop)
	key := freshKey()
	first := w.place(key, order(), from)
	wantCreated(t, first, "false")
	replay := w.place(key, order(), from)
	wantReplay(t, first, replay)
	reused := w.place(key, order(set("currency", "USD")), from)
	wantProblem(t, reused, 409, "idempotency_key_reused")
	for what, a := range map[string]answer{
		"first": first, "replay": replay, "problem": reused, "stranger's": w.get("/orders", from, as("x")), "health": w.get("/livez", from),
		"no route's": w.get("/nowhere", from), "lost": w.get("//orders", from), "405": w.send("DELETE", "/orders", nil, from),
	} {
		if a.header.Get(allowOrigin) != shop || a.header.Get("Vary") != "Origin" || a.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %v", what, a.header)
		}
		for name := range a.header {
			if _, ours := ourResponseHeaders(w)[name]; ours && !listed(a.header, "Access-Control-Expose-Headers", name) {
				t.Errorf("%s: a page cannot read %s", what, name)
			}
		}
	}
	for name := range ourResponseHeaders(w) {
		if !listed(first.header, "Access-Control-Expose-Headers", name) {
			t.Errorf("a page cannot read %s", name)
		}
	}
	if a := w.get("/orders"); a.header.Get(allowOrigin) != "" || a.header.Get("Vary") != "Origin" {
		t.Errorf("without an origin: %v", a.header)
	}
	w.wantRows(rows{1, 1, 1})
}

// ourResponseHeaders are those that the contract names for any answer, and those that every answer may have. What
// Fetch lets every page read is left out.
func ourResponseHeaders(w *world) map[string]bool {
	names := map[string]bool{"X-Request-Id": true, "Allow": true}
	for _, o := range w.server.spec.operations {
		for _, response := range o.route.Operation.Responses.Map() {
			for name := range response.Value.Headers {
				names[http.CanonicalHeaderKey(name)] = true
			}
		}
	}
	delete(names, "Cache-Control")
	return names
}

// Without the setting there is no CORS: not a header, and OPTIONS is a method like any other that a route lacks.
func TestCORSIsOffByDefault(t *testing.T) {
	t.Parallel()
	w := setup(t)
	from := with("Origin", shop)
	for o, address := range w.addresses() {
		for what, a := range map[string]answer{
			"request":   w.ask(o, address, from),
			"preflight": w.send(http.MethodOptions, address, nil, from, with(requestMethod, o.route.Method)),
			"OPTIONS":   w.send(http.MethodOptions, address, nil),
		} {
			if a.header.Get("Vary") != "" || a.header.Get(allowOrigin) != "" {
				t.Errorf("%s of %s: %v", what, o.id, a.header)
			}
			if what != "request" {
				wantProblem(t, a, 405, "method_not_allowed")
			}
		}
	}
	// Nor is every OPTIONS a preflight where there is CORS.
	w = setupCORS(t)
	wantProblem(t, w.send(http.MethodOptions, "/orders", nil, from), 405, "method_not_allowed")
	wantProblem(t, w.send(http.MethodOptions, "/orders", nil, with(requestMethod, "POST")), 405, "method_not_allowed")
}
