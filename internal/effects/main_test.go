package effects_test

import (
	"testing"

	"orderonce/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }
