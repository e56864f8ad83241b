package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
)

// contentPolicy lets a browser that shows one of our answers load and run nothing, whatever got into its body. The pages
// for people have one style, which is named by its hash.
var contentPolicy = "default-src 'none'; style-src '" + hashOf(pageStyle) +
	"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// protect gives every answer the headers that keep a browser, and what stands between it and us, from making more of
// it than it is. It comes before all else, so that no answer is without them; they belong to one response and are
// never stored with an outcome.
//
// A document that everyone may read sets a Cache-Control of its own (see openapi.yaml).
//
// There is no Strict-Transport-Security: this server speaks plain HTTP, where RFC 6797 (7.2) forbids it, and only who
// ends TLS in front of it knows whether the whole host always has TLS. The header is theirs to set.
func protect(header http.Header) {
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
}

// hashOf is a source of a Content-Security-Policy, without its quotes.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
