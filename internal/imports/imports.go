// Package imports owns the import of orders: the first long task. It keeps what came in, places the orders chunk by chunk,
// each under its client's own name, and says of each row what became of it. Everything that it writes goes through its
// task's fence; it has no other way to the database. A row's own failure is its result, never the task's.
package imports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/fault"
	"orderonce/internal/imports/internal/importsdb"
	"orderonce/internal/orders"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks"
)

// Operation is the operation that accepts imports.
const Operation = "importOrders"

var queries = importsdb.New()

// chunkKind's rows stand behind their task; rowKind's are what came of orders, written last.
var (
	chunkKind = &postgres.Kind{Name: "import chunk", Rank: postgres.RankTask, Busy: fault.Busy}
	rowKind   = &postgres.Kind{Name: "import row", Rank: postgres.RankResult, Busy: fault.Busy}
)

// options are what an import asks for besides its orders. Chunks counts its parts.
type options struct {
	ReserveInventory bool  `json:"reserve_inventory"`
	Chunks           int32 `json:"chunks"`
}

// Accept writes the task and its input into the unit that stores the promise.
func Accept(ctx context.Context, tx *postgres.Tx, a tasks.Acceptance, input *Input) (tasks.Task, error) {
	a.Total = input.rows
	a.Options = options{input.ReserveInventory, int32(len(input.chunks))} //nolint:gosec // one for each hundred rows
	task, err := tasks.Accept(ctx, tx, a)
	if err != nil {
		return tasks.Task{}, err
	}
	for i, c := range input.chunks {
		tx.Stage(chunkKind, chunkRow{
			TenantID: task.Tenant, TaskID: task.ID, Number: int32(i), FirstRow: c.firstRow, Input: c.input,
		})
	}
	return task, nil
}

type chunkRow importsdb.InsertImportChunkParams

func (c chunkRow) Write(ctx context.Context, db postgres.DBTX) error {
	return queries.InsertImportChunk(ctx, db, importsdb.InsertImportChunkParams(c))
}

// Inventory is how stock is reserved for an order that there is not yet, and given back where there will be none. The
// reservation is the one that the order's own creation would ask for, by its identity: when the order is placed, it is
// there already.
type Inventory struct {
	Destination string
	Reserve     func(tenant, order, asker uuid.UUID, items []orders.Item) (effects.Call, error)
	Release     func(tenant, order, asker uuid.UUID) (effects.Call, error)
	// Ask makes effects of the calls in the unit; those that are there already are left as they are.
	Ask func(ctx context.Context, tx *postgres.Tx, destination string, calls ...effects.Call) error
}

// Importer does the work of imports.
type Importer struct{ inventory *Inventory }

// NewImporter places orders. Without an inventory, imports that want their stock reserved get nowhere.
func NewImporter(inventory *Inventory) *Importer { return &Importer{inventory} }

// errNoInventory says that this process cannot do what the import asks for.
var errNoInventory = errors.New("no inventory is configured to reserve at")

const (
	// waitPending is the pause before reservations under way are looked at again, waitUnknown that of those whose outcome
	// nobody knows.
	waitPending, waitUnknown = time.Second, 5 * time.Second
)

// Step places one chunk of orders; when there is none left, it looks after the rows that wait for their reservations.
func (i *Importer) Step(ctx context.Context, owned *tasks.Owned) (tasks.Next, error) {
	var asked options
	if err := json.Unmarshal(owned.Options, &asked); err != nil {
		return tasks.Next{}, fmt.Errorf("decode the options of an import: %w", err)
	}
	if asked.ReserveInventory && i.inventory == nil {
		return tasks.Next{}, errNoInventory
	}
	if owned.Checkpoint < asked.Chunks {
		return tasks.GoOn(), i.chunk(ctx, owned, asked)
	}
	if owned.Progress.Done() == owned.Progress.Total {
		return tasks.Done(), nil
	}
	return i.settleWaiting(ctx, owned)
}

// Forget removes a part of what a task has left.
func Forget(ctx context.Context, db postgres.DBTX, task tasks.Expired) (more bool, err error) {
	const batch = 1000
	n, err := queries.PurgeImportRows(ctx, db, importsdb.PurgeImportRowsParams{TenantID: task.Tenant, TaskID: task.ID, Batch: batch})
	if err == nil && n == 0 {
		_, err = queries.PurgeImportChunks(ctx, db, importsdb.PurgeImportChunksParams{TenantID: task.Tenant, TaskID: task.ID})
	}
	if err != nil {
		return false, fmt.Errorf("remove the results of an import: %w", err)
	}
	return n > 0, nil
}
