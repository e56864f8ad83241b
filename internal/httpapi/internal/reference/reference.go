// Package reference makes of the contract a page that people read: every operation with what it takes, what it answers,
// what it promises about its key, and how it is called. All of it is the contract's own words, so the page cannot come to
// differ from the server. It runs nothing, links to nothing outside and needs no script.
package reference

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

//go:embed page.html
var source string

var page = template.Must(template.New("reference").Parse(source))

// Page is the page as HTML, in the order of the document's source. The style is the text of its one style element: who serves the page names it by its hash in
// the Content-Security-Policy.
func Page(doc *openapi3.T, document []byte, style template.CSS) ([]byte, error) {
	view := contract{
		Title: doc.Info.Title, Version: doc.Info.Version, About: Prose(doc.Info.Description), Style: style,
		Problems: problems(doc), Schemas: schemas(doc), Preambles: preambles,
	}
	for _, tag := range doc.Tags {
		view.Groups = append(view.Groups, group{Name: tag.Name, About: Prose(tag.Description)})
	}
	for _, o := range Operations(doc, document) {
		of := func(g group) bool { return g.Name == o.tag }
		if !slices.ContainsFunc(view.Groups, of) { // a tag that the document does not describe
			view.Groups = append(view.Groups, group{Name: o.tag})
		}
		g := &view.Groups[slices.IndexFunc(view.Groups, of)]
		g.Operations = append(g.Operations, o)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, view); err != nil {
		return nil, fmt.Errorf("render the reference: %w", err)
	}
	return out.Bytes(), nil
}

type contract struct {
	Title, Version string
	About          template.HTML
	Style          template.CSS
	Groups         []group
	Problems       []problem
	Schemas        []schema
	Preambles      []Snippet
}

type group struct {
	Name       string
	About      template.HTML
	Operations []Operation
}

// Operation is one of the contract's.
type Operation struct {
	ID, Method, Path string
	Summary          string
	About            template.HTML
	Scope            string // empty for a public operation
	Policy           []term // x-idempotency, as it is published; none where the operation takes no key
	Exempt           template.HTML
	Parameters       []row
	Body             *body
	Answers          []reply
	Snippets         []Snippet

	tag string
}

// term is one member of a policy.
type term struct{ Name, Value, Meaning string }

type body struct {
	Required bool
	Media    []string
	Schema   string // its name, where it has one
	Rows     []row
}

type reply struct {
	Status  string
	About   template.HTML
	Headers []string
	Media   []string
	Schema  string
	Codes   []string // of a problem
}

type problem struct {
	Code, Status string
	About        template.HTML
}

// problems lists what can be answered instead, by status. Not every one belongs to an operation: where there is no route,
// there is none.
func problems(doc *openapi3.T) (all []problem) {
	for _, ref := range doc.Components.Schemas {
		code, status := merged(ref).Properties["code"], merged(ref).Properties["status"]
		if code != nil && status != nil && len(code.Value.Enum) == 1 && len(status.Value.Enum) == 1 {
			all = append(all, problem{fmt.Sprint(code.Value.Enum[0]), fmt.Sprint(status.Value.Enum[0]), Prose(ref.Value.Description)})
		}
	}
	slices.SortFunc(all, func(a, b problem) int { return strings.Compare(a.Status+a.Code, b.Status+b.Code) })
	return all
}

// Operations lists the operations in the order of the document's source, which says what to read first and which is lost
// when it is read.
func Operations(doc *openapi3.T, document []byte) (all []Operation) {
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			all = append(all, operation(method, path, item, op))
		}
	}
	text := string(document)
	slices.SortFunc(all, func(a, b Operation) int {
		return cmp.Or(
			strings.Index(text, "operationId: "+a.ID+"\n")-strings.Index(text, "operationId: "+b.ID+"\n"), strings.Compare(a.ID, b.ID))
	})
	return all
}

func operation(method, path string, item *openapi3.PathItem, op *openapi3.Operation) Operation {
	o := Operation{
		ID: op.OperationID, Method: method, Path: path, Summary: op.Summary, About: Prose(op.Description),
		Policy: policy(op), tag: "other",
	}
	if len(op.Tags) > 0 {
		o.tag = op.Tags[0]
	}
	o.Scope, _ = op.Extensions["x-required-scope"].(string)
	reason, _ := op.Extensions["x-idempotency-exempt"].(string)
	o.Exempt = inline(reason)
	parameters := unique(append(slices.Clone(item.Parameters), op.Parameters...))
	for _, p := range parameters {
		r := rowOf(p.Name, p.Schema, p.Required)
		r.In = p.In
		if p.Description != "" {
			r.About = Prose(p.Description)
		}
		o.Parameters = append(o.Parameters, r)
	}
	if op.RequestBody != nil {
		content := op.RequestBody.Value.Content
		o.Body = &body{Required: op.RequestBody.Value.Required, Media: slices.Sorted(maps.Keys(content))}
		if media := content["application/json"]; media != nil {
			o.Body.Schema, o.Body.Rows = nameOf(media.Schema), rowsOf(media.Schema)
		}
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses.Map())) {
		o.Answers = append(o.Answers, answer(status, op.Responses.Value(status).Value))
	}
	o.Snippets = snippets(o, parameters, op)
	return o
}

// unique drops what is there twice: a path's parameters may have been given to its operations already.
func unique(parameters openapi3.Parameters) (all []*openapi3.Parameter) {
	for _, p := range parameters {
		if !slices.Contains(all, p.Value) {
			all = append(all, p.Value)
		}
	}
	return all
}

// promises says what the members of x-idempotency mean, with their value where it decides; another member is printed as it
// is.
var promises = map[string]string{
	"scope principal":  "each caller has its own keys",
	"scope tenant":     "all callers of a tenant share their keys",
	"retention":        "so long the outcome is remembered, from its completion",
	"wait":             "so long a duplicate waits for the first, before it is 409 idempotency_in_progress",
	"replay snapshot":  "a replay is the first answer, byte for byte",
	"replay reference": "a replay has the first status, and the thing as it then is",
	"max-response":     "a larger answer is not stored: its replay is made of the thing as it then is",
}

func policy(op *openapi3.Operation) (terms []term) {
	members, _ := op.Extensions["x-idempotency"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value := plain(members[name])
		terms = append(terms, term{name, value, cmp.Or(promises[name], promises[name+" "+value])})
	}
	return terms
}

// plain is a member's value as one would write it on a line.
func plain(value any) string {
	nested, ok := value.(map[string]any)
	if !ok {
		return fmt.Sprint(value)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(nested)) {
		parts = append(parts, name+": "+plain(nested[name]))
	}
	return strings.Join(parts, ", ")
}

func answer(status string, r *openapi3.Response) reply {
	a := reply{Status: status, Media: slices.Sorted(maps.Keys(r.Content)), Headers: slices.Sorted(maps.Keys(r.Headers))}
	if r.Description != nil {
		a.About = inline(*r.Description)
	}
	if problem := r.Content["application/problem+json"]; problem != nil {
		a.Codes = codes(problem.Schema)
	} else if media := r.Content["application/json"]; media != nil {
		a.Schema = nameOf(media.Schema)
	}
	return a
}

// codes are those that a problem's schema allows: its own, or those of its alternatives. The problem in general has none.
func codes(ref *openapi3.SchemaRef) (all []string) {
	for _, part := range slices.Concat(ref.Value.OneOf, ref.Value.AllOf) {
		all = append(all, codes(part)...)
	}
	if code := ref.Value.Properties["code"]; code != nil {
		for _, value := range code.Value.Enum {
			all = append(all, fmt.Sprint(value))
		}
	}
	return all
}
