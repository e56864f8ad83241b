// Package orderonce carries the contract that everything else is generated from or checked against.
package orderonce

import _ "embed"

// OpenAPI is openapi.yaml, byte for byte.
//
//go:embed openapi.yaml
var OpenAPI []byte
