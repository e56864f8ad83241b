package idempotency

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "fill in what testdata/fingerprint_v1.golden.json does not say yet")

const goldenFile = "testdata/fingerprint_v1.golden.json"

// golden is one request with all that v1 makes of it. The request is in the file too, so that no change of a test can
// move both sides at once.
type golden struct {
	Name       string            `json:"name"`
	APIVersion string            `json:"api_version"`
	Operation  string            `json:"operation"`
	Path       map[string]string `json:"path,omitempty"`
	Query      map[string]string `json:"query,omitempty"`
	Body       json.RawMessage   `json:"body,omitempty"`
	Sum        string            `json:"sum"`
	Digests    string            `json:"digests"`
}

// TestFingerprintV1IsForEver pins the rules under which records have been stored. A record lives for days and its key
// may be used again after a deploy: a print that changed would refuse the retry it was made to recognise. So -update
// only fills in what is empty; other rules are another version with a file of its own.
func TestFingerprintV1IsForEver(t *testing.T) {
	t.Parallel()
	if rulesVersion != 1 {
		t.Fatalf("the rules are version %d: they need a golden file beside the one of version 1", rulesVersion)
	}
	text, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	var requests []golden
	if err := json.Unmarshal(text, &requests); err != nil {
		t.Fatal(err)
	}
	if len(requests) < 10 {
		t.Fatalf("%s has lost requests: it has %d", goldenFile, len(requests))
	}
	for i := range requests {
		g := &requests[i]
		p := &Parameters{}
		p.Path(g.Path)
		p.Query(g.Query)
		if g.Body != nil {
			if err := p.Body(decodeBody(t, string(g.Body))); err != nil {
				t.Fatal(err)
			}
		}
		made := print(g.APIVersion, g.Operation, p)
		if made.version != 1 {
			t.Errorf("%s: version %d", g.Name, made.version)
		}
		pin(t, g.Name+": sum", &g.Sum, hex.EncodeToString(made.sum[:]))
		pin(t, g.Name+": digests", &g.Digests, hex.EncodeToString(digest(p)))
	}
	if *update && !t.Failed() {
		writeGolden(t, requests)
	}
}

// The same for rows, of which a record is kept in the same way.
func TestFingerprintOfRowsIsForEver(t *testing.T) {
	t.Parallel()
	rows := NewRows()
	for _, document := range []string{`{"b":[1,"é",null],"a":{}}`, `7`, `{}`} {
		if err := rows.Add(decodeBody(t, document)); err != nil {
			t.Fatal(err)
		}
	}
	p := &Parameters{}
	if err := p.Body(map[string]any{"reserve_inventory": false}); err != nil {
		t.Fatal(err)
	}
	p.Rows("/orders", rows)
	made := print("2026-11-01", "importOrders", p)
	const want = "d5cebc8c7cbd87375ce8bbc1e66e3d262c94faff1e24f2c7ed9b9af80e21557a"
	if got := hex.EncodeToString(made.sum[:]); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, err := differing(digest(p), &Parameters{}); err != nil || strings.Join(got, " ") != "/orders /reserve_inventory" {
		t.Errorf("%v, %v", got, err)
	}
}

// Any change of any row, of their order or of their number is another request; what is inside cannot move to another row.
func TestRowsCannotBeTakenForOthers(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, list := range [][]string{
		{},
		{`1`},
		{`1`, `1`},
		{`"1"`},
		{`[1,1]`},
		{`[1]`, `[1]`},
		{`{}`},
		{`{"a":1}`, `{"b":2}`},
		{`{"b":2}`, `{"a":1}`},
		{`{"a":1,"b":2}`},
		{`{"a":1,"b":2}`, `{}`},
		{`{}`, `{"a":1,"b":2}`},
		{`null`},
		{`{"a":null}`},
		{`""`},
		{`""`, `""`},
	} {
		rows := NewRows()
		for _, document := range list {
			if err := rows.Add(decodeBody(t, document)); err != nil {
				t.Fatal(err)
			}
		}
		p := &Parameters{}
		p.Rows("/orders", rows)
		made := print("v", "o", p)
		sum := hex.EncodeToString(made.sum[:])
		if other, there := seen[sum]; there {
			t.Errorf("%v has the print of %s", list, other)
		}
		seen[sum] = strings.Join(list, " ")
	}
}

// writeGolden writes one request a line, so that a diff shows whether one was touched.
func writeGolden(t *testing.T, requests []golden) {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for i, g := range requests {
		out.WriteString([]string{"[\n", ","}[min(i, 1)])
		if err := encoder.Encode(g); err != nil {
			t.Fatal(err)
		}
	}
	out.WriteString("]\n")
	if err := os.WriteFile(goldenFile, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func pin(t *testing.T, what string, pinned *string, made string) {
	t.Helper()
	switch {
	case *pinned == made:
	case *pinned == "" && *update:
		*pinned = made
	default:
		t.Errorf("%s is\n%s, pinned is\n%s", what, made, *pinned)
	}
}

func decodeBody(t *testing.T, document string) any {
	t.Helper()
	value, err := decodeJSON(document)
	if err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	return value
}

// decodeJSON reads a document as the door does: its numbers are int64.
func decodeJSON(document string) (any, error) {
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return integers(value)
}

func integers(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			if v[name], err = integers(v[name]); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = integers(v[i]); err != nil {
				return nil, err
			}
		}
	case json.Number:
		return v.Int64()
	}
	return value, nil
}
