package identity

import (
	"strings"
)

// Forge makes a well-formed key with the id of the given one and another secret, as who has seen only the id would.
func Forge(text string) string {
	id := strings.Split(text, "_")[2]
	body := prefix + id + "_" + base.EncodeToString(make([]byte, 32))
	return body + "_" + checksum(body)
}
