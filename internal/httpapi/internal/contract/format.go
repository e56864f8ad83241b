package contract

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// Formats are the forms of strings that the contract knows by name.
var Formats = map[string]func(string) error{
	// All versions of RFC 9562, in its one spelling with hyphens.
	"uuid": func(s string) error {
		if len(s) != len(uuid.UUID{}.String()) || uuid.Validate(s) != nil {
			return errors.New("not a UUID")
		}
		return nil
	},
	// RFC 3339, without the leap seconds that it has and Go's time has not: a time that Go cannot hold must be refused
	// with the other faults of the body, not by its decoder.
	"date-time": func(s string) error {
		if !isTime(s) {
			return errors.New("not an RFC 3339 time, or a leap second")
		}
		return nil
	},
}

// isTime holds to the grammar too: Go's parser also takes an hour of one digit, a comma, and offsets of a day.
func isTime(s string) bool {
	const form = "0000-00-00T00:00:00"
	if len(s) <= len(form) || !like(s[:len(form)], form) {
		return false
	}
	rest := s[len(form):]
	if rest[0] == '.' {
		digits := 1
		for digits < len(rest) && digit(rest[digits]) {
			digits++
		}
		rest = rest[digits:]
	}
	if rest != "Z" && (!like(rest, "+00:00") && !like(rest, "-00:00") || rest[1:3] > "23" || rest[4:] > "59") {
		return false
	}
	return new(time.Time).UnmarshalText([]byte(s)) == nil
}

// like says whether s is the form with any digits for its zeros.
func like(s, form string) bool {
	if len(s) != len(form) {
		return false
	}
	for i := range len(s) {
		if form[i] != s[i] && (form[i] != '0' || !digit(s[i])) {
			return false
		}
	}
	return true
}

func digit(c byte) bool { return c-'0' < 10 }
