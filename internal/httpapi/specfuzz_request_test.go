package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// expectation is what is known of the answer before it comes.
type expectation int

const (
	anything expectation = iota // that the contract documents, below 500
	accepted                    // a success, or a rejection by the state of things
	refused                     // a 4xx that consumed nothing
)

// pair is a name and its value, of which there may be several.
type pair struct{ name, value string }

// request is one of an operation, before it is bytes.
type request struct {
	o        *operation
	method   string
	path     map[string]string
	query    []pair
	header   []pair
	target   string // instead of the path and the query, where it is not empty
	document any
	body     *string // instead of the document
	framing  framing
	want     expectation
	why      string
}

// framing is how a body's end is told.
type framing int

const (
	counted    framing = iota // Content-Length
	chunked                   // Transfer-Encoding
	cut                       // Content-Length, but the connection ends before
	overcommit                // both
)

func (r *request) set(name, value string) {
	r.header = slices.DeleteFunc(r.header, func(h pair) bool { return strings.EqualFold(h.name, name) })
	r.header = append(r.header, pair{name, value})
}

func (r *request) drop(name string) {
	r.header = slices.DeleteFunc(r.header, func(h pair) bool { return strings.EqualFold(h.name, name) })
}

// copied is a request of its own, so that a change leaves the first as it was.
func (r *request) copied(why string, want expectation) *request {
	other := *r
	other.path = map[string]string{}
	for name, value := range r.path {
		other.path[name] = value
	}
	other.query, other.header = slices.Clone(r.query), slices.Clone(r.header)
	other.why, other.want = why, want
	return &other
}

// request makes a valid one: a whole one has every parameter and member that there is.
func (g *generator) request(o *operation, token string, whole bool) *request {
	r := &request{o: o, method: o.route.Method, path: map[string]string{}, want: accepted, why: "valid"}
	r.header = []pair{{"Host", "orders.example"}}
	if o.scope != "" {
		r.set("Authorization", "Bearer "+token)
	}
	reuse := 80
	if r.method == http.MethodPut {
		reuse = 20 // or it would make nothing any more
	}
	for _, ref := range o.route.Operation.Parameters {
		p := ref.Value
		if !p.Required && !whole && g.chance(60) {
			continue
		}
		known := len(g.known[p.Name]) > 0
		if !known && slices.Contains(named, p.Name) {
			continue // there is none yet
		}
		value := fmt.Sprint(g.value(p.Name, p.Schema.Value, false))
		if known && p.In != openapi3.ParameterInHeader && !slices.Contains(named, p.Name) && g.chance(reuse) {
			value = choose(g, g.known[p.Name]...)
		}
		switch p.In {
		case openapi3.ParameterInPath:
			r.path[p.Name] = value
		case openapi3.ParameterInQuery:
			r.query = append(r.query, pair{p.Name, value})
		case openapi3.ParameterInHeader:
			if p.Name == keyHeader {
				value = strings.Trim(value, `"`) + fmt.Sprintf("%016x", g.IntN(1<<62)) // fresh
				value = value[max(0, len(value)-128):]
				if g.chance(20) {
					value = `"` + value + `"`
				}
			}
			if value = strings.TrimSpace(printable(value)); value != "" {
				r.header = append(r.header, pair{p.Name, value})
			}
		}
	}
	if o.body != nil {
		r.set("Content-Type", choose(g, "application/json", "application/json", "application/json; charset=utf-8", "Application/JSON ; charset=\"UTF-8\""))
		r.document = g.value("", o.body, whole)
		r.framing = choose(g, counted, counted, chunked)
	}
	return r
}

// printable keeps what a header may hold.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return -1
		}
		return r
	}, s)
}

// bytes writes the request. Only one that ends before its end ends the connection.
func (g *generator) bytes(r *request) (raw []byte, ending bool) {
	if r.body == nil && r.document != nil {
		body := g.write(r.document)
		r.body = &body
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", r.method, r.where())
	for _, h := range r.header {
		fmt.Fprintf(&b, "%s: %s\r\n", h.name, h.value)
	}
	if r.body == nil {
		b.WriteString("\r\n")
		return []byte(b.String()), false
	}
	body := *r.body
	switch r.framing {
	case counted:
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	case cut:
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body)+1+g.IntN(1000), body)
		ending = true
	case overcommit:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
		fallthrough
	case chunked:
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		for len(body) > 0 {
			n := min(len(body), 1+g.IntN(4000))
			fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
			body = body[n:]
		}
		b.WriteString("0\r\n\r\n")
	}
	return []byte(b.String()), ending
}

func (r *request) where() string {
	if r.target != "" {
		return r.target
	}
	target := r.o.route.Path
	for name, value := range r.path {
		target = strings.ReplaceAll(target, "{"+name+"}", strings.ReplaceAll(url.PathEscape(value), ":", "%3A"))
	}
	for i, q := range r.query {
		target += choose(fixed(i), "?", "&") + url.QueryEscape(q.name) + "=" + url.QueryEscape(q.value)
	}
	return target
}

// fixed is no choice at all: the first, then the second for ever.
type fixed int

func (f fixed) IntN(n int) int { return min(int(f), n-1) }

// systematic lists, for one operation, a request on each side of every limit that the contract sets it.
func (g *generator) systematic(o *operation, token string) (all []*request) {
	whole := func() *request { return g.request(o, token, true) }
	add := func(r *request) { all = append(all, r) }
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"} {
		if o.route.PathItem.GetOperation(strings.ToUpper(method)) == nil && (method != http.MethodHead || o.route.PathItem.Get == nil) {
			r := whole().copied("method "+method, refused)
			r.method = method
			add(r)
		}
	}
	for _, ref := range o.route.Operation.Parameters {
		for _, r := range g.parameterEdges(ref.Value, whole) {
			add(r)
		}
	}
	for _, query := range []string{"unknown=1", "=", "%", "%zz=1", "a;b", "%00=%ff", "status=x&status=x&page_size=0"} {
		r := whole()
		r.query = nil
		r = r.copied("query "+query, refused)
		r.target = r.where() + "?" + query
		add(r)
	}
	if o.body == nil {
		return all
	}
	places(g, o.body, nil, func(at place, schema *openapi3.Schema) {
		for _, e := range g.edges(schema) {
			if e.valid && len(at) > 0 && slices.Contains(named, fmt.Sprint(at[len(at)-1])) {
				continue
			}
			want := refused
			if e.valid {
				want = accepted
			}
			if o.rows != nil && len(at) > 1 && at[0] == o.rows.member {
				want = anything // a row that breaks a rule is a rejected row
			}
			r := whole().copied(fmt.Sprintf("%v: %s", at, e.why), want)
			r.document = put(r.document, at, e.value)
			add(r)
		}
	})
	return all
}

func readsAsBool(text string) bool {
	_, err := strconv.ParseBool(text)
	return err == nil
}

func (g *generator) parameterEdges(p *openapi3.Parameter, whole func() *request) (all []*request) {
	change := func(why string, want expectation, values ...string) {
		r := whole().copied(p.In+" "+p.Name+": "+why, want)
		switch p.In {
		case openapi3.ParameterInPath:
			r.path[p.Name] = values[0]
		case openapi3.ParameterInQuery:
			r.query = slices.DeleteFunc(r.query, func(q pair) bool { return q.name == p.Name })
			for _, value := range values {
				r.query = append(r.query, pair{p.Name, value})
			}
		case openapi3.ParameterInHeader:
			r.drop(p.Name)
			for _, value := range values {
				r.header = append(r.header, pair{p.Name, value})
			}
		}
		all = append(all, r)
	}
	for _, e := range g.edges(p.Schema.Value) {
		text := fmt.Sprint(e.value)
		_, isText := e.value.(string)
		switch {
		case p.Schema.Value.Type.Is("boolean") && readsAsBool(text): // 1 is one of its spellings
		case !isText && p.Schema.Value.Type.Is("string"), e.valid && slices.Contains(named, p.Name): // no value of the wire is of another type
		case p.In == openapi3.ParameterInPath && text == "": // another route
		case p.In == openapi3.ParameterInHeader && (printable(text) != text || strings.TrimSpace(text) != text || len(text) > 10_000):
		case e.valid:
			change(e.why, accepted, text)
		default:
			change(e.why, refused, text)
		}
	}
	if p.In != openapi3.ParameterInPath && p.Required {
		change("missing", refused)
	}
	if p.In == openapi3.ParameterInQuery || p.Name == keyHeader {
		value := g.text(one(g, p.Schema.Value), int(p.Schema.Value.MinLength))
		change("twice", refused, value, value)
	}
	return all
}
