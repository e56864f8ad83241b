package orders_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
)

func (f *fixture) list(tenant uuid.UUID, filter orders.Filter, before uuid.UUID, size int32) (page []orders.Order, more bool) {
	f.t.Helper()
	err := f.db.Read(f.t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
		page, more, err = orders.List(ctx, db, tenant, filter, before, size)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return page, more
}

// Promise 7: another tenant's order is like one that never was.
func TestOrderOfAnotherTenantIsNotFound(t *testing.T) {
	t.Parallel()
	f := setup(t)
	order := f.mustPlace(f.placement())
	for name, c := range map[string][2]uuid.UUID{
		"another tenant": {uuid.New(), order.ID}, "no such order": {f.tenant, uuid.New()}, "nil": {f.tenant, uuid.Nil},
	} {
		err := f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
			found, err := orders.Find(ctx, db, c[0], c[1])
			if found.ID != uuid.Nil {
				t.Errorf("%s: found %v", name, found)
			}
			return err
		})
		wantFault(t, err, fault.NotFound)
	}
	if page, more := f.list(uuid.New(), orders.Filter{}, uuid.Max, 10); len(page) != 0 || more {
		t.Errorf("another tenant's list has %d orders, more is %v", len(page), more)
	}
}

// Walking the pages meets every order once, the newest first, whatever the size of a page.
func TestPagesMeetEveryOrderOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const all = 7
	want := make([]orders.Order, all)
	for i := range want {
		want[all-1-i] = f.mustPlace(f.placement())
	}
	stranger := f.placement()
	stranger.TenantID = uuid.New()
	f.mustPlace(stranger)

	for size := int32(1); size <= all+1; size++ {
		var met []orders.Order
		before, more := uuid.Max, true
		for more {
			var page []orders.Order
			page, more = f.list(f.tenant, orders.Filter{}, before, size)
			if len(page) == 0 || len(page) > int(size) || more && len(page) < int(size) {
				t.Fatalf("a page of %d has %d orders, more is %v", size, len(page), more)
			}
			met = append(met, page...)
			before = page[len(page)-1].ID
		}
		if diff := cmp.Diff(want, met); diff != "" {
			t.Errorf("pages of %d (-placed +met)\n%s", size, diff)
		}
	}
	if page, more := f.list(f.tenant, orders.Filter{}, want[all-1].ID, 3); page == nil || len(page) != 0 || more {
		t.Errorf("behind the last: %v, more is %v; want an empty page", page, more)
	}
}

func TestFiltersNarrowTheList(t *testing.T) {
	t.Parallel()
	f := setup(t)
	plain := f.mustPlace(f.placement())
	named := f.placement()
	checkout := "chk_1"
	named.CheckoutID = &checkout
	of := f.mustPlace(named)
	if _, err := f.watch.Exec(t.Context(), "UPDATE orders SET status = 'confirmed' WHERE id = $1", plain.ID); err != nil {
		t.Fatal(err)
	}
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		filter orders.Filter
		want   []uuid.UUID
	}{
		"none":           {orders.Filter{}, []uuid.UUID{of.ID, plain.ID}},
		"pending":        {orders.Filter{Status: text("pending")}, []uuid.UUID{of.ID}},
		"confirmed":      {orders.Filter{Status: text("confirmed")}, []uuid.UUID{plain.ID}},
		"rejected":       {orders.Filter{Status: text("rejected")}, nil},
		"checkout":       {orders.Filter{CheckoutID: text(checkout)}, []uuid.UUID{of.ID}},
		"other checkout": {orders.Filter{CheckoutID: text("chk_2")}, nil},
		"empty checkout": {orders.Filter{CheckoutID: text("")}, nil},
		"both":           {orders.Filter{Status: text("pending"), CheckoutID: text(checkout)}, []uuid.UUID{of.ID}},
		"both, apart":    {orders.Filter{Status: text("confirmed"), CheckoutID: text(checkout)}, nil},
	} {
		page, more := f.list(f.tenant, c.filter, uuid.Max, 10)
		var got []uuid.UUID
		for _, order := range page {
			got = append(got, order.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || more {
			t.Errorf("%s: more is %v (-want +got)\n%s", name, more, diff)
		}
		// A filter never leaves the tenant.
		if page, _ := f.list(uuid.New(), c.filter, uuid.Max, 10); len(page) != 0 {
			t.Errorf("%s: another tenant is shown %d orders", name, len(page))
		}
	}
}
