package contract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"orderonce/internal/fault"
)

// That the rules say what the schemas mean is tested a floor higher, where kin-openapi judges the same documents.

// bodyOf compiles the schema Body of a specification that has these schemas.
func bodyOf(t *testing.T, schemas string) (*Body, error) {
	t.Helper()
	source := "openapi: 3.0.3\ninfo: {title: t, version: '1'}\npaths: {}\ncomponents:\n  schemas:\n" + schemas
	doc, err := openapi3.NewLoader().LoadFromData([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return CompileBody(doc.Components.Schemas["Body"], "paths", "/a/{b}")
}

func mustBody(t *testing.T, schemas string) *Body {
	t.Helper()
	b, err := bodyOf(t, schemas)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A schema that says more than the rules would hold to is refused, with its place.
func TestWhatNoRuleHoldsIsRefused(t *testing.T) {
	t.Parallel()
	const at = "#/paths/~1a~1{b}"
	for schema, want := range map[string]string{
		"{type: string, uniqueItems: true}":                                                    at + "/uniqueItems",
		"{type: string, minimum: 1}":                                                           at + "/minimum",
		"{type: integer, multipleOf: 2}":                                                       at + "/multipleOf",
		"{type: integer, exclusiveMinimum: true}":                                              at + "/exclusiveMinimum",
		"{type: integer, enum: [1, 2]}":                                                        at + "/enum",
		"{type: integer, minLength: 1}":                                                        at + "/minLength",
		"{type: integer, minimum: 0.5}":                                                        at + "/minimum: is no whole number",
		"{type: integer, maximum: 9007199254740992}":                                           at + "/maximum: is no whole number",
		"{type: integer, format: int16}":                                                       at + `/format: no rule for "int16"`,
		"{type: number}":                                                                       at + ": no rule for the type number",
		"{}":                                                                                   at + ": must have one type",
		"{type: string, enum: [a, 1]}":                                                         at + "/enum: holds what is no string",
		"{type: string, format: email}":                                                        at + `/format: no rule for "email"`,
		"{type: string, pattern: '('}":                                                         at + "/pattern: ",
		"{type: string, pattern: '(?=a)'}":                                                     at + "/pattern: ",
		"{type: string, maxLenght: 1}":                                                         at + "/maxLenght",
		"{type: string, const: a}":                                                             at + "/const",
		"{type: array}":                                                                        at + ": says nothing of its items",
		"{type: array, items: {type: string, not: {type: string}}}":                            at + "/items/not",
		"{oneOf: [{type: string}]}":                                                            at + ": must have one type",
		"{type: object, oneOf: [{type: object}]}":                                              at + "/oneOf",
		"{type: object, anyOf: [{type: object}]}":                                              at + "/anyOf",
		"{type: object, discriminator: {propertyName: a}}":                                     at + "/discriminator",
		"{type: object, additionalProperties: {}}":                                             at + "/additionalProperties: must have one type",
		"{type: object, patternProperties: {a: {type: string}}}":                               at + "/patternProperties",
		"{type: object, properties: {a/b: {type: string, readOnly: true}}}":                    at + "/properties/a~1b/readOnly",
		"{type: object, properties: {a: {type: string, writeOnly: true}}}":                     at + "/properties/a/writeOnly",
		"{type: object, properties: {a: {type: string, default: 1}}}":                          at + "/properties/a/default",
		"{type: object, properties: {a: {type: integer, default: 1.5}}}":                       at + "/properties/a/default",
		"{type: object, properties: {a: {type: string, nullable: true, default: b}}}":          at + "/properties/a/default",
		"{type: string, default: a}":                                                           at + "/default: only for a member",
		"{type: array, items: {type: string, default: a}}":                                     at + "/items/default: only for a member",
		"{allOf: [{type: string, default: a}]}":                                                at + "/allOf/0/default: only for a member",
		"{type: object, additionalProperties: {type: string, default: a}}":                     at + "/additionalProperties/default: only for a member",
		"{allOf: [{type: integer}], format: int32}":                                            at + "/format",
		"{allOf: [{type: string}], maxLength: 1}":                                              at + "/maxLength",
		"{allOf: [{type: string, xml: {name: a}}]}":                                            at + "/allOf/0/xml",
		"{$ref: '#/components/schemas/Other'}\n    Other: {type: string, not: {type: string}}": "#/components/schemas/Other/not",
		"{type: object, properties: {a: {$ref: '#/components/schemas/Other', maxLength: 1}}}\n    Other: {type: string}":         at + "/properties/a/maxLength",
		"{type: object, properties: {a: {$ref: '#/components/schemas/Body'}}}":                                                   "#/components/schemas/Body: is inside of itself",
		"{allOf: [{$ref: '#/components/schemas/Other'}]}\n    Other: {type: array, items: {$ref: '#/components/schemas/Other'}}": "#/components/schemas/Other: is inside of itself",
	} {
		_, err := bodyOf(t, "    Body: "+schema)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", schema, err, want)
		}
	}
	for _, schema := range []string{
		"{type: string, title: a, description: b, example: c, deprecated: true, externalDocs: {url: 'http://a'}, x-any: 1}",
		"{allOf: [{type: string}], description: a}",
		"{type: object, properties: {a: {$ref: '#/components/schemas/Other'}, b: {$ref: '#/components/schemas/Other'}}}\n    Other: {type: string}",
	} {
		if _, err := bodyOf(t, "    Body: "+schema); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

// The order is the same each time, and the first faults are those that are listed.
func TestFaultsHaveAnOrder(t *testing.T) {
	t.Parallel()
	b := mustBody(t, `    Body:
      type: object
      additionalProperties: false
      required: [d, c]
      properties:
        c: {type: string}
        d: {type: string}
        a~/b: {type: array, minItems: 13, items: {type: object, maxProperties: 0, additionalProperties: {type: integer}}}
`)
	items := []any{}
	for range 12 {
		items = append(items, map[string]any{"y": int64(1), "x": "1"})
	}
	document := func() any { return map[string]any{"a~/b": items[:2], "d": nil, "z": true, "unknown": true} }
	want := []fault.Field{
		{Pointer: "/a~0~1b", Reason: "minimum number of items is 13"},
		{Pointer: "/a~0~1b/0", Reason: "there must be at most 0 properties"},
		{Pointer: "/a~0~1b/0/x", Reason: "value must be an integer"},
		{Pointer: "/a~0~1b/1", Reason: "there must be at most 0 properties"},
		{Pointer: "/a~0~1b/1/x", Reason: "value must be an integer"},
		{Pointer: "/c", Reason: `property "c" is missing`},
		{Pointer: "/d", Reason: "Value is not nullable"},
		{Pointer: "", Reason: `property "unknown" is unsupported`},
		{Pointer: "", Reason: `property "z" is unsupported`},
	}
	for range 20 {
		faults := b.Check(document())
		if diff := cmp.Diff(want, faults); diff != "" {
			t.Fatal(diff)
		}
	}
	faults := b.Check(map[string]any{"a~/b": items, "z": true})
	if len(faults) != MaxFaults || faults[19].Pointer != "/a~0~1b/9" || faults[18].Pointer != "/a~0~1b/8/x" {
		t.Errorf("%d faults: %v", len(faults), faults)
	}
	for i := range 100 {
		items = append(items, fmt.Sprint(i))
	}
	if faults := b.Check(items); len(faults) != 1 || faults[0] != (fault.Field{Reason: "value must be an object"}) {
		t.Errorf("%v", faults)
	}
}

// A default that one document got and changed is not the next one's.
func TestDefaultsAreEachDocumentsOwn(t *testing.T) {
	t.Parallel()
	b := mustBody(t, `    Body:
      type: object
      required: [a]
      properties:
        a:
          type: object
          default: {b: [{c: 1}]}
          properties: {b: {type: array, items: {type: object, additionalProperties: {type: integer}}}}
`)
	for range 2 {
		document := map[string]any{}
		if faults := b.Check(document); len(faults) > 0 {
			t.Error(faults)
		}
		want := map[string]any{"a": map[string]any{"b": []any{map[string]any{"c": int64(1)}}}}
		if diff := cmp.Diff(want, document); diff != "" {
			t.Error(diff)
		}
		list := document["a"].(map[string]any)["b"].([]any)
		list[0].(map[string]any)["c"] = int64(2)
		list[0] = nil
	}
}

func TestParametersThatNoRuleHoldsAreRefused(t *testing.T) {
	t.Parallel()
	text := openapi3.NewStringSchema()
	for want, p := range map[string]*openapi3.Parameter{
		"a: no rule for a parameter in a cookie":  {Name: "a", In: "cookie", Schema: text.NewRef()},
		"?a: /style: no rule":                     {Name: "a", In: "query", Style: "form", Schema: text.NewRef()},
		"?a: /explode: no rule":                   {Name: "a", In: "query", Explode: openapi3.Ptr(true), Schema: text.NewRef()},
		"?a: /allowEmptyValue: no rule":           {Name: "a", In: "query", AllowEmptyValue: true, Schema: text.NewRef()},
		"?a: /allowReserved: no rule":             {Name: "a", In: "query", AllowReserved: true, Schema: text.NewRef()},
		"?a: /content: no rule":                   {Name: "a", In: "query", Content: openapi3.NewContentWithJSONSchema(text)},
		"?a: has no schema":                       {Name: "a", In: "query"},
		"?a: schema/uniqueItems: no rule":         {Name: "a", In: "query", Schema: openapi3.NewStringSchema().WithUniqueItems(true).NewRef()},
		"?a: no rule for a parameter that is not": {Name: "a", In: "query", Schema: openapi3.NewArraySchema().WithItems(text).NewRef()},
		"a: no rule for a parameter that is not":  {Name: "a", In: "header", Schema: openapi3.NewStringSchema().WithNullable().NewRef()},
		"{a}: no rule for a parameter that is":    {Name: "a", In: "path", Required: true, Schema: openapi3.NewAllOfSchema(text).NewRef()},
		"{a}: default: it is required":            {Name: "a", In: "path", Required: true, Schema: openapi3.NewStringSchema().WithDefault("b").NewRef()},
		"a: default: it is required":              {Name: "a", In: "header", Required: true, Schema: openapi3.NewStringSchema().WithDefault("b").NewRef()},
		"a: default:  value must be an integer":   {Name: "a", In: "header", Schema: openapi3.NewIntegerSchema().WithDefault("b").NewRef()},
	} {
		if _, err := CompileParameter(p); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestParametersAreReadByTheirType(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		schema *openapi3.Schema
		sent   string
		want   string
	}{
		{openapi3.NewBoolSchema(), "true", ""},
		{openapi3.NewBoolSchema(), "0", ""},
		{openapi3.NewBoolSchema(), "yes", "cannot be read"},
		{openapi3.NewBoolSchema(), "", "cannot be read"},
		{openapi3.NewIntegerSchema(), "9223372036854775807", ""},
		{openapi3.NewIntegerSchema(), "9223372036854775808", "cannot be read"},
		{openapi3.NewIntegerSchema(), "1.0", "cannot be read"},
		{openapi3.NewIntegerSchema(), "", "cannot be read"},
		{openapi3.NewIntegerSchema(), "\x00", "contains NUL"},
		{openapi3.NewInt32Schema(), "2147483648", "cannot be read"},
		{openapi3.NewIntegerSchema().WithMax(1_000_000_000_000), "1000000000001", "number must be at most 1000000000000"},
		{openapi3.NewStringSchema().WithMinLength(2), "é", "minimum string length is 2"},
		{openapi3.NewStringSchema().WithMaxLength(1), "😀", ""},
		{openapi3.NewStringSchema().WithEnum("a", "<"), "b", `value is not one of the allowed values ["a","\u003c"]`},
		{openapi3.NewStringSchema(), "a\x00", "contains NUL"},
	} {
		p, err := CompileParameter(&openapi3.Parameter{Name: "a", In: "query", Schema: test.schema.NewRef()})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Check(test.sent); got != test.want {
			t.Errorf("%v of %q: got %q, want %q", test.schema.Type, test.sent, got, test.want)
		}
	}
}

// A body whose rows are judged one by one is judged as the whole would be: the rows by the rule of an item, and what is left
// by everything else that the schema says.
func TestRowsAreTakenOutOfTheirBody(t *testing.T) {
	t.Parallel()
	whole := mustBody(t, `    Body:
      type: object
      additionalProperties: false
      required: [rows]
      properties:
        rows: {type: array, minItems: 1, maxItems: 2, items: {type: string, maxLength: 3}}
        kept: {type: boolean, default: true}
        other: {type: string}
`)
	envelope, item, err := whole.Rows("rows")
	if err != nil {
		t.Fatal(err)
	}
	if faults := item.Check("four"); len(faults) != 1 || faults[0].Pointer != "" {
		t.Errorf("%v", faults)
	}
	for n, want := range map[int]int{0: 1, 1: 0, 2: 0, 3: 1} {
		document := map[string]any{"rows": make([]any, n)}
		if faults := envelope.Check(document); len(faults) != want {
			t.Errorf("%d rows: %v", n, faults)
		}
		if document["kept"] != true {
			t.Errorf("%v has no default", document)
		}
	}
	for _, document := range []any{map[string]any{}, map[string]any{"rows": "x"}, map[string]any{"rows": []any{"a"}, "x": nil}, []any{}} {
		got, want := envelope.Check(document), whole.Check(document)
		if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
			t.Errorf("%v (-whole +envelope)\n%s", document, diff)
		}
	}
	for name, body := range map[string]*Body{"other": whole, "none": whole, "rows": item} {
		if _, _, err := body.Rows(name); err == nil {
			t.Errorf("there are rows in %s", name)
		}
	}
}
