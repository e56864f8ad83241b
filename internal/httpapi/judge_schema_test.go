package httpapi

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"

	"orderonce/internal/httpapi/internal/contract"
)

// The next endpoint's schema will use what today's do not. These are made up of every keyword that the rules know, in
// any combination, and documents of a few names and values are judged by them, so that many come near a limit.

var (
	memberNames   = []string{"a", "b", "é", "~/", ""}
	shortTexts    = []string{"", "a", "b", "ab", "é", "é漢😀", "a\u0301", "0198d0a6-4b7c-7d3e-9a51-0f6d2c3b4a59", "2026-11-01T10:00:00Z", "2026-11-01T10:00:00.5+01:00", "\n"}
	shortPatterns = []string{`^[a-b]+$`, `^[a-b]*$`, `^[ab]{1,2}$`, `^[ab]{2}$`, `^[ab]{1,}$`, `a`, `^a`, `b$`, `^[^a]+$`, `^[a-é]+$`, `^\u00E9`, `^(a|b)$`, `^[[:alpha:]]+$`, `^(?i)[a]+$`, `^(?i)[k]+$`, `^.+$`, `^$`, `[ab]`, `^[ab]$`}
	smallIntegers = []int64{-1, 0, 1, 2, 3, 1<<31 - 1, 1 << 31, -1 << 31, -1<<31 - 1, 1<<53 - 1, 1 << 62, -1 << 63}
)

// schema makes one of a type, with defaults or without.
func (g *generator) schema(of string, depth int, defaults bool) *openapi3.Schema {
	s := &openapi3.Schema{Type: &openapi3.Types{of}, Nullable: !defaults && g.chance(20)}
	maybe := func() *uint64 {
		n := uint64(g.IntN(4))
		if g.chance(60) {
			return nil
		}
		return &n
	}
	few := func() uint64 { return uint64(max(0, g.IntN(5)-2)) }
	nested := func() *openapi3.SchemaRef {
		return g.schema(choose(g, "string", "integer", "boolean", "array", "object"), depth-1, defaults).NewRef()
	}
	if depth > 0 && g.chance(25) {
		for range 1 + g.IntN(2) {
			s.AllOf = append(s.AllOf, g.schema(of, depth-1, defaults).NewRef())
		}
		if g.chance(50) {
			s.Type = nil
			return s
		}
	}
	switch of {
	case "string":
		s.MinLength, s.MaxLength = few(), maybe()
		if g.chance(40) {
			s.Pattern = choose(g, shortPatterns...)
		}
		if g.chance(20) {
			s.Format = choose(g, "uuid", "date-time")
		}
		if g.chance(20) {
			s.Enum = []any{choose(g, shortTexts...), choose(g, shortTexts...)}
		}
	case "integer":
		s.Format = choose(g, "", "int32", "int64")
		for _, bound := range []**float64{&s.Min, &s.Max} {
			if n := float64(choose(g, smallIntegers[:10]...)); g.chance(50) {
				*bound = &n
			}
		}
	case "array":
		s.Items = openapi3.NewBoolSchema().NewRef()
		if depth > 0 {
			s.Items = nested()
		}
		s.MinItems, s.MaxItems = few(), maybe()
	case "object":
		s.MinProps, s.MaxProps = few(), maybe()
		switch g.IntN(4) {
		case 0:
			s.AdditionalProperties.Has = openapi3.Ptr(g.chance(50))
		case 1:
			s.AdditionalProperties.Schema = g.schema("string", 0, defaults).NewRef()
		}
		for _, name := range memberNames {
			if depth > 0 && g.chance(50) {
				g.property(s, name, nested(), defaults)
			} else if g.chance(20) {
				s.Required = append(s.Required, name)
			}
		}
	}
	return s
}

func (g *generator) property(s *openapi3.Schema, name string, p *openapi3.SchemaRef, defaults bool) {
	if s.Properties == nil {
		s.Properties = openapi3.Schemas{}
	}
	s.Properties[name] = p
	if !defaults || g.chance(50) {
		if g.chance(40) {
			s.Required = append(s.Required, name)
		}
		return
	}
	value := asLoaded(g.document(p.Value, false))
	if p.Value.VisitJSON(value) == nil {
		p.Value.Default = value
	}
}

// asLoaded is a value as it is read from the specification, where numbers end at 2^53.
func asLoaded(value any) any {
	switch v := value.(type) {
	case int64:
		return float64(v % (1 << 53))
	case []any:
		for i := range v {
			v[i] = asLoaded(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = asLoaded(v[name])
		}
	}
	return value
}

// document is one for a schema, mostly of its types, and one time in two of its limits.
func (g *generator) document(s *openapi3.Schema, nulls bool) any {
	for len(s.AllOf) > 0 && g.chance(50) {
		s = s.AllOf[0].Value
	}
	of := choose(g, "string", "integer", "boolean", "array", "object")
	if s.Type != nil && g.chance(90) {
		of = (*s.Type)[0]
	}
	if nulls && g.chance(5) {
		return nil
	}
	switch of {
	case "string":
		if len(s.Enum) > 0 && g.chance(50) {
			return choose(g, s.Enum...)
		}
		return choose(g, shortTexts...)
	case "integer":
		return choose(g, smallIntegers...)
	case "boolean":
		return g.chance(50)
	case "array":
		items := []any{}
		for range g.IntN(4) {
			if s.Items != nil {
				items = append(items, g.document(s.Items.Value, nulls))
			}
		}
		return items
	}
	members := map[string]any{}
	for _, name := range memberNames {
		p := s.Properties[name]
		switch {
		case p != nil && g.chance(70):
			members[name] = g.document(p.Value, nulls)
		case p == nil && g.chance(15):
			members[name] = choose(g, shortTexts...)
		}
	}
	return members
}

func TestAnySchemaIsJudgedAsByKinOpenAPI(t *testing.T) {
	t.Parallel()
	defineFormats()
	let, kept, put := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		g := &generator{source: drawn{rt}}
		defaults := g.chance(50)
		o := &operation{body: g.schema(choose(g, "string", "integer", "array", "object", "object"), 3, defaults)}
		rules, err := contract.CompileBody(o.body.NewRef())
		if err != nil {
			rt.Fatalf("%v\n%s", err, written(o.body))
		}
		o.rules = rules
		for range 30 {
			document := []byte(g.write(g.document(o.body, !defaults)))
			good, err := compareBodies(o, document)
			if err != nil {
				rt.Fatalf("%v\n%s\n%q", err, written(o.body), document)
			}
			switch {
			case !good:
				kept++
			case defaults:
				put++
				fallthrough
			default:
				let++
			}
		}
	})
	if let == 0 || kept == 0 || put == 0 {
		t.Errorf("%d let in, %d refused, %d where there are defaults: one side was not tried", let, kept, put)
	}
	t.Logf("%d let in, %d refused, %d where there are defaults", let, kept, put)
}

func written(s *openapi3.Schema) string {
	text, err := s.MarshalJSON()
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(text)
}

// Each limit of each schema of a body, and each other type in each place, once.
func TestEveryEdgeIsJudgedAsByKinOpenAPI(t *testing.T) {
	t.Parallel()
	var tried []string
	for _, o := range contractOperations(t) {
		if o.body == nil {
			continue
		}
		g := &generator{source: rand.New(rand.NewPCG(1, 1)), known: map[string][]string{}}
		before := len(tried)
		places(g, o.body, nil, func(at place, schema *openapi3.Schema) {
			for _, e := range g.edges(schema) {
				document := g.write(put(g.value("", o.body, true), at, e.value))
				good, err := compareBodies(o, []byte(document))
				if err != nil {
					t.Errorf("%s, %v: %s: %v", o.id, at, e.why, err)
				}
				if good != e.valid {
					t.Errorf("%s, %v: %s: let in: %t", o.id, at, e.why, good)
				}
				tried = append(tried, e.why)
			}
		})
		if n := len(tried) - before; n < 40 {
			t.Errorf("%s: only %d edges", o.id, n)
		}
	}
	if !slices.Contains(tried, "maxItems + 1") {
		t.Errorf("only %q", slices.Compact(slices.Sorted(slices.Values(tried))))
	}
}
