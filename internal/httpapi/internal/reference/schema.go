package reference

import (
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// row is one parameter or one member of a body.
type row struct {
	Name     string
	In       string // of a parameter
	Type     string
	Required bool
	Rules    []string // what the value must keep to
	About    template.HTML
}

// schema is a named one that is no problem: those have pages of their own.
type schema struct {
	Name  string
	About template.HTML
	Type  string
	Rules []string
	Rows  []row
}

func schemas(doc *openapi3.T) (all []schema) {
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		ref := doc.Components.Schemas[name]
		if strings.HasPrefix(name, "Problem") && name != "Problem" || len(ref.Value.OneOf) > 0 {
			continue
		}
		r := rowOf(name, &openapi3.SchemaRef{Value: ref.Value}, false)
		all = append(all, schema{name, r.About, r.Type, r.Rules, rowsOf(ref)})
	}
	return all
}

func nameOf(ref *openapi3.SchemaRef) string {
	return strings.TrimPrefix(ref.Ref, "#/components/schemas/")
}

// depth is how far members of members are listed. A schema that is in itself has no end.
const depth = 7

// rowsOf lists the members of an object, and below each its own.
func rowsOf(ref *openapi3.SchemaRef) []row { return membersOf("", ref, depth) }

func membersOf(prefix string, ref *openapi3.SchemaRef, depth int) (rows []row) {
	if depth == 0 {
		return nil
	}
	s := merged(ref)
	for _, name := range sortedMembers(s) {
		member := s.Properties[name]
		rows = append(rows, rowOf(prefix+name, member, slices.Contains(s.Required, name)))
		rows = append(rows, membersOf(prefix+name+".", member, depth-1)...)
		if items := merged(member).Items; items != nil {
			rows = append(rows, membersOf(prefix+name+"[].", items, depth-1)...)
		}
	}
	return rows
}

// sortedMembers has what is required first. The document's own order is lost when it is read.
func sortedMembers(s *openapi3.Schema) []string {
	names := slices.Sorted(maps.Keys(s.Properties))
	slices.SortStableFunc(names, func(a, b string) int {
		return rank(slices.Contains(s.Required, a)) - rank(slices.Contains(s.Required, b))
	})
	return names
}

func rank(required bool) int {
	if required {
		return 0
	}
	return 1
}

// merged is a schema with the parts of its allOf in it.
func merged(ref *openapi3.SchemaRef) *openapi3.Schema {
	if len(ref.Value.AllOf) == 0 {
		return ref.Value
	}
	whole := *ref.Value
	whole.Properties = maps.Clone(whole.Properties)
	for _, one := range ref.Value.AllOf {
		part := merged(one)
		if whole.Properties == nil {
			whole.Properties = openapi3.Schemas{}
		}
		maps.Copy(whole.Properties, part.Properties)
		whole.Required = append(slices.Clone(whole.Required), part.Required...)
		if whole.Type == nil {
			whole.Type = part.Type
		}
		if whole.Description == "" {
			whole.Description = part.Description
		}
		if whole.Items == nil {
			whole.Items = part.Items
		}
		whole.Enum = append(slices.Clone(whole.Enum), part.Enum...)
		if whole.Format == "" {
			whole.Format = part.Format
		}
		if whole.Pattern == "" {
			whole.Pattern = part.Pattern
		}
		if whole.Example == nil {
			whole.Example = part.Example
		}
		whole.MinLength = max(whole.MinLength, part.MinLength)
		whole.MaxLength = tighter(whole.MaxLength, part.MaxLength)
	}
	return &whole
}

func tighter(a, b *uint64) *uint64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

func rowOf(name string, ref *openapi3.SchemaRef, required bool) row {
	s := merged(ref)
	return row{Name: name, Type: typeOf(s), Required: required, Rules: rulesOf(s), About: Prose(s.Description)}
}

func typeOf(s *openapi3.Schema) string {
	kind := "any"
	if s.Type != nil {
		kind = strings.Join(s.Type.Slice(), " or ")
	}
	switch {
	case kind == "array" && s.Items != nil:
		return "array of " + typeOf(merged(s.Items))
	case kind == "object" && s.AdditionalProperties.Schema != nil:
		return "object of " + typeOf(merged(s.AdditionalProperties.Schema))
	case s.Format != "":
		return kind + " (" + s.Format + ")"
	}
	return kind
}

// rulesOf are the bounds of a value, in words.
func rulesOf(s *openapi3.Schema) (rules []string) {
	span := func(least uint64, most *uint64, what string) {
		switch {
		case most != nil && least == *most:
			rules = append(rules, fmt.Sprintf("%d %s", least, what))
		case most != nil && least > 0:
			rules = append(rules, fmt.Sprintf("%d to %d %s", least, *most, what))
		case most != nil:
			rules = append(rules, fmt.Sprintf("at most %d %s", *most, what))
		case least > 0:
			rules = append(rules, fmt.Sprintf("at least %d %s", least, what))
		}
	}
	span(s.MinLength, s.MaxLength, "characters")
	span(s.MinItems, s.MaxItems, "items")
	span(s.MinProps, s.MaxProps, "members")
	if s.Min != nil {
		rules = append(rules, fmt.Sprintf("at least %s", asJSON(*s.Min)))
	}
	if s.Max != nil {
		rules = append(rules, fmt.Sprintf("at most %s", asJSON(*s.Max)))
	}
	if s.Pattern != "" {
		rules = append(rules, "matches "+s.Pattern)
	}
	if len(s.Enum) > 0 {
		var values []string
		for _, value := range s.Enum {
			values = append(values, fmt.Sprint(value))
		}
		rules = append(rules, "one of "+strings.Join(values, ", "))
	}
	if s.Default != nil {
		rules = append(rules, "default "+asJSON(s.Default))
	}
	if s.Extensions["x-fingerprint"] == "exclude" {
		rules = append(rules, "may differ between retries")
	}
	if s.AdditionalProperties.Schema != nil {
		for _, rule := range rulesOf(merged(s.AdditionalProperties.Schema)) {
			rules = append(rules, "each value "+rule)
		}
	}
	return rules
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
