package httpapi

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orderonce"
	"orderonce/internal/fault"
)

// The page of all errors says what /problems/{code} says: the contract's words, and the table of problems.
func TestErrorsPageIsTheContracts(t *testing.T) {
	t.Parallel()
	spec, err := loadSpecification(t.Context(), orderonce.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	page := errorsPage(spec)
	golden := filepath.Join("..", "..", "docs", "errors.md")
	if *update {
		if err := os.WriteFile(golden, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), page); diff != "" {
		t.Errorf("docs/errors.md is not the contract's; make gen writes it (-it has +it should have):\n%s", diff)
	}
}

func errorsPage(spec *specification) string {
	kinds := fault.Kinds()
	slices.SortStableFunc(kinds, func(a, b fault.Kind) int { return problemTypes[a].status - problemTypes[b].status })
	var page strings.Builder
	page.WriteString(errorsHead)
	for _, kind := range kinds {
		p := problemTypes[kind]
		fmt.Fprintf(&page, "| [`%[1]s`](#%[1]s) | %d | %s | %s | %s |\n",
			kind, p.status, yesNo(p.retryable), p.keyAction, storedOf(kind))
	}
	for _, kind := range kinds {
		p := problemTypes[kind]
		fmt.Fprintf(&page, "\n### `%s`\n\n%d, %q. %s\n", kind, p.status, p.title, spec.problemSchema(kind).Description)
	}
	return page.String()
}

const errorsHead = `# Errors

<!-- From openapi.yaml and internal/httpapi/problem.go, by TestErrorsPageIsTheContracts: change those, then make gen. -->

Every error is a problem, ` + "`application/problem+json`" + ` (RFC 9457). Branch on ` + "`code`" + `, which is stable; ` + "`detail`" + ` is for
people. The server has a page for each code at ` + "`/problems/{code}`" + `, in the same words.

- **retryable**: the same request can succeed later without any change. ` + "`X-Should-Retry`" + ` says the same.
- **key_action**: ` + "`keep`" + ` the idempotency key for the retry or the corrected request, or take a ` + "`new`" + ` one for a new
  attempt.
- **stored**: the problem becomes the outcome of its key, and every later request with the key gets it. A problem that
  is not stored leaves the key as it was.

The last two are for operations that take a key. On the others ` + "`key_action`" + ` is ` + "`none`" + `, and nothing is stored.

| code | status | retryable | key_action | stored |
| --- | --- | --- | --- | --- |
`

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// storedOf says whether a problem of this kind becomes the outcome of its key.
func storedOf(kind fault.Kind) string {
	if kind == fault.OutcomeUnknown {
		return "not known yet"
	}
	return yesNo(kind.Rejection())
}
