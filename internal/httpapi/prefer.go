package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// preferWait sets how long a duplicate waits for the first request. A client may prefer less than the policy's bound
// (RFC 7240, wait=N in seconds) and is told that it was heard. A preference that cannot be read is no preference.
func (c *call) preferWait(w http.ResponseWriter, r *http.Request) {
	c.wait = c.operation.policy.Wait
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
			if wait := time.Duration(seconds) * time.Second; wait < c.wait {
				c.wait = wait
				w.Header().Set("Preference-Applied", "wait="+strconv.FormatUint(seconds, 10))
			}
			return // the first one counts
		}
	}
}
