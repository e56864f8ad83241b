package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"

	"orderonce/internal/fault"
)

// maxFaults bounds how many faults of one request are listed.
const maxFaults = 20

// validateParameters checks the path, the query and the headers against the contract and puts defaults into the
// query. Unknown and repeated query parameters are refused. It returns fault.InvalidRequest.
func (o *operation) validateParameters(r *http.Request) (path, query map[string]string, err error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, nil, fault.New(fault.InvalidRequest, "The query cannot be read.")
	}
	var fields []fault.Field
	for name, given := range values {
		switch {
		case !o.query[name]:
			fields = append(fields, fault.Field{Pointer: "?" + name, Reason: "is not known"})
		case len(given) > 1:
			fields = append(fields, fault.Field{Pointer: "?" + name, Reason: "is there more than once"})
		}
	}
	path = map[string]string{}
	input := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: path, QueryParams: values, Route: o.route,
	}
	for _, ref := range o.route.Operation.Parameters {
		p := ref.Value
		if p.In == openapi3.ParameterInPath {
			path[p.Name] = r.PathValue(p.Name)
			if p.Schema.Value.Format == "uuid" {
				path[p.Name] = strings.ToLower(path[p.Name]) // one id, however it is spelt
			}
		}
		if p.Name == keyHeader {
			continue // idempotency.ParseKey is its judge
		}
		if given := placeOf(p); strings.ContainsRune(valueOf(p, r, values), 0) {
			fields = append(fields, fault.Field{Pointer: given, Reason: "contains NUL"})
		} else if err := openapi3filter.ValidateParameter(r.Context(), input, p); err != nil {
			fields = append(fields, fault.Field{Pointer: given, Reason: reasonOf(err)})
		}
	}
	if len(fields) > 0 {
		return nil, nil, &fault.Error{Kind: fault.InvalidRequest, Fields: fields[:min(len(fields), maxFaults)]}
	}
	query = map[string]string{}
	for name, given := range r.URL.Query() {
		query[name] = given[0]
	}
	return path, query, nil
}

// placeOf names a parameter as problems do.
func placeOf(p *openapi3.Parameter) string {
	switch p.In {
	case openapi3.ParameterInPath:
		return "{" + p.Name + "}"
	case openapi3.ParameterInQuery:
		return "?" + p.Name
	}
	return p.Name
}

func valueOf(p *openapi3.Parameter, r *http.Request, query url.Values) string {
	switch p.In {
	case openapi3.ParameterInPath:
		return r.PathValue(p.Name)
	case openapi3.ParameterInQuery:
		return query.Get(p.Name)
	}
	return r.Header.Get(p.Name)
}

// reasonOf is a validator's reason without the value it speaks of.
func reasonOf(err error) string {
	var schema *openapi3.SchemaError
	if errors.As(err, &schema) {
		return schema.Reason
	}
	if errors.Is(err, openapi3filter.ErrInvalidRequired) {
		return "is required"
	}
	return "cannot be read"
}

// validateBody checks a decoded document against the contract and puts its defaults into it; defaulted says whether
// there were any to put. It returns fault.ValidationFailed.
func (o *operation) validateBody(document any) (defaulted bool, err error) {
	if fields := nulls(nil, o.body, document, ""); len(fields) > 0 {
		return false, &fault.Error{Kind: fault.ValidationFailed, Fields: fields[:min(len(fields), maxFaults)]}
	}
	err = o.body.VisitJSON(document, openapi3.VisitAsRequest(), openapi3.MultiErrors(),
		openapi3.EnableFormatValidation(), openapi3.DefaultsSet(func() { defaulted = true }))
	if err == nil {
		if defaulted {
			wholes(document)
		}
		return defaulted, nil
	}
	fields := flatten(nil, err)
	if len(fields) == 0 {
		return false, fmt.Errorf("validate the body: %w", err)
	}
	return false, &fault.Error{Kind: fault.ValidationFailed, Fields: fields[:min(len(fields), maxFaults)]}
}

// wholes makes the defaults of integers what decode makes of integers: to the reader of the contract all numbers are
// float64.
func wholes(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = wholes(member)
		}
	case []any:
		for i, item := range v {
			v[i] = wholes(item)
		}
	case float64:
		return int64(v)
	}
	return value
}

// nulls adds the members that are null and have a default: the validator would take them for absent.
func nulls(fields []fault.Field, schema *openapi3.Schema, document any, at string) []fault.Field {
	switch v := document.(type) {
	case map[string]any:
		for name, property := range schema.Properties {
			value, there := v[name]
			if there && value == nil && property.Value.Default != nil && !property.Value.Nullable {
				fields = append(fields, fault.Field{Pointer: at + "/" + name, Reason: "Value is not nullable"})
			}
			fields = nulls(fields, property.Value, value, at+"/"+name)
		}
	case []any:
		for i, item := range v {
			if schema.Items != nil {
				fields = nulls(fields, schema.Items.Value, item, at+"/"+strconv.Itoa(i))
			}
		}
	}
	return fields
}

func flatten(fields []fault.Field, err error) []fault.Field {
	var many openapi3.MultiError
	if errors.As(err, &many) {
		for _, one := range many {
			fields = flatten(fields, one)
		}
		return fields
	}
	var schema *openapi3.SchemaError
	if errors.As(err, &schema) {
		var inner openapi3.MultiError
		if errors.As(schema.Origin, &inner) {
			return flatten(fields, inner)
		}
		pointer := ""
		for _, token := range schema.JSONPointer() {
			pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
		}
		fields = append(fields, fault.Field{Pointer: pointer, Reason: schema.Reason})
	}
	return fields
}
