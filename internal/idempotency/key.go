package idempotency

import (
	"regexp"

	"orderonce/internal/fault"
)

// Key is an idempotency key in its bare form: 16 to 128 characters of A-Z a-z 0-9 . _ ~ : -
type Key string

// Bare, or as an RFC 8941 string, the form of the IETF draft (draft-ietf-httpapi-idempotency-key-header). None of the
// allowed characters needs an escape there.
var keyForm = regexp.MustCompile(`^(?:"([A-Za-z0-9._~:-]{16,128})"|([A-Za-z0-9._~:-]{16,128}))$`)

// ParseKey reads the values of a request's Idempotency-Key header; the quoted and the bare form are the same key. It
// returns fault.IdempotencyKeyMissing or fault.IdempotencyKeyInvalid.
func ParseKey(values []string) (Key, error) {
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", fault.New(fault.IdempotencyKeyMissing, "This operation needs an Idempotency-Key header.")
	case len(values) > 1:
		return "", fault.New(fault.IdempotencyKeyInvalid, "Idempotency-Key must be sent once.")
	}
	form := keyForm.FindStringSubmatch(values[0])
	if form == nil {
		return "", fault.New(fault.IdempotencyKeyInvalid,
			"Idempotency-Key must be 16 to 128 characters of A-Z a-z 0-9 . _ ~ : - , bare or in double quotes.")
	}
	return Key(form[1] + form[2]), nil
}
