package oidc

import "net/http"

// Through lets an issuer be asked without a network.
func Through(i *Issuer, transport http.RoundTripper) { i.client.Transport = transport }
