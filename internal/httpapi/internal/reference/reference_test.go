package reference

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"orderonce"
)

func load(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(orderonce.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func render(t *testing.T, doc *openapi3.T) string {
	t.Helper()
	text, err := Page(doc, orderonce.OpenAPI, "body { color: red }")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The page has every operation with its promises, each parameter, each body member, each answer and each problem.
func TestPageHasAllOfTheContract(t *testing.T) {
	t.Parallel()
	doc := load(t)
	text := render(t, doc)
	want := func(what, part string) {
		t.Helper()
		if !strings.Contains(text, part) {
			t.Errorf("%s: the page lacks %s", what, part)
		}
	}
	operations := Operations(doc, orderonce.OpenAPI)
	if operations[0].ID != "createOrder" {
		t.Errorf("the page begins with %s, the document with createOrder", operations[0].ID)
	}
	for _, o := range operations {
		op := doc.Paths.Value(o.Path).GetOperation(o.Method)
		want(o.ID, `<h3 id="`+o.ID+`">`)
		want(o.ID, `href="#`+o.ID+`"`)
		if !strings.Contains(text, html.EscapeString(op.Summary)) {
			t.Errorf("%s: the page lacks its summary", o.ID)
		}
		if (op.Extensions["x-idempotency"] != nil) != (len(o.Policy) > 0) || (op.Extensions["x-required-scope"] != nil) != (o.Scope != "") {
			t.Errorf("%s: policy %v, scope %q", o.ID, o.Policy, o.Scope)
		}
		if exempt := op.Extensions["x-idempotency-exempt"]; exempt != nil && len(o.Exempt) == 0 {
			t.Errorf("%s: it is not said why it takes no key", o.ID)
		}
		if len(o.Parameters) < len(op.Parameters) || len(o.Answers) != op.Responses.Len() || len(o.Snippets) != 3 {
			t.Errorf("%s: %d parameters, %d answers, %d snippets", o.ID, len(o.Parameters), len(o.Answers), len(o.Snippets))
		}
	}
	var count int
	for _, item := range doc.Paths.Map() {
		count += len(item.Operations())
	}
	if shown := strings.Count(text, `<h4>Answers</h4>`); len(operations) != count || shown != count {
		t.Errorf("%d operations, %d on the page, want %d", len(operations), shown, count)
	}
	for name, ref := range doc.Components.Schemas {
		if code := codes(ref); strings.HasPrefix(name, "Problem") && len(code) == 1 && !strings.Contains(text, `href="problems/`+code[0]+`"`) {
			t.Errorf("the page names no operation that can be %s", code[0])
		}
	}
	for _, part := range []string{
		"one of pending, confirmed, rejected, cancelled", "1 to 200 items", "at most 100000", "items[].unit_price_minor",
		"may differ between retries", "default {}", "matches ^[A-Z]{3}$", "each value at most 500 characters",
	} {
		want("bounds", html.EscapeString(part))
	}
	if strings.Contains(text, "ZgotmplZ") {
		t.Error("the template has refused something")
	}
}

// Every link leads to a place on the page, or to a page of this server.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	text := render(t, load(t))
	ids := map[string]bool{}
	for _, found := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(text, -1) {
		if ids[found[1]] {
			t.Errorf("the id %s is there twice", found[1])
		}
		ids[found[1]] = true
	}
	for _, found := range regexp.MustCompile(`(?:href|aria-labelledby)="(#?)([^"]+)"`).FindAllStringSubmatch(text, -1) {
		local := found[1] == "#" || strings.HasPrefix(found[0], "aria")
		if local && !ids[found[2]] || !local && found[2] != "openapi.yaml" && !strings.HasPrefix(found[2], "problems/") {
			t.Errorf("%s leads nowhere", found[0])
		}
	}
}

// What a snippet sends is what the operation takes.
func TestSamplesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	doc := load(t)
	for _, o := range Operations(doc, orderonce.OpenAPI) {
		op := doc.Paths.Value(o.Path).GetOperation(o.Method)
		if op.RequestBody == nil {
			continue
		}
		media := op.RequestBody.Value.Content["application/json"]
		for what, value := range map[string]any{"its own": sampleBody(media), "of its schema": sample(media.Schema, depth)} {
			if err := media.Schema.Value.VisitJSON(value); err != nil {
				t.Errorf("%s: the sample %s does not fit; give the schema an example: %v", o.ID, what, err)
			}
		}
	}
}

// Whatever stands in the contract is text on the page.
func TestTheContractIsNoMarkup(t *testing.T) {
	t.Parallel()
	doc := load(t)
	const evil = `<script>alert(1)</script> "quoted" 'single' & ` + "`<b>`"
	op := doc.Paths.Value("/orders").Post
	op.Summary, op.Description = evil, evil
	op.Parameters[0].Value.Description = evil
	op.Responses.Value("201").Value.Description = &[]string{evil}[0]
	op.Extensions["x-idempotency"] = map[string]any{"scope": evil, "task": map[string]any{"lease": "30s", "poll": evil}}
	doc.Components.Schemas["PlaceOrder"].Value.Properties["currency"].Value.Pattern = evil
	op.RequestBody.Value.Content["application/json"].Examples = openapi3.Examples{"x": {Value: &openapi3.Example{Value: map[string]any{"note": evil}}}}
	text := render(t, doc)
	if strings.Contains(text, "<script") || strings.Contains(text, "<b>") || !strings.Contains(text, "lease: 30s") {
		t.Error("the contract's text has become markup")
	}
}

// What the contract will have one day is shown without a change here: another tag or none, a schema that is in itself, a
// body of no JSON.
func TestStrangeContractsAreShown(t *testing.T) {
	t.Parallel()
	doc := load(t)
	op := doc.Paths.Value("/orders").Post
	op.Tags = nil
	doc.Paths.Value("/orders").Get.Tags = []string{"new"}
	items := doc.Components.Schemas["OrderItem"].Value
	items.Properties["parts"] = &openapi3.SchemaRef{Value: &openapi3.Schema{
		Type: &openapi3.Types{"array"}, Items: &openapi3.SchemaRef{Ref: "#/components/schemas/OrderItem", Value: items},
	}}
	put := doc.Paths.Value("/client-orders/{clientOrderId}").Put.RequestBody.Value
	put.Content = openapi3.Content{"application/x-ndjson": put.Content["application/json"]}
	text := render(t, doc)
	for _, part := range []string{`id="group-other"`, `id="group-new"`, "items[].parts[].parts[].sku", "application/x-ndjson"} {
		if !strings.Contains(text, part) {
			t.Errorf("the page lacks %s", part)
		}
	}
}

func TestProse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                              "",
		"One line with `code`.":         "<p>One line with <code>code</code>.</p>",
		"One\nparagraph.\n\nAnother.\n": "<p>One\nparagraph.</p><p>Another.</p>",
		"Two:\n- a `b`\n- c <d>":        "<p>Two:</p><ul><li>a <code>b</code></li><li>c &lt;d&gt;</li></ul>",
		"- a\n- b":                      "<ul><li>a</li><li>b</li></ul>",
	} {
		if got := string(Prose(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := variable("clientOrderId"); got != "CLIENT_ORDER_ID" {
		t.Error(got)
	}
	if languages := []string{Curl, TypeScript, Go}; slices.ContainsFunc(languages, func(l string) bool { return Preamble(l) == "" }) {
		t.Error("a language has no preamble")
	}
}

func BenchmarkPage(b *testing.B) {
	doc, err := openapi3.NewLoader().LoadFromData(orderonce.OpenAPI)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Page(doc, orderonce.OpenAPI, ""); err != nil {
			b.Fatal(err)
		}
	}
}
