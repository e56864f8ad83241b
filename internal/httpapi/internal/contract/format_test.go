package contract

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"
)

// plain are the formats in the plainest words that there are for them.
var plain = map[string]func(string) bool{
	"uuid": regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`).MatchString,
	"date-time": func(s string) bool {
		return grammar.MatchString(s) && new(time.Time).UnmarshalText([]byte(s)) == nil
	},
}

var grammar = regexp.MustCompile(openapi3.FormatOfStringDateTime)

var formed = []string{
	"0198d0a6-4b7c-7d3e-9a51-0f6d2c3b4a59", "00000000-0000-0000-0000-000000000000", "{0198d0a6-4b7c-7d3e-9a51-0f6d2c3b4a5}", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
	"2026-11-01T10:00:00Z", "2026-11-01T10:00:00.5Z", "2026-11-01T10:00:00,5Z", "2026-11-01T10:00:00.Z", "2026-11-01T1:00:00Z", "2026-11-01T10:00:00+24:00", "2026-11-01T10:00:00-00:00",
	"2026-02-29T10:00:00Z", "2028-02-29T23:59:59.999999999999-23:59", "2026-12-31T23:59:60Z", "2026-11-01T24:00:00Z", "2026-11-01t10:00:00Z", "2026-11-01T10:00:00z", "2026-11-01T10:00:00+00:60",
	"0000-01-01T00:00:00Z", "9999-12-31T23:59:59.9+23:59", "2026-11-31T10:00:00Z", "2026-00-01T10:00:00Z", "2026-11-01T10:00:00+1:00", "2026-11-01T10:00:00+", "2026-11-01T10:00:00+01.00", "2026-11-01T10:00:00\u22122:00",
}

func agree(t interface{ Errorf(string, ...any) }, s string) {
	for name, is := range plain {
		if got := Formats[name](s) == nil; got != is(s) {
			t.Errorf("%s of %q: %t", name, s, got)
		}
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for _, s := range formed {
		agree(t, s)
	}
	rapid.Check(t, func(rt *rapid.T) {
		for range 50 { // a formed one with some characters of another
			s := []byte(rapid.SampledFrom(formed).Draw(rt, "s"))
			for range rapid.IntRange(0, 2).Draw(rt, "changes") {
				s[rapid.IntRange(0, len(s)-1).Draw(rt, "i")] = rapid.SampledFrom([]byte("0123456789abfTtZz+-.,: \n\x00é")).Draw(rt, "c")
			}
			agree(rt, string(s[:rapid.IntRange(0, len(s)).Draw(rt, "end")]))
			agree(rt, string(s))
		}
	})
}

func FuzzFormats(f *testing.F) {
	for _, s := range formed {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { agree(t, s) })
}

// The patterns that are matched without package regexp are matched as by it.
func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		`^[A-Za-z0-9._~:-]+$`, `^[A-Z]{3}$`, `^[A-Za-z0-9_-]+$`, `^[a-z0-9_]+$`, `^[ab]*$`, `^[ab]{1,3}$`, `^[ab]{2,}$`, `^[ab]{0}$`, `^(?i)[a-c]+$`, `^[[:alpha:]]+$`, `^[\w-]+$`, `^[\x00-\x7f]+$`,
		`\A[ab]+\z`, `^[ab]+?$`, `^\d{2}$`,
	} {
		if onlyOf(pattern) == nil {
			t.Errorf("%s is left to regexp", pattern)
		}
	}
	for _, pattern := range []string{
		`[ab]+`, `^[ab]+`, `[ab]+$`, `^[ab]$`, `^[^a]+$`, `^a+$`, `^[a-é]+$`, `^(a|b)+$`, `(?m)^[ab]+$`, `^[ab]+c$`, `^[ab]?$`, `^(?i)[k]+$`, `^.+$`, `^$`, ``, `^([ab]{2})+$`, `^(?i)[a-z]+$`, `^[[:^alpha:]]+$`,
	} {
		if onlyOf(pattern) != nil {
			t.Errorf("%s is not left to regexp", pattern)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		class := rapid.StringOfN(rapid.SampledFrom([]rune(`abkKz09._~:-\]^éſ`)), 1, 6, -1).Draw(rt, "class")
		pattern := rapid.SampledFrom([]string{"", "(?i)", "(?m)", "(?s)"}).Draw(rt, "flags") + "^[" + class + "]" +
			rapid.SampledFrom([]string{"+", "*", "{2}", "{1,3}", "{2,}", "?", ""}).Draw(rt, "many") + "$"
		want, err := regexp.Compile(pattern)
		if err != nil {
			return
		}
		matches, err := compilePattern(pattern)
		if err != nil {
			rt.Fatal(err)
		}
		for range 20 {
			s := rapid.StringOfN(rapid.SampledFrom([]rune("aAbBkKz0._~:-\\]^éſ\u212a\n")), 0, 4, -1).Draw(rt, "s")
			if rapid.Bool().Draw(rt, "broken") {
				s += "\xff"
			}
			if matches(s) != want.MatchString(s) {
				rt.Fatalf("%s of %q: %t", pattern, s, matches(s))
			}
		}
	})
	if match, err := compilePattern(`^\u00E9+$`); err != nil || !match("éé") || match(strings.ToUpper("é")) {
		t.Errorf("the code points of ECMA-262 are not read: %v", err)
	}
}
