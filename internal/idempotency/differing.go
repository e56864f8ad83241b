package idempotency

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
)

var errDigests = errors.New("field digests cannot be read")

// differing lists where p differs from the request whose digests were stored, in order and without values. Where a
// whole member or item is on one side only, it is named and not its parts.
func differing(stored []byte, p *Parameters) ([]string, error) {
	depth, first, err := decodeDigests(stored)
	if err != nil {
		return nil, err
	}
	second := p.groups(depth)
	firstPlaces, secondPlaces := places(first), places(second)
	seen := map[string]bool{}
	note := func(g group, other map[string]group) {
		if same, ok := other[g.place]; ok {
			if same.hash != g.hash {
				seen[g.place] = true
			}
			return
		}
		seen[missingAncestor(g.place, other)] = true
	}
	for _, g := range first {
		note(g, secondPlaces)
	}
	for _, g := range second {
		note(g, firstPlaces)
	}
	out := sortedNames(seen)
	// A value that became a container names itself on one side and its parts on the other.
	return slices.DeleteFunc(out, func(place string) bool {
		for other := range seen {
			if inside(place, other) {
				return true
			}
		}
		return false
	}), nil
}

// missingAncestor is the outermost member on the way to place that other knows nothing at or below.
func missingAncestor(place string, other map[string]group) string {
	for i := 1; i < len(place); i++ {
		if place[i] != '/' || place[0] != '/' {
			continue
		}
		if ancestor := place[:i]; !known(ancestor, other) {
			return ancestor
		}
	}
	return place
}

func known(place string, in map[string]group) bool {
	for p := range in {
		if p == place || inside(p, place) {
			return true
		}
	}
	return false
}

func places(groups []group) map[string]group {
	m := make(map[string]group, len(groups))
	for _, g := range groups {
		m[g.place] = g
	}
	return m
}

func decodeDigests(b []byte) (depth int, groups []group, err error) {
	if len(b) == 0 || b[0] > 2 {
		return 0, nil, errDigests
	}
	depth, b = int(b[0]), b[1:]
	before := ""
	for len(b) > 0 {
		shared, n := binary.Uvarint(b)
		if n <= 0 || shared > uint64(len(before)) {
			return 0, nil, errDigests
		}
		b = b[n:]
		size, n := binary.Uvarint(b)
		if n <= 0 || size > math.MaxInt32 || int(size) > len(b)-n-digestLength {
			return 0, nil, errDigests
		}
		end := n + int(size)
		var g group
		var place strings.Builder
		place.WriteString(before[:shared])
		place.Write(b[n:end])
		g.place = place.String()
		b = b[end:]
		copy(g.hash[:], b)
		b = b[digestLength:]
		groups = append(groups, g)
		before = g.place
	}
	return depth, groups, nil
}
