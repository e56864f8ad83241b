package httpapi

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
)

// edge is a value at a limit of a schema, on the one side or the other.
type edge struct {
	value any
	why   string
	valid bool
}

// edges are the values that a schema's own limits separate, and those of every other type.
func (g *generator) edges(schema *openapi3.Schema) (all []edge) {
	schema = one(g, schema)
	add := func(valid bool, why string, value any) { all = append(all, edge{value, why, valid}) }
	for name, value := range map[string]any{
		"null": literal("null"), "boolean": true, "string": "x", "array": []any{}, "object": map[string]any{},
		"integer": int64(1), "number": literal("1.5"), "exponent": literal("1e2"), "past int64": literal("9223372036854775808"),
		"huge": literal(strings.Repeat("9", 5000)), "no JSON": literal("NaN"), "NUL": literal(`"\u0000"`), "raw NUL": literal("\"\x00\""),
		"lone surrogate": literal(`"\udc00"`), "broken UTF-8": literal("\"\xc3\x28\""), "deep": literal(strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000)),
	} {
		if !schema.Type.Is(name) {
			add(false, name, value)
		}
	}
	slices.SortFunc(all, func(a, b edge) int { return strings.Compare(a.why, b.why) })
	switch {
	case len(schema.Enum) > 0:
		for _, value := range schema.Enum {
			add(true, "of the enum", value)
		}
		add(false, "outside the enum", "none-of-them")
	case schema.Type.Is("integer"):
		if schema.Min != nil {
			add(true, "minimum", int64(*schema.Min))
			add(false, "minimum - 1", int64(*schema.Min)-1)
			add(false, "the least", int64(math.MinInt64))
		}
		if schema.Max != nil {
			add(true, "maximum", int64(*schema.Max))
			add(false, "maximum + 1", int64(*schema.Max)+1)
			add(false, "the greatest", int64(math.MaxInt64))
		}
	case schema.Type.Is("string"):
		all = append(all, g.stringEdges(schema)...)
	case schema.Type.Is("array"):
		list := func(n uint64) (items []any) {
			item := g.value("", schema.Items.Value, false)
			for n > 1000 && len(g.write(item)) > 1000 { // thousands of large ones would be too large as a whole
				item = g.value("", schema.Items.Value, false)
			}
			for range n {
				if n <= 1000 {
					item = g.value("", schema.Items.Value, false)
				}
				items = append(items, item)
			}
			return items
		}
		add(true, "minItems", list(schema.MinItems))
		if schema.MinItems > 0 {
			add(false, "minItems - 1", list(schema.MinItems-1))
		}
		if schema.MaxItems != nil {
			add(true, "maxItems", list(*schema.MaxItems))
			add(false, "maxItems + 1", list(*schema.MaxItems+1))
		}
	case schema.Type.Is("object"):
		all = append(all, g.objectEdges(schema)...)
	}
	return all
}

func (g *generator) stringEdges(schema *openapi3.Schema) (all []edge) {
	switch schema.Format {
	case "uuid":
		valid := g.text(schema, 0)
		for why, text := range map[string]string{
			"a short UUID": valid[1:], "a long UUID": valid + "0", "a UUID in braces": "{" + valid + "}", "a UUID without hyphens": strings.ReplaceAll(valid, "-", ""),
			"a URN": "urn:uuid:" + valid, "a UUID with a strange digit": valid[:35] + "g", "a UUID and a line end": valid + "\n",
		} {
			all = append(all, edge{text, why, false})
		}
		slices.SortFunc(all, func(a, b edge) int { return strings.Compare(a.why, b.why) })
		return append(all, edge{strings.ToUpper(valid), "a UUID in capitals", true})
	case "date-time":
		for _, text := range []string{
			"", "yesterday", "2026-11-01", "2026-11-01T10:00:00", "2026-11-01 10:00:00Z", "2026-02-30T10:00:00Z", "2026-13-01T10:00:00Z",
			"2026-11-01T24:00:00Z", "2026-11-01T10:60:00Z", "2026-11-01T10:00:00+24:00", "2026-11-01T10:00:00,5Z", "2026-11-01T1:00:00Z", "2026-11-01T10:00:00Z ",
			"2026-12-31T23:59:60Z", // RFC 3339 has leap seconds, Go's time has none
		} {
			all = append(all, edge{text, "the time " + text, false})
		}
		return append(all, edge{"2028-02-29T23:59:59.999999999-23:59", "an odd time", true}, edge{"0000-01-01T00:00:00Z", "the year 0", true})
	}
	low, high := lengths(schema)
	all = append(all, edge{g.text(schema, low), "minLength", true})
	if low > 0 {
		all = append(all, edge{string([]rune(g.text(schema, low))[:low-1]), "minLength - 1", false})
	}
	if schema.MaxLength != nil {
		longest := g.text(schema, high)
		all = append(all, edge{longest, "maxLength", true}, edge{strings.Repeat("x", high+8000), "far over maxLength", false})
		if utf8.RuneCountInString(longest) == high {
			all = append(all, edge{longest + "x", "maxLength + 1", false})
		}
	}
	if schema.Pattern != "" {
		text := g.text(schema, low)
		for _, strange := range []string{text[1:] + " ", text[1:] + "\n", "é" + text[1:], text[1:] + "/", text[1:] + "%"} {
			if !regexp.MustCompile(schema.Pattern).MatchString(strange) {
				all = append(all, edge{strange, "a strange character", false})
			}
		}
	}
	return all
}

func (g *generator) objectEdges(schema *openapi3.Schema) (all []edge) {
	whole := func() map[string]any { return g.value("", schema, true).(map[string]any) }
	if len(schema.Properties) > 0 {
		all = append(all, edge{whole(), "every member", true})
	}
	for _, name := range sorted(schema.Properties) {
		less := whole()
		delete(less, name)
		all = append(all, edge{less, "without " + name, !slices.Contains(schema.Required, name)})
		twice := whole()
		value := literal(g.write(twice[name]))
		twice[name] = value + `,"` + literal(name) + `":` + value
		all = append(all, edge{twice, name + " twice", false})
	}
	if closed := schema.AdditionalProperties.Has; closed != nil && !*closed {
		for _, name := range sorted(schema.Properties) {
			other := whole()
			other[strings.ToUpper(name)] = other[name]
			delete(other, name)
			all = append(all, edge{other, name + " in capitals", false})
		}
		for _, name := range []string{"unknown", "", "__proto__", "id", strings.Repeat("x", 10_000)} {
			more := whole()
			more[name] = "x"
			all = append(all, edge{more, "an unknown member", false})
		}
	}
	if more := schema.AdditionalProperties.Schema; more != nil && schema.MaxProps != nil {
		many := map[string]any{}
		for i := range int(*schema.MaxProps) {
			many[strings.Repeat("n", i+1)] = g.value("", more.Value, false)
		}
		all = append(all, edge{maps.Clone(many), "maxProperties", true})
		many["one-more"] = g.value("", more.Value, false)
		all = append(all, edge{many, "maxProperties + 1", false})
		all = append(all, edge{literal(`{"a":"1","\u0061":"2"}`), "the same name in two spellings", false})
	}
	return all
}

// place is where a value stands in a document, as member names and array indexes.
type place []any

// places walks a whole document along its schema.
func places(s source, schema *openapi3.Schema, at place, visit func(place, *openapi3.Schema)) {
	schema = one(s, schema)
	visit(at, schema)
	below := func(step any) place { return append(slices.Clone(at), step) }
	for _, name := range sorted(schema.Properties) {
		places(s, schema.Properties[name].Value, below(name), visit)
	}
	if more := schema.AdditionalProperties.Schema; more != nil {
		places(s, more.Value, below("a-name"), visit)
	}
	if schema.Items != nil {
		places(s, schema.Items.Value, below(0), visit)
	}
}

// put is a document with another value in one place.
func put(document any, at place, value any) any {
	if len(at) == 0 {
		return value
	}
	switch v := document.(type) {
	case map[string]any:
		v = maps.Clone(v)
		name := at[0].(string)
		v[name] = put(v[name], at[1:], value)
		return v
	case []any:
		v = slices.Clone(v)
		v[at[0].(int)] = put(v[at[0].(int)], at[1:], value)
		return v
	}
	return put(map[string]any{}, at, value)
}
