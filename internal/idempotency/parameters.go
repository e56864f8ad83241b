package idempotency

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strconv"

	"orderonce/internal/fault"
)

// Parameters are all that decides what a request does, flattened to leaves in one order: path parameters, query
// parameters, the validated body with its defaults applied and transport data left out. Two requests with equal
// parameters are the same request.
type Parameters struct {
	leaves []leaf
}

// leaf is one value with its place: a JSON Pointer (RFC 6901) into the body, "{name}" in the path, "?name" in the
// query. The three can't be taken for one another, since a pointer is empty or begins with a slash.
type leaf struct {
	place string
	kind  kind
	value string
}

// kind keeps values of different types apart: 1, "1", true, null, {} and [].
type kind byte

// The letters are part of fingerprint v1 and never change.
const (
	text    kind = 's'
	integer kind = 'i'
	boolean kind = 'b'
	null    kind = 'n'
	object  kind = 'o'
	array   kind = 'a'
	rows    kind = 'r'
)

// Path adds the path parameters by name.
func (p *Parameters) Path(values map[string]string) {
	for _, name := range sortedNames(values) {
		p.add("{"+name+"}", text, values[name])
	}
}

// Query adds the query parameters by name.
func (p *Parameters) Query(values map[string]string) {
	for _, name := range sortedNames(values) {
		p.add("?"+name, text, values[name])
	}
}

// Body adds a decoded JSON document of map[string]any, []any, string, int64, bool and nil. Members are sorted by
// their bytes; arrays keep their order; strings are taken as given, integers exactly.
func (p *Parameters) Body(document any) error {
	p.leaves = slices.Grow(p.leaves, 32) // as many as an order of a few lines has
	return p.walk("", document)
}

// Rows are a long array of a body that nobody holds whole: each item leaves its hash behind, and nothing else.
type Rows struct {
	n   int64
	sum hash.Hash
	buf []byte
}

// NewRows are none yet.
func NewRows() *Rows { return &Rows{sum: sha256.New()} }

// Add takes the next item, a decoded document as Body takes one.
func (r *Rows) Add(item any) error {
	var p Parameters
	if err := p.Body(item); err != nil {
		return err
	}
	r.buf = r.buf[:0]
	for _, l := range p.leaves {
		r.buf = l.append(r.buf)
	}
	one := sha256.Sum256(r.buf)
	r.sum.Write(one[:])
	r.n++
	return nil
}

// Rows adds the array at a place of the body as one value: two of them differ as a whole, or not at all.
func (p *Parameters) Rows(place string, r *Rows) {
	p.add(place, rows, strconv.FormatInt(r.n, 10)+" "+hex.EncodeToString(r.sum.Sum(nil)))
}

func (p *Parameters) walk(place string, value any) error {
	switch v := value.(type) {
	case map[string]any:
		p.add(place, object, "")
		for _, name := range sortedNames(v) {
			if err := p.walk(place+"/"+fault.PointerToken(name), v[name]); err != nil {
				return err
			}
		}
	case []any:
		p.add(place, array, "")
		for i, item := range v {
			if err := p.walk(place+"/"+strconv.Itoa(i), item); err != nil {
				return err
			}
		}
	case string:
		p.add(place, text, v)
	case int64:
		p.add(place, integer, strconv.FormatInt(v, 10))
	case bool:
		p.add(place, boolean, strconv.FormatBool(v))
	case nil:
		p.add(place, null, "")
	default:
		return fmt.Errorf("canonical form of %s: no rule for %T", place, value)
	}
	return nil
}

func (p *Parameters) add(place string, kind kind, value string) {
	p.leaves = append(p.leaves, leaf{place, kind, value})
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
