package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"orderonce/internal/fault"
	"orderonce/internal/httpapi/internal/contract"
)

// validateParameters checks the path, the query and the headers against the contract and puts defaults into the
// query and the headers. Unknown and repeated query parameters are refused. It returns fault.InvalidRequest.
func (o *operation) validateParameters(r *http.Request) (path, query map[string]string, err error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, nil, fault.New(fault.InvalidRequest, "The query cannot be read.")
	}
	fields := o.strangers(values)
	path = map[string]string{}
	defaulted := false
	for _, p := range o.parameters {
		sent, there := find(p, r, values)
		switch {
		case there:
			if reason := p.Check(sent); reason != "" {
				fields = append(fields, fault.Field{Pointer: p.Place, Reason: reason})
			}
		case p.Required:
			fields = append(fields, fault.Field{Pointer: p.Place, Reason: "is required"})
		case p.Default != "" && p.In == openapi3.ParameterInQuery:
			values.Set(p.Name, p.Default)
			defaulted = true
		case p.Default != "":
			r.Header.Set(p.Name, p.Default)
		}
		if p.In == openapi3.ParameterInPath {
			if p.Format == "uuid" {
				sent = strings.ToLower(sent) // one id, however it is spelt
			}
			path[p.Name] = sent
		}
	}
	if len(fields) > 0 {
		return nil, nil, &fault.Error{Kind: fault.InvalidRequest, Fields: fields[:min(len(fields), contract.MaxFaults)]}
	}
	if defaulted {
		r.URL.RawQuery = values.Encode()
	}
	query = make(map[string]string, len(values))
	for name, given := range values {
		query[name] = given[0]
	}
	return path, query, nil
}

// strangers are the query parameters that the operation does not know, or not more than one of, by name.
func (o *operation) strangers(query url.Values) (fields []fault.Field) {
	for name, given := range query {
		known := slices.ContainsFunc(o.parameters, func(p *contract.Parameter) bool {
			return p.In == openapi3.ParameterInQuery && p.Name == name
		})
		switch {
		case !known:
			fields = append(fields, fault.Field{Pointer: "?" + name, Reason: "is not known"})
		case len(given) > 1:
			fields = append(fields, fault.Field{Pointer: "?" + name, Reason: "is there more than once"})
		}
	}
	slices.SortFunc(fields, func(a, b fault.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	return fields
}

// find is a parameter as it was sent. Of several in the query or the headers it is the first.
func find(p *contract.Parameter, r *http.Request, query url.Values) (sent string, there bool) {
	var all []string
	switch p.In {
	case openapi3.ParameterInPath:
		sent = r.PathValue(p.Name)
		return sent, sent != ""
	case openapi3.ParameterInQuery:
		all = query[p.Name]
	case openapi3.ParameterInHeader:
		all = r.Header.Values(p.Name)
	}
	if len(all) == 0 {
		return "", false
	}
	return all[0], true
}

// validateBody checks a decoded document against the contract and puts its defaults into it. It returns
// fault.ValidationFailed.
func (o *operation) validateBody(document any) error {
	if fields := o.rules.Check(document); len(fields) > 0 {
		return &fault.Error{Kind: fault.ValidationFailed, Fields: fields}
	}
	return nil
}
