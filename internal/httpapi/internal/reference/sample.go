package reference

import (
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// SampleUUID stands for the id of something that the reader has to have.
const SampleUUID = "0198d0a6-0000-7000-8000-00000000c0de"

// sampleBody is a body to try an operation with: the contract's first example of it, or what its schemas' examples and
// rules add up to.
func sampleBody(media *openapi3.MediaType) any {
	if media.Example != nil {
		return media.Example
	}
	for _, name := range slices.Sorted(maps.Keys(media.Examples)) {
		return media.Examples[name].Value.Value
	}
	return sample(media.Schema, depth)
}

// sample is a value of a schema: an example, a default, or the least that the rules take. A pattern is not understood,
// so a schema with one needs an example.
func sample(ref *openapi3.SchemaRef, depth int) any {
	s := merged(ref)
	switch {
	case s.Example != nil:
		return s.Example
	case s.Default != nil:
		return s.Default
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type == nil || depth == 0:
		return map[string]any{}
	}
	switch kind := s.Type; {
	case kind.Is("object"):
		object := map[string]any{}
		for _, name := range s.Required {
			if member := s.Properties[name]; member != nil {
				object[name] = sample(member, depth-1)
			}
		}
		return object
	case kind.Is("array"):
		items := []any{}
		if s.Items != nil {
			items = append(items, sample(s.Items, depth-1))
		}
		return items
	case kind.Is("boolean"):
		return false
	case kind.Is("integer"), kind.Is("number"):
		if s.Min != nil {
			return *s.Min
		}
		return 1
	}
	switch s.Format {
	case "uuid":
		return SampleUUID
	case "date-time":
		return "2030-01-01T00:00:00Z"
	case "uri", "uri-reference":
		return "https://example.org/"
	}
	return "text" + strings.Repeat("x", max(0, int(min(s.MinLength, 1000))-len("text")))
}
