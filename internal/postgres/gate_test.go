package postgres_test

import (
	"testing"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
)

// Promise 6, case 24: a tenant whose units all wait for something leaves connections to the others, and is itself told
// to come back within the bound for a connection.
func TestTenantCannotTakeMoreThanItsShare(t *testing.T) {
	t.Parallel()
	f := setupWith(t, func(c *postgres.Config) { c.MaxConns, c.TenantShare, c.Acquire = 4, 2, 20*brief })
	flooding, other := uuid.New(), uuid.New()
	release := []func(){f.under(postgres.Unit{Tenant: flooding}), f.under(postgres.Unit{Tenant: flooding})}
	for path, unit := range map[string]postgres.Unit{"staged": {}, "open": {Open: true}} {
		unit.Tenant = flooding
		err := f.inTx(unit, stage(middle, "third"))
		wantFault(t, err, fault.Busy)
		wantPause(t, err)
		unit.Tenant = other
		if err := f.inTx(unit, stage(middle, thing("other "+path))); err != nil {
			t.Errorf("%s: another tenant: %v", path, err)
		}
		unit.Tenant = uuid.Nil
		if err := f.inTx(unit, stage(middle, thing("own "+path))); err != nil {
			t.Errorf("%s: the service's own work: %v", path, err)
		}
	}
	if n := migrationCount(t, f.watch, "SELECT count(*) FROM things WHERE name = 'third'"); n != 0 {
		t.Error("the third unit of the tenant has written")
	}
	// A turn is given back by a unit that ended, while the other one goes on; and by those that never got one.
	release[0]()
	f.under(postgres.Unit{Tenant: flooding})
	release[1]()
	f.under(postgres.Unit{Tenant: flooding})
}
