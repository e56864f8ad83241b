package idempotency

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// Names and strings that would meet if a delimiter stood between them, or if one were not escaped.
var awkward = []string{"", "a", "b", "ab", "/", "a/b", "~", "~0", "~1", "0", "1", "{a}", "?a", "\x00", "\x01a", "true", "null"}

// drawTree draws a decoded JSON document of up to depth levels, small enough that two draws are often nearly equal.
func drawTree(t *rapid.T, depth int) any {
	kinds := 5
	if depth > 0 {
		kinds = 9 // containers about as often as values
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2, 3:
		return rapid.OneOf(rapid.Int64Range(-1, 1), rapid.Int64Range(1<<53-1, 1<<53+2), rapid.Int64()).Draw(t, "integer")
	case 4:
		return rapid.OneOf(rapid.SampledFrom(awkward), rapid.String()).Draw(t, "text")
	case 5, 6:
		items := make([]any, rapid.IntRange(0, 3).Draw(t, "items"))
		for i := range items {
			items[i] = drawTree(t, depth-1)
		}
		return items
	}
	members := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		members[rapid.OneOf(rapid.SampledFrom(awkward), rapid.String()).Draw(t, "name")] = drawTree(t, depth-1)
	}
	return members
}

// drawChange returns the document with one change in it, at a place of its choice: another value, a member or an item
// more, or one less. The document itself stays as it is.
func drawChange(t *rapid.T, document any) any {
	switch v := document.(type) {
	case map[string]any:
		names := sortedNames(v)
		changed := maps.Clone(v)
		switch rapid.SampledFrom([]string{"inside", "add", "remove", "replace"}).Draw(t, "change") {
		case "inside":
			if len(names) > 0 {
				name := rapid.SampledFrom(names).Draw(t, "member")
				changed[name] = drawChange(t, v[name])
				return changed
			}
		case "add":
			name := rapid.SampledFrom(awkward).Filter(func(s string) bool { return !slices.Contains(names, s) }).Draw(t, "name")
			changed[name] = drawTree(t, 1)
			return changed
		case "remove":
			if len(names) > 0 {
				delete(changed, rapid.SampledFrom(names).Draw(t, "member"))
				return changed
			}
		}
	case []any:
		changed := slices.Clone(v)
		switch rapid.SampledFrom([]string{"inside", "add", "remove", "replace"}).Draw(t, "change") {
		case "inside":
			if len(v) > 0 {
				i := rapid.IntRange(0, len(v)-1).Draw(t, "item")
				changed[i] = drawChange(t, v[i])
				return changed
			}
		case "add":
			return append(changed, drawTree(t, 1))
		case "remove":
			if len(v) > 0 {
				return changed[:len(v)-1]
			}
		}
	}
	return rapid.Custom(func(t *rapid.T) any { return drawTree(t, 1) }).
		Filter(func(other any) bool { return !reflect.DeepEqual(other, document) }).Draw(t, "other")
}

func bodyOf(tb testing.TB, document any) *Parameters {
	tb.Helper()
	p := &Parameters{}
	if err := p.Body(document); err != nil {
		tb.Fatal(err)
	}
	return p
}

func sumOf(tb testing.TB, document any) [32]byte {
	tb.Helper()
	return print("2026-11-01", "createOrder", bodyOf(tb, document)).sum
}

func TestEveryChangeOfTheBodyChangesThePrint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		document := drawTree(rt, 3)
		changed := drawChange(rt, document)
		if sumOf(t, document) == sumOf(t, changed) {
			rt.Fatalf("%#v and %#v have one print", document, changed)
		}
	})
}

// Case 11: the order of members and the white space between them say nothing; neither does how a character is written.
func TestSpellingOfTheBodyDoesNotChangeThePrint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		document := drawTree(rt, 3)
		first, second := spell(rt, document), spell(rt, document)
		if sumOf(t, decodeBody(t, first)) != sumOf(t, decodeBody(t, second)) {
			rt.Fatalf("%s and %s have two prints", first, second)
		}
	})
}

// spell writes the document as JSON, in one of the many ways there are.
func spell(t *rapid.T, document any) string {
	blank := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "blank") }
	var parts []string
	switch v := document.(type) {
	case map[string]any:
		for _, name := range rapid.Permutation(sortedNames(v)).Draw(t, "order") {
			parts = append(parts, blank()+spell(t, name)+blank()+":"+blank()+spell(t, v[name])+blank())
		}
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		for _, item := range v {
			parts = append(parts, blank()+spell(t, item)+blank())
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	return spellScalar(t, document, rapid.Bool().Draw(t, "escaped"))
}

// Case 9: no two requests meet by moving a piece from one part to its neighbour. Equal prints mean equal parts.
func TestPartsCannotBeMovedAcrossTheirFrames(t *testing.T) {
	t.Parallel()
	type request struct {
		APIVersion, Operation string
		Path, Query           map[string]string
		Body                  any
	}
	word := rapid.SampledFrom(awkward)
	parameters := rapid.MapOfN(word, word, 0, 2)
	draw := rapid.Custom(func(t *rapid.T) request {
		return request{
			word.Draw(t, "version"), word.Draw(t, "operation"), parameters.Draw(t, "path"), parameters.Draw(t, "query"),
			drawTree(t, 1),
		}
	})
	sum := func(r request) [32]byte {
		p := &Parameters{}
		p.Path(r.Path)
		p.Query(r.Query)
		if err := p.Body(r.Body); err != nil {
			t.Fatal(err)
		}
		return print(r.APIVersion, r.Operation, p).sum
	}
	rapid.Check(t, func(rt *rapid.T) {
		a, b := draw.Draw(rt, "a"), draw.Draw(rt, "b")
		// Alike but for one part, most of the time, or the draw would hardly ever come near a collision.
		switch rapid.IntRange(0, 4).Draw(rt, "alike") {
		case 0:
			b.Path, b.Query, b.Body = a.Path, a.Query, a.Body
		case 1:
			b.APIVersion, b.Operation, b.Body = a.APIVersion, a.Operation, a.Body
		case 2:
			b.Path, b.Query = a.Query, a.Path
		case 3:
			b = a
		}
		if equal := reflect.DeepEqual(a, b); equal != (sum(a) == sum(b)) {
			rt.Fatalf("equal is %v, equal prints is not, of\n%#v\n%#v", equal, a, b)
		}
	})
}

// Case 9 once more, by hand: each pair is one request to a form without lengths, or with them in the wrong place.
func TestCraftedSplitsHaveTheirOwnPrints(t *testing.T) {
	t.Parallel()
	// A value that carries the frames of the member that would follow it.
	smuggled := string(leaf{"/b", text, "y"}.append(nil))
	for _, pair := range [][2]*Parameters{
		{bodyOf(t, map[string]any{"a": "bc"}), bodyOf(t, map[string]any{"ab": "c"})},
		{bodyOf(t, map[string]any{"a": "x", "b": "y"}), bodyOf(t, map[string]any{"a": "x" + smuggled})},
		{bodyOf(t, map[string]any{"a": "x", "b": "y"}), bodyOf(t, map[string]any{"a": "x,b:y"})},
		{bodyOf(t, []any{"a", "b"}), bodyOf(t, []any{"a,b"})},
		{bodyOf(t, []any{"ab", "c"}), bodyOf(t, []any{"a", "bc"})},
		{bodyOf(t, []any{[]any{"a"}, "b"}), bodyOf(t, []any{[]any{"a", "b"}})},
		{bodyOf(t, map[string]any{"a": map[string]any{"b": "c"}}), bodyOf(t, map[string]any{"a/b": "c", "a": map[string]any{}})},
		{bodyOf(t, map[string]any{"a/b": "c"}), bodyOf(t, map[string]any{"a~1b": "c"})},
		{bodyOf(t, []any{"x"}), bodyOf(t, map[string]any{"0": "x"})},
		{pathAndQuery("a", "bc", "", ""), pathAndQuery("ab", "c", "", "")},
		{pathAndQuery("a", "x", "", ""), pathAndQuery("", "", "a", "x")},
		{pathAndQuery("a", "x?b", "", ""), pathAndQuery("a", "x", "b", "")},
	} {
		if print("v", "o", pair[0]) == print("v", "o", pair[1]) {
			t.Errorf("%v and %v have one print", pair[0].leaves, pair[1].leaves)
		}
	}
	if empty := (&Parameters{}); print("ab", "c", empty) == print("a", "bc", empty) {
		t.Error("version and operation have no frames")
	}
}

func pathAndQuery(pathName, pathValue, queryName, queryValue string) *Parameters {
	p := &Parameters{}
	if pathName != "" {
		p.Path(map[string]string{pathName: pathValue})
	}
	if queryName != "" {
		p.Query(map[string]string{queryName: queryValue})
	}
	return p
}

// Case 8: whatever changes what a request does changes its print, wherever it stands.
func TestPathAndQueryAreInThePrint(t *testing.T) {
	t.Parallel()
	seen := map[fingerprint]string{}
	for name, p := range map[string]*Parameters{
		"nothing":     {},
		"path":        pathAndQuery("orderId", "1", "", ""),
		"other path":  pathAndQuery("orderId", "2", "", ""),
		"query":       pathAndQuery("orderId", "1", "dry_run", "true"),
		"other query": pathAndQuery("orderId", "1", "dry_run", "false"),
		"empty query": pathAndQuery("orderId", "1", "dry_run", ""),
		"body":        bodyOf(t, map[string]any{"orderId": "1"}),
	} {
		made := print("2026-11-01", "cancelOrder", p)
		if other, met := seen[made]; met {
			t.Errorf("%s and %s have one print", name, other)
		}
		seen[made] = name
	}
}

// Case 10: integers are taken exactly, and no type stands for another.
func TestValuesThatLookAlikeHaveTheirOwnPrints(t *testing.T) {
	t.Parallel()
	seen := map[[32]byte]any{}
	for _, value := range []any{
		int64(1), "1", true, "true", false, nil, "null", "",
		map[string]any{},
		[]any{},
		"{}", "[]", int64(0), int64(-1),
		int64(1 << 53), int64(1<<53 + 1), int64(math.MaxInt64 - 1), int64(math.MaxInt64), int64(math.MinInt64), "9007199254740992",
		[]any{nil},
		[]any{[]any{}},
		[]any{int64(1), int64(2)},
		[]any{int64(2), int64(1)}, // arrays keep their order
		"é", "e\u0301",            // strings are compared as given: composed and decomposed are two
	} {
		for _, document := range []any{value, map[string]any{"a": value}} {
			sum := sumOf(t, document)
			if other, met := seen[sum]; met {
				t.Errorf("%#v and %#v have one print", document, other)
			}
			seen[sum] = document
		}
	}
}

// A value that has no rule must not get one by accident: a float would merge big integers (case 10).
func TestValueWithoutARuleIsAnError(t *testing.T) {
	t.Parallel()
	for _, value := range []any{1.0, 1, int32(1), uint64(1), []string{"a"}, map[string]string{}, struct{}{}} {
		for _, document := range []any{value, []any{value}, map[string]any{"a": value}} {
			if err := (&Parameters{}).Body(document); err == nil {
				t.Errorf("%#v has a canonical form", document)
			}
		}
	}
}

// spellScalar writes text with or without escapes, and everything else in the one way there is.
func spellScalar(t *rapid.T, value any, escaped bool) string {
	word, isText := value.(string)
	if !isText || !escaped {
		plain, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return string(plain)
	}
	out := `"`
	for _, unit := range utf16.Encode([]rune(word)) {
		out += fmt.Sprintf(`\u%04x`, unit)
	}
	return out + `"`
}
