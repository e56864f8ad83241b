package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"testing"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/oapi-codegen/runtime"
	"pgregory.net/rapid"

	"orderonce"
	"orderonce/internal/fault"
	"orderonce/internal/httpapi/api"
	"orderonce/internal/httpapi/internal/contract"
	"orderonce/internal/idempotency"
)

// drawn lets rapid make the choices, so that it can make a failing document smaller.
type drawn struct{ *rapid.T }

func (d drawn) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(d.T, "choice") }

// What the door lets in is what the specification's own validator lets in and every reader reads alike; and then the
// handler can read it too.
func TestDoorAgreesWithTheSpecification(t *testing.T) {
	t.Parallel()
	spec, err := loadSpecification(t.Context(), orderonce.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range spec.operations {
		if o.body == nil {
			continue
		}
		let, kept := 0, 0
		rapid.Check(t, func(rt *rapid.T) {
			g := &generator{source: drawn{rt}, known: map[string][]string{}}
			document := drawDocument(g, o)
			value, err := decode(document)
			if plain := plainlyRead(document); (err == nil) != (plain == nil) {
				rt.Fatalf("decode says %v, but the plain rules %v\n%q", err, plain, document)
			}
			if err != nil {
				kept++
				return
			}
			err = o.validateBody(value)
			if oracle := validated(o, document); (err == nil) != (oracle == nil) {
				rt.Fatalf("the door says %v, but the validator %v\n%q", err, oracle, document)
			}
			if err != nil {
				kept++
				if fault.KindOf(err) != fault.ValidationFailed {
					rt.Fatalf("refused as %v\n%q", err, document)
				}
				return
			}
			let++
			c := &call{operation: o, parameters: &idempotency.Parameters{}}
			if err := c.admit(value); err != nil {
				rt.Fatalf("let in, and then: %v\n%q", err, document)
			}
			bound, decoded := new(api.PlaceOrder), new(api.PlaceOrder)
			if err := runtime.BindJSONValue(value, bound); err != nil {
				rt.Fatalf("let in, but the handler cannot read it: %v\n%q", err, document)
			}
			text, err := json.Marshal(value)
			if err == nil {
				err = json.Unmarshal(text, decoded)
			}
			if err != nil || !reflect.DeepEqual(bound, decoded) {
				rt.Fatalf("the handler gets %+v, a reader of its own %+v, %v\n%q", bound, decoded, err, document)
			}
		})
		if let == 0 || kept == 0 {
			t.Errorf("%s: %d let in, %d refused: one side was not tried", o.id, let, kept)
		}
	}
}

// drawDocument is a valid document, one with a value at or past a limit, one with a hostile value, or bent bytes.
func drawDocument(g *generator, o *operation) []byte {
	document := g.value("", o.body, g.chance(50))
	var at []place
	var schemas []*openapi3.Schema
	places(g, o.body, nil, func(p place, s *openapi3.Schema) { at, schemas = append(at, p), append(schemas, s) })
	i := g.IntN(len(at))
	switch g.IntN(5) {
	case 0:
		return []byte(g.write(document))
	case 1:
		return []byte(g.bend(g.write(document)))
	case 2:
		document = put(g.value("", o.body, true), at[i], choose[any](g, choose(g, hostileDocuments...), choose(g, hostile...)))
	case 3:
		schema := schemas[i]
		if schema.Type.Is("array") || schema.Type.Is("object") {
			break // their edges are hundreds of values: the fuzzer of the specification tries them
		}
		document = put(g.value("", o.body, true), at[i], choose(g, g.edges(schema)...).value)
	case 4:
		document = put(g.value("", o.body, true), at[i], g.value("", schemas[g.IntN(len(schemas))], false))
	}
	return []byte(g.write(document))
}

// validated asks the specification's validator about the bytes of a request.
func validated(o *operation, document []byte) error {
	r, err := http.NewRequest(o.route.Method, "/", bytes.NewReader(document)) //nolint:noctx // it is not sent
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	input := &openapi3filter.RequestValidationInput{
		Request: r, Route: o.route,
		Options: &openapi3filter.Options{
			SkipSettingDefaults:     true, // or null would be taken for a member that is not there
			SchemaValidationOptions: []openapi3.SchemaValidationOption{openapi3.EnableFormatValidation()},
		},
	}
	return openapi3filter.ValidateRequestBody(r.Context(), input, o.route.Operation.RequestBody.Value)
}

var (
	integer   = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	surrogate = regexp.MustCompile(`^\\u[dD][89a-fA-F]`)
)

// plainlyRead says, by other means than the door's, why a document is none that all JSON readers read alike.
func plainlyRead(document []byte) error {
	if !utf8.Valid(document) {
		return errors.New("no UTF-8")
	}
	if !json.Valid(document) {
		return errors.New("no JSON document, or more than one")
	}
	for i := 0; i < len(document); i++ {
		if document[i] != '\\' {
			continue
		}
		rest := document[i:]
		switch {
		case bytes.HasPrefix(rest, []byte(`\u0000`)):
			return errors.New("NUL")
		case surrogate.Match(rest):
			high, _ := strconv.ParseUint(string(rest[2:6]), 16, 16)
			low := uint64(0)
			if len(rest) >= 12 && rest[6] == '\\' && rest[7] == 'u' {
				low, _ = strconv.ParseUint(string(rest[8:12]), 16, 16)
			}
			if high >= 0xdc00 || low < 0xdc00 || low > 0xdfff {
				return errors.New("half a surrogate pair")
			}
			i += 11
		default:
			i++
		}
	}
	in := json.NewDecoder(bytes.NewReader(document))
	in.UseNumber()
	return plainValue(in, 0)
}

func plainValue(in *json.Decoder, depth int) error {
	if depth > maxDepth {
		return errors.New("too deep")
	}
	token, err := in.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Number:
		if _, err := v.Int64(); err != nil || !integer.MatchString(v.String()) {
			return errors.New("no 64-bit integer")
		}
	case json.Delim:
		names := map[string]bool{}
		for in.More() {
			if v == '{' {
				name, err := in.Token()
				if err != nil {
					return err
				}
				if names[name.(string)] {
					return errors.New("a name twice")
				}
				names[name.(string)] = true
			}
			if err := plainValue(in, depth+1); err != nil {
				return err
			}
		}
		_, err = in.Token()
		return err
	}
	return nil
}

// A default of an integer is the integer that a client would have sent: the same print, and no 500.
func TestDefaultOfAnIntegerIsWhole(t *testing.T) {
	t.Parallel()
	schema := openapi3.NewObjectSchema().WithProperty("wait", openapi3.NewIntegerSchema().WithDefault(float64(86400)))
	document := any(map[string]any{})
	rules, err := contract.CompileBody(openapi3.NewSchemaRef("", schema))
	if err != nil {
		t.Fatal(err)
	}
	err = (&operation{rules: rules}).validateBody(document)
	if want := any(map[string]any{"wait": int64(86400)}); err != nil || !reflect.DeepEqual(document, want) {
		t.Errorf("%#v, %v", document, err)
	}
}
