package reference

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Snippet is a piece of code to paste, in one language. A test runs every one.
type Snippet struct{ Language, Code string }

// The languages of the snippets.
const (
	Curl       = "curl"
	TypeScript = "TypeScript"
	Go         = "Go"
)

// preambles are what the snippets of each language stand on.
var preambles = []Snippet{
	{Curl, `export ORDERONCE_URL=https://orders.example.org
export ORDERONCE_KEY=oo_live_…`},
	{TypeScript, `import { createClient } from "@orderonce/client";

const client = createClient({
  baseUrl: process.env.ORDERONCE_URL ?? "https://orders.example.org",
  credential: process.env.ORDERONCE_KEY ?? "oo_live_…",
});`},
	{Go, `client, err := orderonce.New(os.Getenv("ORDERONCE_URL"), os.Getenv("ORDERONCE_KEY"))
check(err) // of your own`},
}

// Preamble is what the snippets of a language stand on.
func Preamble(language string) string {
	for _, p := range preambles {
		if p.Language == language {
			return p.Code
		}
	}
	return ""
}

// request is what a snippet sends. What the reader has to fill in comes from the environment, under the parameter's name
// in capitals.
type request struct {
	Operation
	path  []*openapi3.Parameter // in the path's order
	query []*openapi3.Parameter // those that are required
	loose bool                  // it has parameters beside those of the path and the key
	body  any                   // nil for none
}

func snippets(o Operation, parameters []*openapi3.Parameter, op *openapi3.Operation) []Snippet {
	r := request{Operation: o}
	for _, name := range placeholder.FindAllString(o.Path, -1) {
		for _, p := range parameters {
			if p.In == openapi3.ParameterInPath && "{"+p.Name+"}" == name {
				r.path = append(r.path, p)
			}
		}
	}
	for _, p := range parameters {
		if p.In == openapi3.ParameterInQuery && p.Required {
			r.query = append(r.query, p)
		}
		r.loose = r.loose || p.In == openapi3.ParameterInQuery || p.In == openapi3.ParameterInHeader
	}
	if op.RequestBody != nil && op.RequestBody.Value.Content["application/json"] != nil {
		r.body = sampleBody(op.RequestBody.Value.Content["application/json"])
	}
	return []Snippet{{Curl, r.curl()}, {TypeScript, r.typeScript()}, {Go, r.golang()}}
}

var (
	placeholder = regexp.MustCompile(`\{[A-Za-z_]+\}`)
	wordStart   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// variable is the environment's name of a parameter: orderId is ORDER_ID.
func variable(name string) string {
	return strings.ToUpper(wordStart.ReplaceAllString(strings.ReplaceAll(name, "-", "_"), "${1}_${2}"))
}

func (r request) text(indent string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent(indent, "  ")
	if err := encoder.Encode(r.body); err != nil {
		return "" // an example that was read from YAML has nothing that JSON lacks
	}
	return strings.TrimSpace(out.String())
}

func (r request) curl() string {
	address := "$ORDERONCE_URL" + placeholder.ReplaceAllStringFunc(r.Path, func(p string) string {
		return "$" + variable(strings.Trim(p, "{}"))
	})
	for i, p := range r.query {
		address += map[bool]string{true: "?", false: "&"}[i == 0] + p.Name + "=$" + variable(p.Name)
	}
	lines := []string{fmt.Sprintf(`curl --fail-with-body "%s"`, address)}
	if r.Method != http.MethodGet {
		lines[0] = fmt.Sprintf(`curl --fail-with-body -X %s "%s"`, r.Method, address)
	}
	if r.Scope != "" {
		lines = append(lines, `-H "Authorization: Bearer $ORDERONCE_KEY"`)
	}
	before := ""
	if r.Policy != nil {
		before = "IDEMPOTENCY_KEY=$(openssl rand -hex 16)   # once for each intent: a retry has the same\n"
		lines = append(lines, `-H "Idempotency-Key: $IDEMPOTENCY_KEY"`)
	}
	if r.body != nil {
		lines = append(lines, `-H "Content-Type: application/json"`,
			"-d '"+strings.ReplaceAll(r.text("  "), "'", `'\''`)+"'")
	}
	return before + strings.Join(lines, " \\\n  ")
}

func (r request) typeScript() string {
	var members, values []string
	for _, p := range r.path {
		members = append(members, fmt.Sprintf("%s: process.env.%s ?? %q", p.Name, variable(p.Name), "…"))
	}
	for _, p := range r.query {
		values = append(values, fmt.Sprintf("%s: process.env.%s ?? %q", p.Name, variable(p.Name), "…"))
	}
	if r.Policy != nil {
		var request []string
		if members != nil {
			request = append(request, "path: { "+strings.Join(members, ", ")+" }")
		}
		if r.body != nil {
			request = append(request, "body: "+r.text("  "))
		}
		return fmt.Sprintf("const intent = client.intent(%q); // a name of yours, one for each intent\n"+
			"const result = await intent.post(%q, {%s});\nconsole.log(result);", r.ID+":8731", r.Path, lines(request))
	}
	var params, init []string
	if members != nil {
		params = append(params, "path: { "+strings.Join(members, ", ")+" }")
	}
	if values != nil {
		params = append(params, "query: { "+strings.Join(values, ", ")+" }")
	}
	if params != nil {
		init = append(init, "params: { "+strings.Join(params, ", ")+" }")
	}
	if r.body != nil {
		init = append(init, "body: "+r.text("  "))
	}
	if r.parsed() == "text" {
		init = append(init, `parseAs: "text"`)
	}
	second := ""
	if init != nil {
		second = ", {" + lines(init) + "}"
	}
	return fmt.Sprintf("const { data, error } = await client.api.%s(%q%s);\nconsole.log(data ?? error);", r.Method, r.Path, second)
}

// parsed is how a fetch has to read the answer.
func (r request) parsed() string {
	for _, a := range r.Answers {
		if strings.HasPrefix(a.Status, "2") && len(a.Media) > 0 && a.Media[0] != "application/json" {
			return "text"
		}
	}
	return "json"
}

// lines puts members on lines of their own.
func lines(members []string) string {
	if members == nil {
		return ""
	}
	return "\n  " + strings.Join(members, ",\n  ") + ",\n"
}

func (r request) golang() string {
	literal := "`" + strings.ReplaceAll(r.text(""), "`", "`+\"`\"+`") + "`"
	if r.Policy != nil {
		address, body := fmt.Sprintf("%q", r.Path), "nil"
		for _, p := range r.path {
			address = strings.ReplaceAll(address, "{"+p.Name+"}", fmt.Sprintf(`" + url.PathEscape(os.Getenv(%q)) + "`, variable(p.Name)))
		}
		if r.body != nil {
			body = "json.RawMessage(" + literal + ")"
		}
		return fmt.Sprintf("intent, err := orderonce.NewIntent(%q, %q, %s, %s)\ncheck(err)\n"+
			"// Store the intent here: a retry after a crash is the stored one.\n"+
			"result, err := client.Do(ctx, intent)\ncheck(err) // nothing was sent\n"+
			"fmt.Println(result.Kind, string(result.Body))", r.ID, r.Method, strings.TrimSuffix(address, ` + ""`), body)
	}
	arguments := []string{"ctx"}
	for _, p := range r.path {
		value := fmt.Sprintf("os.Getenv(%q)", variable(p.Name))
		if merged(p.Schema).Format == "uuid" {
			value = "uuid.MustParse(" + value + ")"
		}
		arguments = append(arguments, value)
	}
	name := strings.ToUpper(r.ID[:1]) + r.ID[1:]
	if r.loose {
		var fields []string
		for _, p := range r.query {
			fields = append(fields, fmt.Sprintf("%s: os.Getenv(%q)", exported(p.Name), variable(p.Name)))
		}
		arguments = append(arguments, "&api."+name+"Params{"+strings.Join(fields, ", ")+"}")
	}
	if r.body != nil {
		name += "WithBody"
		arguments = append(arguments, `"application/json"`, "strings.NewReader("+literal+")")
	}
	if r.parsed() == "text" { // the generated client would look for JSON or YAML in it
		return fmt.Sprintf("answer, err := client.API().%s(%s)\ncheck(err)\ndefer answer.Body.Close()\n"+
			"fmt.Println(answer.Status)\n_, err = io.Copy(os.Stdout, answer.Body)\ncheck(err)", name, strings.Join(arguments, ", "))
	}
	return fmt.Sprintf("answer, err := client.API().%sWithResponse(%s)\ncheck(err)\n"+
		"fmt.Println(answer.Status(), string(answer.Body))", name, strings.Join(arguments, ", "))
}

// exported is the generated client's name of a parameter: page_size is PageSize.
func exported(name string) string {
	var out strings.Builder
	for word := range strings.FieldsFuncSeq(name, func(c rune) bool { return c == '_' || c == '-' }) {
		out.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return out.String()
}
