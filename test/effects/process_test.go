package effects_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/effects"
	"orderonce/internal/effects/downstream"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
	"orderonce/test/shop"
)

// stage is a world whose workers and services are processes of their own. What the world itself does is place orders
// and look.
type stage struct {
	*world
	url          string    // of the database
	capabilities [3]string // of payment, inventory and notification, as the worker's flags say them
	sandbox      *orderoncetest.Process
}

var serviceNames = [3]string{"payment", "inventory", "notification"}

// processTimeout is what a worker waits for an answer. A service that was to answer and is late is one more fault.
const processTimeout = 2 * time.Second

// setupStage starts the sandbox. capabilities are those of payment, inventory and notification, in the sandbox's and in
// the workers' eyes.
func setupStage(t *testing.T, capabilities [3]effects.Capability) *stage {
	t.Helper()
	s := &stage{world: &world{t: t, tenant: newID()}, url: postgrestest.URL(t)}
	s.open()
	args := []string{"sandbox", "--data=" + t.TempDir(), "--fsync=false"}
	for i, capability := range capabilities {
		plays := string(capability)
		s.capabilities[i] = plays
		if capability == effects.Idempotent {
			plays, s.capabilities[i] = "idempotent,queryable", "idempotent:24h,queryable"
		}
		args = append(args, "--"+serviceNames[i]+"="+plays)
	}
	process, ready := orderoncetest.StartServer(t, orderoncetest.Command{Binary: shop.Binary(t), Args: args})
	s.sandbox, s.services = process, &witness{t, ready.SandboxURL}
	for i, open := range []func(downstream.Config) effects.Destination{downstream.Payment, downstream.Inventory, downstream.Notification} {
		s.destinations = append(s.destinations, open(downstream.Config{
			URL: ready.SandboxURL, Capability: capabilities[i], Asked: capabilities[i] == effects.Idempotent, Retention: 24 * time.Hour,
			Timeout: patience, Concurrency: 1,
		}))
	}
	return s
}

// open opens the database for what the world itself does.
func (s *stage) open() {
	s.t.Helper()
	var err error
	s.db, err = postgres.Open(s.t.Context(), postgres.Config{
		URL: s.url, Role: postgres.Worker, MaxConns: 4, Acquire: patience, Statement: patience, IdleInTransaction: patience, Deadline: patience,
	})
	s.must(err)
	s.t.Cleanup(s.db.Close)
	s.owner, err = pgx.Connect(s.t.Context(), s.url)
	s.must(err)
	s.t.Cleanup(func() { _ = s.owner.Close(context.WithoutCancel(s.t.Context())) })
}

// work starts a worker that meets the given faults.
func (s *stage) work(faults ...string) *orderoncetest.Process {
	s.t.Helper()
	args := []string{
		"worker", "--database-url=" + s.url, "--destination-timeout=" + processTimeout.String(), "--effect-lease=13s",
		"--effect-attempts=40", "--stop-timeout=5s", "--log-level=warn",
	}
	for i, name := range serviceNames {
		args = append(args, "--"+name+"-url="+s.services.url, "--"+name+"-capability="+s.capabilities[i])
	}
	process, _, err := orderoncetest.TryServer(s.t, orderoncetest.Command{
		Binary: shop.Binary(s.t), Args: args, Env: []string{"ORDERONCE_FAULTS=" + strings.Join(faults, ";")},
	})
	if err != nil && len(faults) == 0 { // with a fault it may be dead before it says that it is ready
		s.t.Fatal(err)
	}
	return process
}
