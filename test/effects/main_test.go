// Package effects_test holds the promise about everything outside the database: an operation of an order is executed at
// most once, whatever breaks, and none is forgotten. Its witness is the sandbox, which counts what it has really done
// and knows nothing of the service that calls it. The short forms are part of every run; the long one:
//
//	go test ./test/effects -run TestRandomFaults -orders 2000 -kills 60 -timeout 30m -v
package effects_test

import (
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m, orderoncetest.RemoveBinaries) }
