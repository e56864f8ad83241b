package imports

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/fault"
	"orderonce/internal/imports/internal/importsdb"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks"
)

// reserveOperation is the operation of the inventory that a row waits for.
const reserveOperation = "reserve"

// waiting is a row whose reservation was asked for, and how that stands.
type waiting struct {
	number      int32
	order       uuid.UUID
	reservation effects.State
}

func (r waiting) ended() bool {
	return r.reservation == effects.Succeeded || r.reservation == effects.Failed
}

func (r waiting) unknown() bool {
	return r.reservation == effects.Unknown || r.reservation == effects.NeedsHuman
}

// settleWaiting gives the rows whose reservations have ended their outcomes, and has the task wait for the others.
func (i *Importer) settleWaiting(ctx context.Context, owned *tasks.Owned) (tasks.Next, error) {
	left, unknown := 0, 0
	for after := int32(-1); ; {
		page, err := i.waitingRows(ctx, owned, after)
		if err != nil {
			return tasks.Next{}, err
		}
		if len(page) == 0 {
			break
		}
		var ended []waiting
		for _, row := range page {
			switch {
			case row.ended():
				ended = append(ended, row)
			case row.unknown():
				unknown++
				fallthrough
			default:
				left++
			}
		}
		if err := i.settle(ctx, owned, ended); err != nil {
			return tasks.Next{}, err
		}
		after = page[len(page)-1].number
	}
	switch {
	case left == 0:
		return tasks.GoOn(), nil
	case left == unknown:
		return tasks.Wait(waitUnknown, true), nil
	default:
		return tasks.Wait(waitPending, false), nil
	}
}

// waitingRows are up to a chunk of them behind a row.
func (i *Importer) waitingRows(ctx context.Context, owned *tasks.Owned, after int32) (page []waiting, err error) {
	err = owned.Read(ctx, func(ctx context.Context, db postgres.DBTX) error {
		rows, err := queries.ListWaitingImportRows(ctx, db, importsdb.ListWaitingImportRowsParams{
			TenantID: owned.Tenant, TaskID: owned.ID, After: after, Batch: chunkRows,
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		of := make([]uuid.UUID, len(rows))
		for n, row := range rows {
			of[n] = row.OrderID.UUID
		}
		states, err := effects.StatesOf(ctx, db, owned.Tenant, i.inventory.Destination, reserveOperation, of)
		for n, row := range rows {
			page = append(page, waiting{row.Number, of[n], states[of[n]]})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list waiting rows: %w", err)
	}
	return page, nil
}

// settle places the orders whose stock is reserved, and gives back what was reserved for one that cannot be placed.
func (i *Importer) settle(ctx context.Context, owned *tasks.Owned, ended []waiting) error {
	if len(ended) == 0 {
		return nil
	}
	entries, err := i.entriesOf(ctx, owned, ended)
	if err != nil {
		return err
	}
	return tasks.Write(ctx, owned, func(ctx context.Context, w tasks.Fenced) error {
		var succeeded, rejected int32
		var releases []effects.Call
		for n, row := range ended {
			out := outcome{state: Rejected, refusal: fault.New(fault.InventoryRefused, "The stock could not be reserved.")}
			if row.reservation == effects.Succeeded {
				p := entries[n].placement(owned)
				p.ID = row.order
				if out, err = place(ctx, w.Tx, p); err != nil {
					return fmt.Errorf("row %d: %w", row.number, err)
				}
				if out.order != row.order { // refused, or somebody else has placed it meanwhile
					call, err := i.inventory.Release(owned.Tenant, row.order, owned.ID)
					if err != nil {
						return err
					}
					releases = append(releases, call)
				}
			}
			if out.state == Succeeded {
				succeeded++
			} else {
				rejected++
			}
			w.Tx.Stage(rowKind, out.settled(owned, row.number))
		}
		if len(releases) > 0 {
			if err := i.inventory.Ask(ctx, w.Tx, i.inventory.Destination, releases...); err != nil {
				return err
			}
		}
		w.Checkpoint(owned.Checkpoint, succeeded, rejected)
		return nil
	})
}

// entriesOf are the orders of these rows, which may lie in several chunks.
func (i *Importer) entriesOf(ctx context.Context, owned *tasks.Owned, rows []waiting) (found []entry, err error) {
	err = owned.Read(ctx, func(ctx context.Context, db postgres.DBTX) error {
		var entries []entry
		first := int32(0)
		for _, row := range rows {
			if n := row.number - first; entries == nil || int(n) >= len(entries) {
				chunk, err := queries.ReadImportChunkOfRow(ctx, db, importsdb.ReadImportChunkOfRowParams{
					TenantID: owned.Tenant, TaskID: owned.ID, Row: row.number,
				})
				if err != nil {
					return err
				}
				if entries, err = unpack(chunk.Input); err != nil {
					return err
				}
				first = chunk.FirstRow
			}
			found = append(found, entries[row.number-first])
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the orders of waiting rows: %w", err)
	}
	return found, nil
}
