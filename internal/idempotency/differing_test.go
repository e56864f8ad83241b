package idempotency

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDifferingNamesThePlaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second string
		want          []string
	}{
		"nothing":                  {`{"a":1,"b":[{}]}`, `{"b":[{}],"a":1}`, nil},
		"a value":                  {`{"a":1,"b":2}`, `{"a":1,"b":3}`, []string{"/b"}},
		"a type":                   {`{"a":1}`, `{"a":"1"}`, []string{"/a"}},
		"two values":               {`{"c":1,"a":{"b":1},"d":1}`, `{"c":2,"a":{"b":2},"d":1}`, []string{"/a/b", "/c"}},
		"an added member":          {`{"a":1}`, `{"a":1,"b":2}`, []string{"/b"}},
		"a removed member":         {`{"a":1,"b":2}`, `{"a":1}`, []string{"/b"}},
		"a renamed member":         {`{"a":1}`, `{"b":1}`, []string{"/a", "/b"}},
		"an added whole":           {`{"a":1}`, `{"a":1,"b":{"c":{"d":1,"e":2}}}`, []string{"/b"}},
		"a removed whole":          {`{"a":1,"b":[{"c":1},{"c":2}]}`, `{"a":1}`, []string{"/b"}},
		"a value in an item":       {`{"items":[{"n":1},{"n":2}]}`, `{"items":[{"n":1},{"n":3}]}`, []string{"/items/1/n"}},
		"an added item":            {`{"items":[{"n":1}]}`, `{"items":[{"n":1},{"n":2}]}`, []string{"/items/1"}},
		"a removed item":           {`{"items":[{"n":1},{"n":2}]}`, `{"items":[{"n":1}]}`, []string{"/items/1"}},
		"an added member of one":   {`{"items":[{"n":1}]}`, `{"items":[{"n":1,"m":2}]}`, []string{"/items/0/m"}},
		"items in another order":   {`{"items":["a","b"]}`, `{"items":["b","a"]}`, []string{"/items/0", "/items/1"}},
		"a value now a container":  {`{"a":1}`, `{"a":{"b":{"c":1}}}`, []string{"/a"}},
		"a container now a value":  {`{"a":{"b":1,"c":2}}`, `{"a":null}`, []string{"/a"}},
		"first member of an empty": {`{"a":{}}`, `{"a":{"b":1}}`, []string{"/a"}},
		"empties of two types":     {`{"a":{}}`, `{"a":[]}`, []string{"/a"}},
		"a name with a slash":      {`{"a/b":1,"a":{"b":1}}`, `{"a/b":2,"a":{"b":1}}`, []string{"/a~1b"}},
		"a name with a tilde":      {`{"a~b":1,"~1":1,"/":1}`, `{"a~b":2,"~1":2,"/":1}`, []string{"/a~0b", "/~01"}},
		"an empty name":            {`{"":1,"a":1}`, `{"":2,"a":1}`, []string{"/"}},
		"a name that begins alike": {`{"ab":1,"a":1}`, `{"ab":2}`, []string{"/a", "/ab"}},
		"the whole":                {`1`, `2`, []string{""}},
		"many more places":         {`{"a":1}`, `{"a":1,"m":{` + members(100) + `}}`, []string{"/m"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := bodyOf(t, decodeBody(t, c.first)), bodyOf(t, decodeBody(t, c.second))
			wantDiffering(t, first, second, c.want)
		})
	}
}

func members(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"%02d":0`, i))
	}
	return strings.Join(out, ",")
}

func wantDiffering(t *testing.T, first, second *Parameters, want []string) {
	t.Helper()
	got, err := differing(digest(first), second)
	if err != nil || !cmp.Equal(append([]string{}, want...), append([]string{}, got...)) {
		t.Errorf("differing is %q, %v; want %q", got, err, want)
	}
}

func TestDifferingNamesPathAndQuery(t *testing.T) {
	t.Parallel()
	first, second := pathAndQuery("orderId", "1", "dry_run", "true"), pathAndQuery("orderId", "2", "dry_run", "false")
	wantDiffering(t, first, second, []string{"?dry_run", "{orderId}"})
	wantDiffering(t, first, pathAndQuery("orderId", "1", "", ""), []string{"?dry_run"})
	wantDiffering(t, pathAndQuery("orderId", "1", "", ""), first, []string{"?dry_run"})
}

// A record spends its bytes on maxDigests places. Past that it still says where, if less exactly.
func TestDifferingIsCoarserForBigRequests(t *testing.T) {
	t.Parallel()
	order := func(items, changed int, note string) *Parameters {
		var list []any
		for i := range items {
			quantity := int64(1)
			if i == changed {
				quantity = 2
			}
			list = append(list, map[string]any{"sku": fmt.Sprint(i), "quantity": quantity})
		}
		return bodyOf(t, map[string]any{"items": list, "note": note})
	}
	for name, c := range map[string]struct {
		items, depth int
		want         []string
	}{
		"exact":      {31, 0, []string{"/items/7/quantity"}}, // 63 places
		"by item":    {32, 2, []string{"/items/7"}},
		"by member":  {70, 1, []string{"/items"}},
		"limit of 2": {63, 2, []string{"/items/7"}},
		"past it":    {64, 1, []string{"/items"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := order(c.items, -1, "")
			stored := digest(first)
			if depth, groups, err := decodeDigests(stored); err != nil || depth != c.depth || len(groups) > maxDigests {
				t.Errorf("depth %d with %d places, %v; want depth %d", depth, len(groups), err, c.depth)
			}
			wantDiffering(t, first, first, nil)
			wantDiffering(t, first, order(c.items, 7, ""), c.want)
			wantDiffering(t, first, order(c.items, 7, "other"), append(c.want, "/note"))
			// The second request's own size does not matter: it is compared at the depth of the first.
			grown := []string{fmt.Sprintf("/items/%d", c.items)}
			if c.depth == 1 {
				grown = []string{"/items"}
			}
			wantDiffering(t, first, order(c.items+1, -1, ""), grown)
		})
	}
}

// Whatever one change is made of, the client is pointed to it: at the place, above it, or at what came or went there.
func TestDifferingIsEmptyForEqualRequestsOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		document := drawTree(rt, 3)
		changed := drawChange(rt, document)
		first, second := bodyOf(t, document), bodyOf(t, changed)
		if reflect.DeepEqual(shape(document), shape(changed)) {
			// Containers speak through their members alone, so an object with the members "0", "1" and an array of
			// two have the same digests. The contract gives each place one type, which keeps this from happening.
			rt.Skip()
		}
		got, err := differing(digest(first), second)
		if err != nil || len(got) == 0 {
			rt.Fatalf("differing is %q, %v for\n%#v\n%#v", got, err, document, changed)
		}
		if same, err := differing(digest(first), first); err != nil || len(same) != 0 {
			rt.Fatalf("%#v differs from itself at %q, %v", document, same, err)
		}
	})
}

// shape is the document with the arrays that have items as objects.
func shape(document any) any {
	members := map[string]any{}
	switch v := document.(type) {
	case map[string]any:
		for name, member := range v {
			members[name] = shape(member)
		}
	case []any:
		if len(v) == 0 {
			return v
		}
		for i, item := range v {
			members[fmt.Sprint(i)] = shape(item)
		}
	default:
		return document
	}
	return members
}

// What a client sent must not be readable from the digests: they outlive the request by days.
func TestDigestsHoldNoValues(t *testing.T) {
	t.Parallel()
	const secret = "sesame-4711"
	p := pathAndQuery("orderId", secret, "token", secret)
	if err := p.Body(map[string]any{"a": secret, "b": []any{secret, int64(4711471147)}, "c": true}); err != nil {
		t.Fatal(err)
	}
	stored := digest(p)
	for _, value := range []string{secret, "4711471147", "true"} {
		if bytes.Contains(stored, []byte(value)) {
			t.Errorf("%q is in the digests %q", value, stored)
		}
	}
}

func TestBrokenDigestsAreAnError(t *testing.T) {
	t.Parallel()
	whole := digest(bodyOf(t, map[string]any{"first": "1", "second": "2"}))
	broken := [][]byte{
		nil,
		{},
		{3},
		{255},
		{0, 1},
		{0, 1, 0, 1, 2, 3, 4}, // shares a byte with nothing
		{0, 0, 2, '/', 'a', 1, 2, 3, 4, 3, 0, 1, 2, 3, 4},
		append([]byte{0}, bytes.Repeat([]byte{0xff}, 11)...),
	}
	for cut := 2; cut < len(whole); cut++ {
		if cut != 1+2+len("/first")+digestLength { // there the first place ends, and so would a whole encoding
			broken = append(broken, whole[:cut])
		}
	}
	for _, stored := range broken {
		if got, err := differing(stored, &Parameters{}); err == nil {
			t.Errorf("%x says that it differs at %q", stored, got)
		}
	}
}

// FuzzDecodeDigests: stored bytes, however broken, are read or refused and never crash the answer to a client.
func FuzzDecodeDigests(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add([]byte{2, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0, 1, 0, 1, 2, 3, 4})
	f.Add([]byte{0, 0, 1, '/', 1, 2, 3, 4, 1, 1, 'a', 1, 2, 3, 4})
	f.Add(digest(bodyOf(f, map[string]any{"a": map[string]any{"b": "c", "bc": "d"}, "a/b": []any{int64(1)}})))
	p := bodyOf(f, map[string]any{"a": map[string]any{"b": "c"}, "a/b": []any{int64(1), true}})
	f.Fuzz(func(t *testing.T, stored []byte) {
		depth, groups, err := decodeDigests(stored)
		if err != nil {
			return
		}
		if depth < 0 || depth > 2 || len(stored) < 1+len(groups)*(2+digestLength) {
			t.Errorf("depth %d and %d places out of %d bytes", depth, len(groups), len(stored))
		}
		if _, err := differing(stored, p); err != nil {
			t.Errorf("decoded and then refused: %v", err)
		}
	})
}

// FuzzCanonical takes two JSON documents: they have one print if and only if they are equal.
func FuzzCanonical(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"a":1}`, `{ "a" : 1 }`},
		{`{"a":{"b":"c"}}`, `{"a/b":"c","a":{}}`},
		{`[9007199254740992]`, `[9007199254740993]`},
		{`{"~":["",null,{}]}`, `{"~0":["",null,[]]}`},
		{`"\u0000"`, `""`},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		first, second := fuzzedTree(t, a), fuzzedTree(t, b)
		equal := reflect.DeepEqual(first, second)
		if sums := sumOf(t, first) == sumOf(t, second); sums != equal {
			t.Errorf("equal is %v, equal prints is %v, of %q and %q", equal, sums, a, b)
		}
		got, err := differing(digest(bodyOf(t, first)), bodyOf(t, second))
		if err != nil || equal && len(got) > 0 {
			t.Errorf("%q and %q differ at %q, %v", a, b, got, err)
		}
	})
}

// fuzzedTree skips what the door refuses.
func fuzzedTree(t *testing.T, document string) any {
	t.Helper()
	value, err := decodeJSON(document)
	if err != nil {
		t.Skip()
	}
	return value
}
