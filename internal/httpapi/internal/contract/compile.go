package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"orderonce/internal/fault"
)

// keywords are those that the rules hold to, by the type that they are a rule for. A keyword that is not here is
// refused, with any type: it would be passed over, and somebody wrote it down to be kept.
var keywords = map[kind][]string{
	"string":  {"minLength", "maxLength", "pattern", "format", "enum"},
	"integer": {"minimum", "maximum", "format"},
	"boolean": {},
	"array":   {"items", "minItems", "maxItems"},
	"object":  {"properties", "required", "additionalProperties", "minProperties", "maxProperties"},
	"":        {}, // what has no type leaves all to the parts of its allOf
}

// common are for any type, or for people.
var common = []string{
	"type", "allOf", "nullable", "default", "title", "description", "example", "externalDocs", "deprecated",
}

// compiler makes rules of schemas. It knows the schemas it is in: one that is in itself would have no end.
type compiler struct{ open []*openapi3.Schema }

// always makes the rule of a schema in a place that is never empty: a default there would not be put in.
func (c *compiler) always(at string, ref *openapi3.SchemaRef) (rule, error) {
	if ref.Value.Default != nil {
		return nil, fmt.Errorf("%s/default: only for a member of an object, and a parameter", at)
	}
	return c.compile(at, ref)
}

// compile makes the rule of the schema at a place of the specification.
func (c *compiler) compile(at string, ref *openapi3.SchemaRef) (rule, error) {
	if ref.Ref != "" {
		// In 3.0 whatever stands beside a reference means nothing.
		if err := onlyAmong(at, ref, "$ref", "description", "summary"); err != nil {
			return nil, err
		}
		at = ref.Ref
	}
	schema := ref.Value
	if slices.Contains(c.open, schema) {
		return nil, fmt.Errorf("%s: is inside of itself", at)
	}
	c.open = append(c.open, schema)
	defer func() { c.open = c.open[:len(c.open)-1] }()

	var parts []rule
	for i, part := range schema.AllOf {
		r, err := c.always(fmt.Sprintf("%s/allOf/%d", at, i), part)
		if err != nil {
			return nil, err
		}
		parts = append(parts, r)
	}
	k, err := kindOf(schema)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if err := onlyAmong(at, schema, append(slices.Clone(common), keywords[k]...)...); err != nil {
		return nil, err
	}
	if schema.Nullable && schema.Default != nil {
		return nil, fmt.Errorf("%s/default: is null let in, or taken for a member that is not there?", at)
	}
	r, err := c.own(at, schema, k)
	if err != nil {
		return nil, err
	}
	if len(parts) > 0 {
		r = allOf{parts, r}
	}
	if schema.Nullable {
		r = nullable{r}
	}
	return r, nil
}

// kindOf is the type that a schema names. It is empty for one that leaves all to its parts.
func kindOf(schema *openapi3.Schema) (kind, error) {
	types := schema.Type.Slice()
	if len(types) == 0 && len(schema.AllOf) > 0 {
		return "", nil
	}
	if len(types) != 1 {
		return "", errors.New("must have one type")
	}
	k := kind(types[0])
	if _, known := keywords[k]; !known {
		return "", fmt.Errorf("no rule for the type %s: a number in a request is an integer of 64 bits", k)
	}
	return k, nil
}

// onlyAmong refuses what has other keywords than these, of the specification's own ones.
func onlyAmong(at string, of interface{ MarshalYAML() (any, error) }, keywords ...string) error {
	written, err := of.MarshalYAML() // what was written, also in keywords that a later kin-openapi knows
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	all, _ := written.(map[string]any)
	for _, keyword := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(keyword, "x-") && !slices.Contains(keywords, keyword) {
			return fmt.Errorf("%s/%s: no rule for this keyword here", at, fault.PointerToken(keyword))
		}
	}
	return nil
}

func (c *compiler) own(at string, schema *openapi3.Schema, k kind) (rule, error) {
	switch k {
	case "string":
		return compileText(at, schema)
	case "integer":
		return compileInteger(at, schema)
	case "array":
		return c.array(at, schema)
	case "object":
		return c.object(at, schema)
	case "boolean":
		return boolean{}, nil
	}
	return anything{}, nil
}

func compileText(at string, schema *openapi3.Schema) (rule, error) {
	t := &text{low: int(schema.MinLength), high: limit(schema.MaxLength)} //nolint:gosec // a limit of the contract, which no one writes past 2^31
	for _, value := range schema.Enum {
		s, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("%s/enum: holds what is no string", at)
		}
		t.enum = append(t.enum, s)
	}
	if t.enum != nil {
		allowed, err := json.Marshal(t.enum)
		if err != nil {
			return nil, fmt.Errorf("%s/enum: %w", at, err)
		}
		t.notInEnum = "value is not one of the allowed values " + string(allowed)
	}
	if schema.Pattern != "" {
		var err error
		if t.pattern, err = compilePattern(schema.Pattern); err != nil {
			return nil, fmt.Errorf("%s/pattern: %w", at, err)
		}
		t.noMatch = fmt.Sprintf(`string doesn't match the regular expression "%s"`, schema.Pattern)
	}
	if schema.Format != "" {
		if t.format = Formats[schema.Format]; t.format == nil {
			return nil, fmt.Errorf("%s/format: no rule for %q", at, schema.Format)
		}
		t.noFormat = fmt.Sprintf("string doesn't match the format %q", schema.Format)
	}
	return t, nil
}

func compileInteger(at string, schema *openapi3.Schema) (rule, error) {
	i := &integer{bits: 64}
	switch schema.Format {
	case "int32":
		i.bits = 32
	case "int64", "":
	default:
		return nil, fmt.Errorf("%s/format: no rule for %q", at, schema.Format)
	}
	var err error
	if i.low, err = bound(schema.Min); err != nil {
		return nil, fmt.Errorf("%s/minimum: %w", at, err)
	}
	if i.high, err = bound(schema.Max); err != nil {
		return nil, fmt.Errorf("%s/maximum: %w", at, err)
	}
	return i, nil
}

// bound is a limit as it was written. It was read as a float64, which has whole numbers up to 2^53 only.
func bound(f *float64) (*int64, error) {
	if f == nil {
		return nil, nil //nolint:nilnil // no limit, and that is well
	}
	if *f != math.Trunc(*f) || math.Abs(*f) >= 1<<53 {
		return nil, errors.New("is no whole number between -2^53 and 2^53")
	}
	n := int64(*f)
	return &n, nil
}

func limit(n *uint64) int {
	if n == nil {
		return -1
	}
	return int(*n) //nolint:gosec // as above
}

func (c *compiler) array(at string, schema *openapi3.Schema) (rule, error) {
	if schema.Items == nil {
		return nil, fmt.Errorf("%s: says nothing of its items", at)
	}
	items, err := c.always(at+"/items", schema.Items)
	return &array{items: items, low: int(schema.MinItems), high: limit(schema.MaxItems)}, err //nolint:gosec // as above
}

func (c *compiler) object(at string, schema *openapi3.Schema) (rule, error) {
	o := &object{known: map[string]bool{}, low: int(schema.MinProps), high: limit(schema.MaxProps)} //nolint:gosec // as above
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		place := at + "/properties/" + fault.PointerToken(name)
		property := schema.Properties[name]
		r, err := c.compile(place, property)
		if err != nil {
			return nil, err
		}
		standard, err := standardOf(r, property.Value.Default)
		if err != nil {
			return nil, fmt.Errorf("%s/default: %w", place, err)
		}
		o.known[name] = true
		o.members = append(o.members, member{name, r, slices.Contains(schema.Required, name), standard})
	}
	for _, name := range schema.Required {
		if !o.known[name] {
			o.members = append(o.members, member{name: name, required: true})
		}
	}
	slices.SortFunc(o.members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	if more := schema.AdditionalProperties; more.Schema != nil {
		r, err := c.always(at+"/additionalProperties", more.Schema)
		if err != nil {
			return nil, err
		}
		o.more = r
	} else if more.Has != nil {
		o.closed = !*more.Has
	}
	return o, nil
}

// standardOf is a default as a decoded document would have it, and as its own rule lets it in.
func standardOf(r rule, value any) (any, error) {
	standard, err := decoded(value)
	if err != nil || standard == nil {
		return nil, err
	}
	var found report
	r.check(&found, standard)
	if len(found.faults) > 0 {
		return nil, fmt.Errorf("%s %s", found.faults[0].Pointer, found.faults[0].Reason)
	}
	return standard, nil
}

// decoded is a value of the specification in the types of a document: the loader reads numbers as float64.
func decoded(value any) (any, error) {
	switch v := value.(type) {
	case nil, string, bool:
		return v, nil
	case float64:
		n, err := bound(&v)
		if err != nil {
			return nil, err
		}
		return *n, nil
	case []any:
		items := make([]any, len(v))
		for i := range v {
			var err error
			if items[i], err = decoded(v[i]); err != nil {
				return nil, err
			}
		}
		return items, nil
	case map[string]any:
		members := make(map[string]any, len(v))
		for name := range v {
			var err error
			if members[name], err = decoded(v[name]); err != nil {
				return nil, err
			}
		}
		return members, nil
	}
	return nil, fmt.Errorf("no rule for a %T", value)
}
