// Package contract judges documents and parameters by the schemas of openapi.yaml, each compiled once, at the start.
//
// It owns what a schema means for a request: every limit, the words for each that is broken, and the defaults. It knows
// no HTTP and reads no JSON: documents come decoded, as map[string]any, []any, string, int64, bool and nil. It refuses
// to compile a schema that says anything it would not hold, so no rule of the contract is ever passed over in silence.
// Used with other Go types than those, it takes the values for ones of the wrong type.
package contract

import (
	"strconv"

	"github.com/getkin/kin-openapi/openapi3"

	"orderonce/internal/fault"
)

// MaxFaults bounds how many faults of one request are listed.
const MaxFaults = 20

// Body is what the contract says of a request's body. It is safe for concurrent use.
type Body struct{ rule rule }

// CompileBody makes the rules of the schema that stands behind these tokens in the specification. An error names the
// place, as a JSON Pointer behind "#", of what no rule can be made of.
func CompileBody(schema *openapi3.SchemaRef, tokens ...string) (*Body, error) {
	at := "#"
	for _, token := range tokens {
		at += "/" + fault.PointerToken(token)
	}
	r, err := (&compiler{}).always(at, schema)
	if err != nil {
		return nil, err
	}
	return &Body{r}, nil
}

// Check lists what is wrong with a document, MaxFaults at most, always in the same order: an array's items as they
// come, an object's members by name and after them those that no schema names. Reasons hold no values. Defaults are put
// into the document itself. After a fault, some may be missing.
func (b *Body) Check(document any) []fault.Field {
	var r report
	b.rule.check(&r, document)
	return r.faults
}

// report is what was found out so far. A rule knows its own value and not where that stands: places are written on the
// way out, where there is a fault, so that a document without one has no price for them.
type report struct {
	faults []fault.Field
}

func (r *report) add(reason string) {
	if !r.full() {
		r.faults = append(r.faults, fault.Field{Reason: reason})
	}
}

func (r *report) full() bool { return len(r.faults) >= MaxFaults }

// member judges a value inside of an object.
func (r *report) member(name string, rule rule, value any) {
	found := len(r.faults)
	rule.check(r, value)
	r.below(found, name)
}

// item judges a value inside of an array.
func (r *report) item(i int, rule rule, value any) {
	found := len(r.faults)
	rule.check(r, value)
	if len(r.faults) > found {
		r.below(found, strconv.Itoa(i))
	}
}

// below says of the faults since the first of them that they stand behind a reference token of RFC 6901.
func (r *report) below(first int, token string) {
	if first == len(r.faults) {
		return
	}
	token = "/" + fault.PointerToken(token)
	for i := first; i < len(r.faults); i++ {
		r.faults[i].Pointer = token + r.faults[i].Pointer
	}
}
