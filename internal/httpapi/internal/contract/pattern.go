package contract

import (
	"regexp"
	"regexp/syntax"
	"unicode"
)

// codePoint is how the regular expressions of ECMA-262 write one. Go writes another.
var codePoint = regexp.MustCompile(`\\u([0-9A-F]{4})`)

// compilePattern reads a pattern as kin-openapi does: as one of Go, but for \u.
func compilePattern(pattern string) (func(string) bool, error) {
	pattern = codePoint.ReplaceAllString(pattern, `\x{$1}`)
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	if matches := onlyOf(pattern); matches != nil {
		return matches, nil
	}
	return compiled.MatchString, nil
}

// onlyOf matches patterns such as ^[A-Za-z0-9]+$, as most of the contract are, by a look at each byte: on an id of 36
// characters the regular expression takes some 50 times as long, and there were more of them in an order than of all
// other rules together. It is nil for any other pattern.
func onlyOf(pattern string) func(string) bool {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || tree.Op != syntax.OpConcat || len(tree.Sub) != 3 ||
		tree.Sub[0].Op != syntax.OpBeginText || tree.Sub[2].Op != syntax.OpEndText {
		return nil
	}
	low, high := 1, -1
	switch many := tree.Sub[1]; many.Op { //nolint:exhaustive // the others are left to package regexp
	case syntax.OpPlus:
	case syntax.OpStar:
		low = 0
	case syntax.OpRepeat:
		low, high = many.Min, many.Max
	default:
		return nil
	}
	class := tree.Sub[1].Sub[0]
	if class.Op != syntax.OpCharClass || len(class.Rune) == 0 || class.Rune[len(class.Rune)-1] > unicode.MaxASCII {
		return nil
	}
	var among [256]bool
	for i := 0; i < len(class.Rune); i += 2 {
		for c := class.Rune[i]; c <= class.Rune[i+1]; c++ {
			among[c] = true
		}
	}
	return func(s string) bool {
		if len(s) < low || high >= 0 && len(s) > high {
			return false
		}
		for i := range len(s) {
			if !among[s[i]] {
				return false
			}
		}
		return true
	}
}
