package httpapi

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"
)

// source is where choices come from: a seeded generator, or rapid, which can make them smaller.
type source interface{ IntN(n int) int }

// generator makes values of the contract's schemas.
type generator struct {
	source
	known map[string][]string // values that mean something, by the name of a member or a parameter
}

// named are those whose form the schema says but not which values there are: only known ones are valid.
var named = []string{"currency", "operation", "page_token", "principal_id", "url"}

func choose[T any](s source, from ...T) T { return from[s.IntN(len(from))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) learn(name, value string) {
	if !slices.Contains(g.known[name], value) {
		g.known[name] = append(g.known[name], value)
	}
}

// learnFrom takes the strings of a document in, by the names of their members.
func (g *generator) learnFrom(name string, document any) {
	switch v := document.(type) {
	case map[string]any:
		for _, member := range sorted(v) {
			g.learnFrom(member, v[member])
		}
	case []any:
		for _, item := range v {
			g.learnFrom(name, item)
		}
	case string:
		g.learn(name, v)
	}
}

// one is a schema with what its allOf adds, and one choice of its oneOf.
func one(s source, schema *openapi3.Schema) *openapi3.Schema {
	if len(schema.OneOf) > 0 {
		return one(s, choose(s, schema.OneOf...).Value)
	}
	if len(schema.AllOf) == 0 {
		return schema
	}
	sum := *schema
	sum.AllOf, sum.Properties = nil, openapi3.Schemas{}
	for _, part := range schema.AllOf {
		p := one(s, part.Value)
		for name, property := range p.Properties {
			sum.Properties[name] = property
		}
		sum.Required = append(slices.Clone(sum.Required), p.Required...)
		if sum.Type == nil {
			required, properties := sum.Required, sum.Properties
			sum = *p
			sum.Required, sum.Properties = required, properties
		}
	}
	return &sum
}

// value makes a valid one. A whole one has every member that there can be.
func (g *generator) value(name string, schema *openapi3.Schema, whole bool) any {
	schema = one(g, schema)
	switch {
	case len(schema.Enum) > 0:
		return choose(g, schema.Enum...)
	case schema.Type.Is("object"):
		return g.object(schema, whole)
	case schema.Type.Is("array"):
		items := []any{}
		low := int(schema.MinItems)
		high := low + 3
		if schema.MaxItems != nil {
			high = min(high, int(*schema.MaxItems))
		}
		if whole {
			low = max(low, 1)
		}
		for range low + g.IntN(high-low+1) {
			items = append(items, g.value(name, schema.Items.Value, whole))
		}
		return items
	case schema.Type.Is("integer"):
		low, high := bounds(schema)
		return choose(g, low, high, min(low+1, high), low+int64(g.IntN(int(min(high-low, 1_000_000)+1))))
	case schema.Type.Is("boolean"):
		return g.chance(50)
	}
	if known := g.known[name]; len(known) > 0 && (slices.Contains(named, name) || g.chance(25)) {
		return choose(g, known...)
	}
	low, high := lengths(schema)
	return g.text(schema, choose(g, low, high, min(low+1, high), low+g.IntN(min(high-low, 40)+1)))
}

func (g *generator) object(schema *openapi3.Schema, whole bool) any {
	members := map[string]any{}
	for _, name := range sorted(schema.Properties) {
		if whole || slices.Contains(schema.Required, name) || g.chance(40) {
			members[name] = g.value(name, schema.Properties[name].Value, whole)
		}
	}
	if more := schema.AdditionalProperties.Schema; more != nil {
		high := 3 // a whole one leaves room for more
		if schema.MaxProps != nil && !whole {
			high = choose(g, min(high, int(*schema.MaxProps)), int(*schema.MaxProps))
		}
		for range g.IntN(high + 1) {
			members[g.text(openapi3.NewStringSchema(), 1+g.IntN(64))] = g.value("", more.Value, whole)
		}
	}
	return members
}

func bounds(schema *openapi3.Schema) (low, high int64) {
	low, high = math.MinInt64/4, math.MaxInt64/4
	if schema.Min != nil {
		low = int64(*schema.Min)
	}
	if schema.Max != nil {
		high = int64(*schema.Max)
	}
	return low, high
}

func lengths(schema *openapi3.Schema) (low, high int) {
	low, high = int(schema.MinLength), int(schema.MinLength)+40
	if schema.MaxLength != nil {
		high = int(*schema.MaxLength)
	}
	return low, high
}

// awkward are characters that readers, printers and databases stumble over, all of them allowed.
var awkward = []rune("aZ09 \t\n\r\x01\x1f\"\\/'<>&%;{}\u007f\u0085\u00a0é\u0301\u200b\u202e\u2028\ufeff\ufffd\uffff漢😀\U0010ffff")

// text is a string of n characters, or near it where the schema's form does not allow that many.
func (g *generator) text(schema *openapi3.Schema, n int) string {
	switch schema.Format {
	case "uuid":
		var id uuid.UUID
		for i := range id {
			id[i] = byte(g.IntN(256))
		}
		id[6], id[8] = 7<<4|id[6]&15, 2<<6|id[8]&63 // version 7, of the variant that has versions
		return id.String()
	case "date-time":
		at := time.Unix(int64(g.IntN(4_000_000_000)), int64(g.IntN(1_000_000_000)))
		offset := (g.IntN(2*23*4+1) - 23*4) * 15 * 60
		return at.In(time.FixedZone("", offset)).Format(choose(g, time.RFC3339, time.RFC3339Nano))
	}
	alphabet := awkward
	if schema.Pattern != "" {
		alphabet = alphabetOf(schema.Pattern)
	}
	form := regexp.MustCompile(schema.Pattern)
	for range 1000 {
		var b strings.Builder
		for range n {
			b.WriteRune(choose(g, alphabet...))
		}
		if form.MatchString(b.String()) {
			return b.String()
		}
		if g.chance(5) {
			low, high := lengths(schema)
			n = low + g.IntN(high-low+1)
		}
	}
	panic("the generator must be taught to write " + schema.Pattern)
}

// alphabetOf are the characters that a form speaks of.
func alphabetOf(pattern string) (alphabet []rune) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		panic(err) // the specification was loaded with it
	}
	var walk func(*syntax.Regexp)
	walk = func(r *syntax.Regexp) {
		if r.Op == syntax.OpCharClass {
			for i := 0; i < len(r.Rune); i += 2 {
				for c := r.Rune[i]; c <= min(r.Rune[i+1], r.Rune[i]+100); c++ {
					alphabet = append(alphabet, c)
				}
			}
		} else if r.Op == syntax.OpLiteral {
			alphabet = append(alphabet, r.Rune...)
		}
		for _, sub := range r.Sub {
			walk(sub)
		}
	}
	walk(tree)
	return alphabet
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// literal is written into a document as it is.
type literal string

// write is a document in one of its many spellings: members in any order, white space, escapes.
func (g *generator) write(document any) string {
	space := func() string { return choose(g, "", "", "", " ", "\n\t", "\r\n") }
	switch v := document.(type) {
	case literal:
		return string(v)
	case map[string]any:
		names := sorted(v)
		for i := range names {
			j := g.IntN(i + 1)
			names[i], names[j] = names[j], names[i]
		}
		for i, name := range names {
			names[i] = space() + g.spell(name) + space() + ":" + space() + g.write(v[name])
		}
		return "{" + strings.Join(names, ",") + space() + "}"
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = space() + g.write(item)
		}
		return "[" + strings.Join(items, ",") + space() + "]"
	case string:
		return g.spell(v)
	}
	text, err := json.Marshal(document)
	if err != nil {
		panic(err) // numbers, booleans and null
	}
	return string(text)
}

func (g *generator) spell(s string) string {
	text, err := json.Marshal(s)
	if err != nil || !utf8.ValidString(s) || g.chance(90) {
		return string(text)
	}
	var b strings.Builder
	for _, r := range s {
		if r > 0xffff {
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return `"` + b.String() + `"`
}
