package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"orderonce"
	"orderonce/internal/fault"
	"orderonce/internal/httpapi/internal/contract"
)

// The server judges requests by rules of its own. Here kin-openapi judges the same requests, by the specification
// itself, and the two must say the same: what is let in, what is wrong with the rest, which defaults are put in.

// judgedBody is kin-openapi's judgement of a decoded document, into which it puts the defaults.
func judgedBody(o *operation, document any) (faults []fault.Field) {
	options := []openapi3.SchemaValidationOption{openapi3.VisitAsRequest(), openapi3.MultiErrors()}
	if !hasNull(document) { // or it would take one for a member that is not there
		options = append(options, openapi3.DefaultsSet(func() {}))
	}
	return flattened(nil, o.body.VisitJSON(document, options...))
}

func hasNull(document any) bool {
	switch v := document.(type) {
	case nil:
		return true
	case []any:
		return slices.ContainsFunc(v, hasNull)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), hasNull)
	}
	return false
}

// asDecoded has integers for the float64 that kin-openapi puts in where a default is a number: nothing after the door
// takes one.
func asDecoded(document any) any {
	switch v := document.(type) {
	case float64:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = asDecoded(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = asDecoded(v[name])
		}
	}
	return document
}

func flattened(faults []fault.Field, err error) []fault.Field {
	var many openapi3.MultiError
	if errors.As(err, &many) {
		for _, one := range many {
			faults = flattened(faults, one)
		}
		return faults
	}
	var schema *openapi3.SchemaError
	if errors.As(err, &schema) {
		var inner openapi3.MultiError
		if errors.As(schema.Origin, &inner) {
			return flattened(faults, inner)
		}
		pointer := ""
		for _, token := range schema.JSONPointer() {
			pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
		}
		return append(faults, fault.Field{Pointer: pointer, Reason: inDigits(schema.Reason)})
	}
	if err != nil {
		faults = append(faults, fault.Field{Reason: "not a schema's error: " + err.Error()})
	}
	return faults
}

var limits = regexp.MustCompile(`^(number must be at (?:least|most)) (\S+)$`)

// inDigits writes a limit as the specification does; kin-openapi's words are "at most 1e+12".
func inDigits(reason string) string {
	if found := limits.FindStringSubmatch(reason); found != nil {
		n, err := strconv.ParseFloat(found[2], 64)
		if err == nil {
			return fmt.Sprintf("%s %.0f", found[1], n)
		}
	}
	return reason
}

// sameFaults compares two lists in any order. The longer of them may have been cut.
func sameFaults(ours, theirs []fault.Field) string {
	order := func(a, b fault.Field) int { return strings.Compare(a.Pointer+"\n"+a.Reason, b.Pointer+"\n"+b.Reason) }
	ours, theirs = slices.SortedFunc(slices.Values(ours), order), slices.SortedFunc(slices.Values(theirs), order)
	if len(theirs) > contract.MaxFaults {
		if len(ours) != contract.MaxFaults {
			return fmt.Sprintf("%d faults of more than %d", len(ours), contract.MaxFaults)
		}
		known := func(f fault.Field) bool { return slices.Contains(theirs, f) }
		return cmp.Diff([]fault.Field{}, slices.DeleteFunc(ours, known))
	}
	return cmp.Diff(theirs, ours)
}

// compareBodies has both judge a document and says where they differ.
func compareBodies(o *operation, document []byte) (let bool, err error) {
	ours, err := decode(document)
	if err != nil {
		return false, nil //nolint:nilerr // nothing to judge
	}
	theirs, err := decode(document)
	if err != nil {
		return false, err
	}
	faults := o.rules.Check(ours)
	if diff := sameFaults(faults, judgedBody(o, theirs)); diff != "" {
		return false, fmt.Errorf("-kin-openapi +ours:\n%s", diff)
	}
	if len(faults) > 0 {
		return false, nil
	}
	if diff := cmp.Diff(asDecoded(theirs), ours); diff != "" {
		return false, fmt.Errorf("with the defaults, -kin-openapi +ours:\n%s", diff)
	}
	return true, nil
}

func TestBodiesAreJudgedAsByKinOpenAPI(t *testing.T) {
	t.Parallel()
	for _, o := range contractOperations(t) {
		if o.body == nil {
			continue
		}
		let, kept := 0, 0
		rapid.Check(t, func(rt *rapid.T) {
			g := &generator{source: drawn{rt}, known: map[string][]string{}}
			for range 10 {
				document := drawDocument(g, o)
				good, err := compareBodies(o, document)
				if err != nil {
					rt.Fatalf("%s: %v\n%q", o.id, err, document)
				}
				if good {
					let++
				} else {
					kept++
				}
			}
		})
		if let == 0 || kept == 0 {
			t.Errorf("%s: %d let in, %d refused: one side was not tried", o.id, let, kept)
		}
		t.Logf("%s: %d let in, %d refused", o.id, let, kept)
	}
}

// FuzzBodies has both judge any bytes at all.
func FuzzBodies(f *testing.F) {
	operations := contractOperations(f)
	for _, seed := range []string{order(), `{}`, `[]`, `null`, `{"metadata":null}`, order(set("~/", true)), order(set("items", []any{nil, 1, map[string]any{"a": 1}}))} {
		f.Add([]byte(seed))
	}
	g := &generator{source: rand.New(rand.NewPCG(1, 1)), known: map[string][]string{}}
	for _, o := range operations {
		for range 100 {
			if o.body != nil {
				f.Add(drawDocument(g, o))
			}
		}
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		for _, o := range operations {
			if o.body == nil {
				continue
			}
			if _, err := compareBodies(o, document); err != nil {
				t.Errorf("%s: %v", o.id, err)
			}
		}
	})
}

// judgedParameters is kin-openapi's judgement of a request's path, query and headers. It puts the defaults into the
// request.
func judgedParameters(o *operation, r *http.Request, path map[string]string) (faults []fault.Field, err error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	parameters := o.route.Operation.Parameters
	for name, given := range values {
		switch {
		case parameters.GetByInAndName(openapi3.ParameterInQuery, name) == nil:
			faults = append(faults, fault.Field{Pointer: "?" + name, Reason: "is not known"})
		case len(given) > 1:
			faults = append(faults, fault.Field{Pointer: "?" + name, Reason: "is there more than once"})
		}
	}
	for _, ref := range parameters {
		p := ref.Value
		place, sent := p.Name, r.Header.Get(p.Name)
		switch p.In {
		case openapi3.ParameterInPath:
			place, sent = "{"+p.Name+"}", path[p.Name]
		case openapi3.ParameterInQuery:
			place, sent = "?"+p.Name, values.Get(p.Name)
		}
		if p.Name == keyHeader || len(values[p.Name]) > 1 {
			continue
		}
		if strings.ContainsRune(sent, 0) {
			faults = append(faults, fault.Field{Pointer: place, Reason: "contains NUL"})
			continue
		}
		input := &openapi3filter.RequestValidationInput{Request: r, PathParams: path, QueryParams: values, Route: o.route}
		if err := openapi3filter.ValidateParameter(r.Context(), input, p); err != nil {
			faults = append(faults, fault.Field{Pointer: place, Reason: parameterReason(err)})
		}
	}
	return faults, nil
}

func parameterReason(err error) string {
	var schema *openapi3.SchemaError
	if errors.As(err, &schema) {
		return inDigits(schema.Reason)
	}
	if errors.Is(err, openapi3filter.ErrInvalidRequired) {
		return "is required"
	}
	return "cannot be read"
}

// compareParameters has both judge a request's parameters and says where they differ.
func compareParameters(ctx context.Context, o *operation, query string, path map[string]string, header http.Header) (let bool, err error) {
	request := func() *http.Request {
		r := httptest.NewRequestWithContext(ctx, o.route.Method, "/", nil)
		r.URL.RawQuery, r.Header = query, header.Clone()
		for name, value := range path {
			r.SetPathValue(name, value)
		}
		return r
	}
	ours, theirs := request(), request()
	_, read, err := o.validateParameters(ours)
	judged, unread := judgedParameters(o, theirs, maps.Clone(path))
	if unread != nil {
		if fault.KindOf(err) != fault.InvalidRequest {
			return false, fmt.Errorf("got %w, but the query cannot be read: %w", err, unread)
		}
		return false, nil
	}
	var faults *fault.Error
	if errors.As(err, &faults); faults == nil {
		faults = &fault.Error{}
	}
	repeated := map[string]bool{}
	for _, f := range faults.Fields {
		repeated[f.Pointer] = repeated[f.Pointer] || f.Reason == "is there more than once"
	}
	listed := slices.DeleteFunc(slices.Clone(faults.Fields), func(f fault.Field) bool {
		return repeated[f.Pointer] && f.Reason != "is there more than once" // which of them is judged does not matter
	})
	if diff := sameFaults(listed, judged); diff != "" {
		return false, fmt.Errorf("-kin-openapi +ours:\n%s", diff)
	}
	if len(listed) > 0 {
		return false, nil
	}
	given := map[string]string{}
	for name, values := range theirs.URL.Query() {
		given[name] = values[0]
	}
	return true, errors.Join(
		different("the query", theirs.URL.Query(), ours.URL.Query()), different("the headers", theirs.Header, ours.Header),
		different("the parameters", given, read),
	)
}

func different(what string, theirs, ours any) error {
	if diff := cmp.Diff(theirs, ours); diff != "" {
		return fmt.Errorf("%s, -kin-openapi +ours:\n%s", what, diff)
	}
	return nil
}

// drawParameters are those of a valid request, with some of them changed, lost, doubled or new.
func drawParameters(g *generator, o *operation) (query string, path map[string]string, header http.Header) {
	values, path, header := url.Values{}, map[string]string{}, http.Header{}
	for _, ref := range o.route.Operation.Parameters {
		p := ref.Value
		if p.Name == keyHeader {
			continue // neither's to judge
		}
		value := fmt.Sprint(g.value(p.Name, p.Schema.Value, false))
		if g.chance(30) {
			value = fmt.Sprint(choose(g, g.edges(p.Schema.Value)...).value)
		}
		if g.chance(10) {
			value = choose(g, append(hostile, "+7", "007", "-0", "1_0", "0x10", "1e1", " 7", "7 ", "9223372036854775808", "2147483648", "true", "T")...)
		}
		switch p.In {
		case openapi3.ParameterInPath:
			path[p.Name] = value
		case openapi3.ParameterInQuery:
			for g.chance(60) {
				values.Add(p.Name, value)
				if g.chance(90) {
					break
				}
			}
		case openapi3.ParameterInHeader:
			if g.chance(60) {
				header.Set(p.Name, value)
			}
		}
	}
	if g.chance(10) {
		values.Set(choose(g, hostile...), choose(g, hostile...))
	}
	query = values.Encode()
	if g.chance(10) {
		query = g.bend(query)
	}
	return query, path, header
}

func TestParametersAreJudgedAsByKinOpenAPI(t *testing.T) {
	t.Parallel()
	for _, o := range contractOperations(t) {
		if len(o.route.Operation.Parameters) == 0 {
			continue
		}
		let, kept := 0, 0
		rapid.Check(t, func(rt *rapid.T) {
			g := &generator{source: drawn{rt}, known: map[string][]string{}}
			for range 5 {
				query, path, header := drawParameters(g, o)
				good, err := compareParameters(t.Context(), o, query, path, header)
				if err != nil {
					rt.Fatalf("%s: %v\n%q %q %q", o.id, err, query, path, header)
				}
				if good {
					let++
				} else {
					kept++
				}
			}
		})
		if let == 0 || kept == 0 {
			t.Errorf("%s: %d let in, %d refused: one side was not tried", o.id, let, kept)
		}
		t.Logf("%s: %d let in, %d refused", o.id, let, kept)
	}
}

// contractOperations are those of the contract, in the order of their names.
func contractOperations(tb testing.TB) []*operation {
	tb.Helper()
	spec, err := loadSpecification(tb.Context(), orderonce.OpenAPI)
	if err != nil {
		tb.Fatal(err)
	}
	return slices.SortedFunc(slices.Values(spec.operations), func(a, b *operation) int { return strings.Compare(a.id, b.id) })
}
