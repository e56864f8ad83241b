package walls

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// query is one of sql/queries.
type query struct {
	name, file string
	sql        string   // with $1 … for its arguments
	arguments  []string // the name of $1, …
}

func (q query) String() string { return q.name + " of " + q.file }

var (
	queryHead     = regexp.MustCompile(`(?m)^-- name: (\w+) :\w+\n`)
	queryComment  = regexp.MustCompile(`(?m)^\s*--.*\n`)
	queryArgument = regexp.MustCompile(`sqlc\.n?arg\((\w+)\)`)
	queryMacro    = regexp.MustCompile(`sqlc\.\w+|@\w+`)
)

// queries reads all that are in sql/queries.
func queries(t *testing.T) (all []query) {
	t.Helper()
	files, err := filepath.Glob("../../sql/queries/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("the files %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		heads := queryHead.FindAllSubmatchIndex(text, -1)
		if named := strings.Count(string(text), "-- name:"); len(heads) == 0 || len(heads) != named {
			t.Fatalf("%s: %d of %d names are understood", file, len(heads), named)
		}
		for i, head := range heads {
			end := len(text)
			if i+1 < len(heads) {
				end = heads[i+1][0]
			}
			q := query{name: string(text[head[2]:head[3]]), file: filepath.Base(file)}
			q.parse(t, string(text[head[1]:end]))
			all = append(all, q)
		}
	}
	return all
}

// parse turns sqlc's names for arguments into PostgreSQL's numbers.
func (q *query) parse(t *testing.T, text string) {
	t.Helper()
	text = queryComment.ReplaceAllString(text, "")
	q.sql = queryArgument.ReplaceAllStringFunc(text, func(macro string) string {
		name := queryArgument.FindStringSubmatch(macro)[1]
		if !slices.Contains(q.arguments, name) {
			q.arguments = append(q.arguments, name)
		}
		return fmt.Sprintf("$%d", slices.Index(q.arguments, name)+1)
	})
	if unknown := queryMacro.FindString(q.sql); unknown != "" {
		t.Fatalf("%s uses %s, which this test does not know: write sqlc.arg(), or teach parse about it", q, unknown)
	}
}

// bind finds the values of the arguments: one that is the query's own, or else the one of that name.
func (q query) bind(t *testing.T, values map[string]any) (bound []any) {
	t.Helper()
	for _, name := range q.arguments {
		value, ok := values[q.name+"."+name]
		if !ok {
			value, ok = values[name]
		}
		if !ok {
			t.Fatalf("%s takes %s, which this test has no value for: give theirs one, so that the query finds a row of the "+
				"victim's, and absent another one where it names a row", q, name)
		}
		bound = append(bound, value)
	}
	return bound
}
