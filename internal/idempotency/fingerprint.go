package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
)

// rulesVersion is the version of the rules that make a fingerprint. A stored record keeps the version it was made
// with, so that a deploy which changes the rules still recognises old keys. A golden file pins each version for ever.
const rulesVersion = 1

// fingerprint detects that a key is used for two different requests. It is no signature: nobody may be trusted for
// knowing one.
type fingerprint struct {
	version int16
	sum     [sha256.Size]byte
}

// rules make the fingerprint of a request by one version of the rules.
type rules func(apiVersion, operation string, p *Parameters) fingerprint

// ruleBook is the rules that this binary can recognise old records by, and the version that it writes. A change of
// the rules takes two deploys: one that knows the new version, and, when every process does, one that writes it.
type ruleBook struct {
	writes int16
	known  map[int16]rules
}

var currentRules = ruleBook{writes: rulesVersion, known: map[int16]rules{rulesVersion: print}}

// print makes the fingerprint of a request: SHA-256 over its rules version, API version, operation and parameters,
// each framed by its length so that no two requests can meet by concatenation.
func print(apiVersion, operation string, p *Parameters) fingerprint {
	buf := make([]byte, 0, 1024)
	buf = frame(buf, fmt.Sprintf("v%d", rulesVersion))
	buf = frame(buf, apiVersion)
	buf = frame(buf, operation)
	for _, l := range p.leaves {
		buf = l.append(buf)
	}
	return fingerprint{version: rulesVersion, sum: sha256.Sum256(buf)}
}

func (l leaf) append(buf []byte) []byte {
	buf = frame(buf, l.place)
	buf = append(buf, byte(l.kind))
	return frame(buf, l.value)
}

func frame(buf []byte, s string) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(s)))
	return append(buf, s...)
}

// Field digests tell a client which of its parameters differ from the first request's, without keeping the values.
// They are short, for they only inform; the fingerprint decides.
const (
	digestLength = 4
	// maxDigests bounds what a record spends on them: past it, places are cut to their first members.
	maxDigests = 64
)

// digest keeps a short hash by place. With more places than maxDigests it speaks of shallower places: "/items/7"
// or "/items" instead of "/items/7/sku". The encoding is the depth (0 for all), then for each place how many bytes
// it shares with the one before it, its other bytes framed, and the hash.
func digest(p *Parameters) []byte {
	depth := 0
	groups := p.groups(depth)
	for _, shallower := range []int{2, 1} {
		if len(groups) <= maxDigests {
			break
		}
		depth = shallower
		groups = p.groups(depth)
	}
	out := []byte{byte(depth)}
	before := ""
	for _, g := range groups {
		shared := sharedPrefix(before, g.place)
		out = binary.AppendUvarint(out, uint64(shared)) //nolint:gosec // a length
		out = frame(out, g.place[shared:])
		out = append(out, g.hash[:]...)
		before = g.place
	}
	return out
}

type group struct {
	place string
	hash  [digestLength]byte
}

// groups hashes the leaves by place, cut to depth tokens. Leaves of one cut place follow each other. A container
// that has members speaks through them alone.
func (p *Parameters) groups(depth int) []group {
	var out []group
	var buf []byte
	for i := 0; i < len(p.leaves); {
		place := cut(p.leaves[i].place, depth)
		buf = buf[:0]
		first := i
		for ; i < len(p.leaves) && cut(p.leaves[i].place, depth) == place; i++ {
			buf = p.leaves[i].append(buf)
		}
		last := p.leaves[i-1]
		container := last.kind == object || last.kind == array
		if i-first == 1 && container && i < len(p.leaves) && inside(p.leaves[i].place, place) {
			continue
		}
		g := group{place: place}
		sum := sha256.Sum256(buf)
		copy(g.hash[:], sum[:])
		out = append(out, g)
	}
	return out
}

func cut(place string, depth int) string {
	if depth == 0 || !strings.HasPrefix(place, "/") {
		return place
	}
	for i := 1; i < len(place); i++ {
		if place[i] == '/' {
			if depth--; depth == 0 {
				return place[:i]
			}
		}
	}
	return place
}

// inside says whether place lies below ancestor in the body.
func inside(place, ancestor string) bool {
	return len(place) > len(ancestor) && strings.HasPrefix(place, ancestor) && place[len(ancestor)] == '/'
}

func sharedPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
