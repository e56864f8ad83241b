package imports

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/fault"
	"orderonce/internal/imports/internal/importsdb"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks"
)

// chunk gives the orders of the next chunk their outcomes, all in one unit with the checkpoint: a worker that takes the
// task over begins with the chunk that is not there yet. Under its client's name an order is placed once, even so.
func (i *Importer) chunk(ctx context.Context, owned *tasks.Owned, asked options) error {
	number := owned.Checkpoint
	var row importsdb.ReadImportChunkRow
	err := owned.Read(ctx, func(ctx context.Context, db postgres.DBTX) (err error) {
		row, err = queries.ReadImportChunk(ctx, db, importsdb.ReadImportChunkParams{TenantID: owned.Tenant, TaskID: owned.ID, Number: number})
		return err
	})
	if err != nil {
		return fmt.Errorf("read chunk %d: %w", number, err)
	}
	entries, err := unpack(row.Input)
	if err != nil {
		return err
	}
	return tasks.Write(ctx, owned, func(ctx context.Context, w tasks.Fenced) error {
		var succeeded, rejected int32
		var calls []effects.Call
		for n, e := range entries {
			out, err := i.outcome(ctx, w.Tx, owned, e, asked.ReserveInventory)
			if err != nil {
				return fmt.Errorf("row %d: %w", int(row.FirstRow)+n, err)
			}
			switch out.state {
			case Succeeded:
				succeeded++
			case Rejected:
				rejected++
			case Waiting:
				calls = append(calls, out.call)
			}
			w.Tx.Stage(rowKind, out.row(owned, row.FirstRow+int32(n), e.ClientOrderID))
		}
		if len(calls) > 0 {
			if err := i.inventory.Ask(ctx, w.Tx, i.inventory.Destination, calls...); err != nil {
				return err
			}
		}
		w.Checkpoint(number+1, succeeded, rejected)
		return nil
	})
}

// outcome is what became of a row.
type outcome struct {
	state   RowState
	order   uuid.UUID // of the order, or of the order to be
	refusal *fault.Error
	call    effects.Call // that a waiting row waits for
}

// outcome places a row's order, or begins its reservation. Its error is none of the row's own.
func (i *Importer) outcome(ctx context.Context, tx *postgres.Tx, owned *tasks.Owned, e entry, reserve bool) (outcome, error) {
	if len(e.Faults) > 0 {
		return refused(&fault.Error{Kind: fault.ValidationFailed, Fields: e.Faults})
	}
	p := e.placement(owned)
	if reserve {
		return i.reserve(ctx, tx, owned, p)
	}
	return place(ctx, tx, p)
}

func (e entry) placement(owned *tasks.Owned) orders.Placement {
	return orders.Placement{
		TenantID: owned.Tenant, PrincipalID: owned.Principal, ClientOrderID: &e.ClientOrderID, CheckoutID: e.CheckoutID,
		CustomerID: e.CustomerID, Currency: e.Currency, Items: e.Items, ShippingAddressID: e.ShippingAddressID,
		CouponCode: e.CouponCode, Metadata: e.Metadata,
	}
}

// place places an order, or finds it. A refusal has written nothing, so that the other rows of the unit stand.
func place(ctx context.Context, tx *postgres.Tx, p orders.Placement) (outcome, error) {
	order, _, err := orders.Put(ctx, tx, p)
	if err != nil {
		return refused(err)
	}
	return outcome{state: Succeeded, order: order.ID}, nil
}

// refused is the outcome of a row whose order is refused for good. Any other error is given back.
func refused(err error) (outcome, error) {
	var refusal *fault.Error
	if !errors.As(err, &refusal) || !refusal.Kind.Rejection() && refusal.Kind != fault.ValidationFailed {
		return outcome{}, err
	}
	return outcome{state: Rejected, refusal: refusal}, nil
}

// reserve has the row wait for its reservation, unless it is clear already what becomes of it.
func (i *Importer) reserve(ctx context.Context, tx *postgres.Tx, owned *tasks.Owned, p orders.Placement) (outcome, error) {
	if err := orders.Judge(p); err != nil {
		return refused(err)
	}
	db, err := tx.DB(ctx)
	if err != nil {
		return outcome{}, err
	}
	switch _, err := orders.FindByClientOrder(ctx, db, p.TenantID, *p.ClientOrderID); {
	case err == nil:
		return place(ctx, tx, p) // finds it, or refuses
	case fault.KindOf(err) != fault.NotFound:
		return outcome{}, err
	}
	order, err := uuid.NewV7()
	if err != nil {
		return outcome{}, fmt.Errorf("order id: %w", err)
	}
	call, err := i.inventory.Reserve(p.TenantID, order, owned.ID, p.Items)
	return outcome{state: Waiting, order: order, call: call}, err
}
