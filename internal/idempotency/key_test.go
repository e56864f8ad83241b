package idempotency_test

import (
	"regexp"
	"strings"
	"testing"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency"
)

func TestKeyIsBareOrQuoted(t *testing.T) {
	t.Parallel()
	const bare = "01JDXYZ-abc.d_e~f:0"
	for name, c := range map[string]struct {
		values []string
		want   idempotency.Key
		kind   fault.Kind
	}{
		"bare":             {values: []string{bare}, want: bare},
		"quoted":           {values: []string{`"` + bare + `"`}, want: bare},
		"shortest":         {values: []string{strings.Repeat("k", 16)}, want: idempotency.Key(strings.Repeat("k", 16))},
		"longest":          {values: []string{strings.Repeat("k", 128)}, want: idempotency.Key(strings.Repeat("k", 128))},
		"longest, quoted":  {values: []string{`"` + strings.Repeat("k", 128) + `"`}, want: idempotency.Key(strings.Repeat("k", 128))},
		"no header":        {kind: fault.IdempotencyKeyMissing},
		"empty header":     {values: []string{""}, kind: fault.IdempotencyKeyMissing},
		"empty quotes":     {values: []string{`""`}, kind: fault.IdempotencyKeyInvalid},
		"sent twice":       {values: []string{bare, bare}, kind: fault.IdempotencyKeyInvalid},
		"sent twice empty": {values: []string{"", ""}, kind: fault.IdempotencyKeyInvalid},
		"a list":           {values: []string{bare + ", " + bare}, kind: fault.IdempotencyKeyInvalid},
		"too short":        {values: []string{strings.Repeat("k", 15)}, kind: fault.IdempotencyKeyInvalid},
		// The quotes are no part of the key and don't make up for its length.
		"too short, quoted": {values: []string{`"` + strings.Repeat("k", 14) + `"`}, kind: fault.IdempotencyKeyInvalid},
		"too long":          {values: []string{strings.Repeat("k", 129)}, kind: fault.IdempotencyKeyInvalid},
		"half quoted":       {values: []string{`"` + bare}, kind: fault.IdempotencyKeyInvalid},
		"quoted within":     {values: []string{bare[:9] + `"` + bare[9:]}, kind: fault.IdempotencyKeyInvalid},
		"single quotes":     {values: []string{"'" + bare + "'"}, kind: fault.IdempotencyKeyInvalid},
		"blank within":      {values: []string{bare[:9] + " " + bare[9:]}, kind: fault.IdempotencyKeyInvalid},
		"blank around":      {values: []string{" " + bare}, kind: fault.IdempotencyKeyInvalid},
		"line end":          {values: []string{bare + "\n"}, kind: fault.IdempotencyKeyInvalid},
		"parameters":        {values: []string{`"` + bare + `";a=1`}, kind: fault.IdempotencyKeyInvalid},
		// Case 22: NUL is refused here and never reaches the database.
		"NUL":          {values: []string{bare + "\x00"}, kind: fault.IdempotencyKeyInvalid},
		"not ASCII":    {values: []string{bare + "é"}, kind: fault.IdempotencyKeyInvalid},
		"not UTF-8":    {values: []string{bare + "\xff"}, kind: fault.IdempotencyKeyInvalid},
		"a slash":      {values: []string{bare + "/"}, kind: fault.IdempotencyKeyInvalid},
		"a percentage": {values: []string{bare + "%41"}, kind: fault.IdempotencyKeyInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := idempotency.ParseKey(c.values)
			if got != c.want || err == nil != (c.want != "") || err != nil && fault.KindOf(err) != c.kind {
				t.Errorf("%q: %q, %v; want %q, %v", c.values, got, err, c.want, c.kind)
			}
		})
	}
}

// FuzzParseKey holds the parser to the rule as the contract words it, written a second time.
func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{
		"", `"`, `""`, "0123456789abcdef", `"0123456789abcdef"`, `"0123456789abcdef`, "0123456789abcdef\n",
		"0123456789abcde\x00", strings.Repeat("~", 128), strings.Repeat(":", 129), `"""0123456789abcdef"`,
	} {
		f.Add(seed)
	}
	foreign := regexp.MustCompile(`[^-A-Za-z0-9._~:]`)
	f.Fuzz(func(t *testing.T, text string) {
		bare := text
		if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
			bare = text[1 : len(text)-1]
		}
		allowed := len(bare) >= 16 && len(bare) <= 128 && !foreign.MatchString(bare)
		key, err := idempotency.ParseKey([]string{text})
		if allowed != (err == nil) {
			t.Fatalf("%q: %v, allowed is %v", text, err, allowed)
		}
		if !allowed {
			if key != "" {
				t.Errorf("%q is refused and gives the key %q", text, key)
			}
			return
		}
		if string(key) != bare {
			t.Errorf("%q is the key %q", text, key)
		}
		quoted, err := idempotency.ParseKey([]string{`"` + bare + `"`})
		if err != nil || quoted != key {
			t.Errorf("quoted, %q is the key %q, %v", bare, quoted, err)
		}
	})
}
