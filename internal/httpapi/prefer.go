package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// preferWait reads how long the client would wait for a first request, where that is less than the policy's bound
// (RFC 7240, wait=N in seconds), and tells it that it was heard. A preference that cannot be read is no preference.
func (c *call) preferWait(w http.ResponseWriter, r *http.Request) {
	for _, line := range r.Header.Values("Prefer") {
		for preference := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 16)
			if err != nil {
				continue
			}
			if wait := time.Duration(seconds) * time.Second; wait < c.operation.policy.Wait {
				c.wait = &wait
				w.Header().Set("Preference-Applied", "wait="+strconv.FormatUint(seconds, 10))
			}
			return // the first one counts
		}
	}
}
