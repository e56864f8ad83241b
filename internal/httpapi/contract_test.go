package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orderonce"
	"orderonce/internal/fault"
	"orderonce/internal/httpapi/api"
	"orderonce/internal/httpapi/internal/reference"
)

var update = flag.Bool("update", false, "write the golden files anew")

func listOf(t *testing.T, a answer) (page api.OrderPage) {
	t.Helper()
	if err := json.Unmarshal(a.body, &page); err != nil {
		t.Fatal(err)
	}
	return page
}

// Every fault has one problem, and its bytes are what clients were promised.
func TestProblemsAreGolden(t *testing.T) {
	t.Parallel()
	spec, err := loadSpecification(t.Context(), orderonce.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	keyed := spec.operations[slices.IndexFunc(spec.operations, func(o *operation) bool { return o.policy != nil })]
	for _, kind := range fault.Kinds() {
		f := fault.Wrap(kind, "read from host db-1", errors.New(`ERROR: relation "secret" (SQLSTATE 42P01)`))
		f.Detail = "What happened this time."
		if kind == fault.ValidationFailed || kind == fault.InvalidRequest {
			f.Fields = []fault.Field{{Pointer: "/items/0/quantity", Reason: "number must be at least 1"}}
		}
		if kind == fault.KeyReused {
			f.Differing = []string{"/currency"}
		}
		if problemTypes[kind].retryable {
			f.RetryAfter = 1500 * time.Millisecond
		}
		status, header, body := renderProblem(&call{operation: keyed, requestID: "0198d0a6-4b7c-7d3e-9a51-0f6d2c3b4a59"}, f)
		if bytes.Contains(body, []byte("secret")) || bytes.Contains(body, []byte("db-1")) {
			t.Errorf("%s: internals leave the service: %s", kind, body)
		}
		var parsed any
		if err := json.Unmarshal(body, &parsed); err != nil {
			t.Fatal(err)
		}
		if err := spec.problemSchema(kind).VisitJSON(parsed); err != nil {
			t.Errorf("%s breaks its schema: %v", kind, err)
		}
		if header["Content-Type"] != "application/problem+json" || status != problemTypes[kind].status {
			t.Errorf("%s: %d %v", kind, status, header)
		}
		golden := filepath.Join("testdata", "problems", kind.String()+".json")
		if *update {
			if err := os.WriteFile(golden, body, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(body)); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
	if files, err := os.ReadDir(filepath.Join("testdata", "problems")); err != nil || len(files) != len(fault.Kinds()) {
		t.Errorf("%d golden files for %d kinds, %v", len(files), len(fault.Kinds()), err)
	}
}

// The table of problems covers the faults, and nothing is retried that is final.
func TestProblemTableIsWhole(t *testing.T) {
	t.Parallel()
	for _, kind := range fault.Kinds() {
		p, ok := problemTypes[kind]
		if !ok || p.title == "" {
			t.Errorf("%s has no problem", kind)
		}
		if kind.Rejection() && (p.retryable || p.keyAction != newKey || p.status >= 500) {
			t.Errorf("%s is final, but its problem says %+v", kind, p)
		}
		if p.retryable && p.keyAction != keepKey {
			t.Errorf("%s: a retry with another key would be another order", kind)
		}
	}
	status, _, body := renderProblem(&call{}, errors.New("anything"))
	if status != 500 || !bytes.Contains(body, []byte(`"code":"internal"`)) || bytes.Contains(body, []byte("anything")) {
		t.Errorf("an unknown error: %d %s", status, body)
	}
}

func TestProblemPagesAreTheContractsWords(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, kind := range fault.Kinds() {
		a := w.get("/problems/" + kind.String())
		meaning := w.server.spec.problemSchema(kind).Description
		if a.status != http.StatusOK || meaning == "" || !strings.Contains(string(a.body), string(reference.Prose(meaning))) {
			t.Errorf("%s: %d %s", kind, a.status, a.body)
		}
	}
	wantProblem(t, w.get("/problems/no_such_code"), 404, "not_found")
	if a := w.get("/openapi.yaml"); !bytes.Equal(a.body, orderonce.OpenAPI) {
		t.Error("/openapi.yaml is not the contract")
	}
}

// The examples of the contract are requests that work and answers that are valid.
func TestExamplesOfTheContractWork(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.coupon(coupons["WELCOME10"])
	for name, example := range w.server.spec.doc.Components.Examples {
		value, err := json.Marshal(example.Value.Value)
		w.must(err)
		switch name {
		case "Order":
			w.must(w.server.spec.doc.Components.Schemas["Order"].Value.VisitJSON(example.Value.Value))
			continue
		case "ImportOrders":
			wantAccepted(t, w.importOrders(freshKey(), string(value)))
			continue
		}
		wantCreated(t, w.place(freshKey(), string(value)), "false")
	}
	w.wantRows(rows{2, 3, 2})
}

// A contract whose promises the server could not keep does not start.
func TestSpecificationIsRefused(t *testing.T) {
	t.Parallel()
	replace := func(old, new string) string { return strings.Replace(string(orderonce.OpenAPI), old, new, 1) }
	for name, test := range map[string]struct{ spec, want string }{
		"a changing operation without a policy":    {replace("x-idempotency:", "x-other:"), "neither x-idempotency nor"},
		"a policy with an unknown member":          {replace("        wait: 2s", "        waits: 2s"), "unknown member"},
		"a policy without its wait":                {replace("        wait: 2s\n", ""), "wait is missing"},
		"a private operation without a scope":      {replace("x-required-scope: orders:read", "x-other: a"), "x-required-scope"},
		"a policy without the key's header":        {replace(`        - $ref: "#/components/parameters/IdempotencyKey"`+"\n", ""), "does not require"},
		"an operation without a default problem":   {replace(`        default: {$ref: "#/components/responses/Problem"}`+"\n", ""), "no default problem"},
		"an operation without an id":               {replace("operationId: createOrder", "x-id: createOrder"), "operationId"},
		"a document that is no OpenAPI":            {"openapi: 3.0.3", "specification"},
		"an exemption with an empty reason":        {replace("x-idempotency:", "x-idempotency-exempt: ''\n      x-other:"), "neither x-idempotency nor"},
		"a retention shorter than a retry window":  {replace("retention: 72h", "retention: 48h"), "manual-replay"},
		"no published retry windows":               {replace("x-retry-windows", "x-other"), "x-retry-windows"},
		"a scope that no key can hold":             {replace("x-required-scope: orders:create", "x-required-scope: orders:crate"), "orders:crate"},
		"a policy without the API's version":       {replace(`        - $ref: "#/components/parameters/ApiVersion"`+"\n", ""), "API-Version"},
		"a keyword that no rule is made of":        {replace("          minItems: 1\n", "          uniqueItems: true\n"), "#/components/schemas/PlaceOrder/properties/items/uniqueItems"},
		"a format that nobody checks":              {replace("          format: date-time\n", "          format: email\n"), "#/components/schemas/PlaceOrder/properties/client_sent_at/format"},
		"a rule beside a reference":                {replace(`customer_id: {$ref: "#/components/schemas/ClientId"}`, `customer_id: {$ref: "#/components/schemas/ClientId", maxLength: 5}`), "maxLength"},
		"a parameter that is a list":               {replace("schema: {type: string, minLength: 1, maxLength: 200}", "schema: {type: array, items: {type: string}}"), "?page_token"},
		"a task without its lease":                 {replace("task: {lease: 30s, ", "task: {"), "task: lease is missing"},
		"a task with an unknown member":            {replace("poll: 2s}", "pull: 2s}"), "task: unknown member"},
		"a limit of a body that cannot be parsed":  {replace("x-max-body: 16MiB", "x-max-body: 16MB"), "x-max-body"},
		"rows without a limit":                     {replace("          maxItems: 10000\n", ""), "x-rows needs maxItems"},
		"rows that are no array":                   {replace("          x-rows: true # judged", "          x-row: true # judged"), "only a body of rows"},
		"a size of a policy that cannot be parsed": {replace("max-response: 64KiB", "max-response: 64KB"), "max-response"},
	} {
		if _, err := loadSpecification(t.Context(), []byte(test.spec)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	if _, err := loadSpecification(t.Context(), []byte(replace("x-idempotency:", "x-idempotency-exempt: safe to repeat\n      x-other:"))); err != nil {
		t.Errorf("a stated exemption is refused: %v", err)
	}
}
