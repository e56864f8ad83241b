package imports

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/imports/internal/importsdb"
	"orderonce/internal/postgres"
	"orderonce/internal/tasks"
)

// RowState is where a row stands.
type RowState string

const (
	Waiting   RowState = "waiting" // for its reservation
	Succeeded RowState = "succeeded"
	Rejected  RowState = "rejected"
)

// Result is what became of a row.
type Result struct {
	Row           int32 // counted from 0
	State         RowState
	ClientOrderID *string      // nil where the row has none that can be one
	OrderID       uuid.UUID    // of a row that succeeded
	Refusal       *fault.Error // of one that was rejected
}

// refusal is a fault as it is kept.
type refusal struct {
	Code   string        `json:"code"`
	Detail string        `json:"detail,omitempty"`
	Holder string        `json:"holder,omitempty"`
	Fields []fault.Field `json:"fields,omitempty"`
}

// insertion is a row's first outcome.
type insertion struct {
	importsdb.InsertImportRowParams
	refusal *fault.Error
}

func (o outcome) row(owned *tasks.Owned, number int32, name string) insertion {
	in := insertion{importsdb.InsertImportRowParams{
		TenantID: owned.Tenant, TaskID: owned.ID, Number: number, State: string(o.state), OrderID: o.orderID(),
	}, o.refusal}
	if name != "" {
		in.ClientOrderID = &name
	}
	return in
}

func (in insertion) Write(ctx context.Context, db postgres.DBTX) (err error) {
	if in.Problem, err = encode(in.refusal); err != nil {
		return err
	}
	return queries.InsertImportRow(ctx, db, in.InsertImportRowParams)
}

// settlement is the outcome of a row that waited.
type settlement struct {
	importsdb.SettleImportRowParams
	refusal *fault.Error
}

func (o outcome) settled(owned *tasks.Owned, number int32) settlement {
	return settlement{importsdb.SettleImportRowParams{
		TenantID: owned.Tenant, TaskID: owned.ID, Number: number, State: string(o.state), OrderID: o.orderID(),
	}, o.refusal}
}

func (s settlement) Write(ctx context.Context, db postgres.DBTX) (err error) {
	if s.Problem, err = encode(s.refusal); err != nil {
		return err
	}
	return queries.SettleImportRow(ctx, db, s.SettleImportRowParams)
}

func (o outcome) orderID() uuid.NullUUID {
	return uuid.NullUUID{UUID: o.order, Valid: o.order != uuid.Nil}
}

func encode(f *fault.Error) (json.RawMessage, error) {
	if f == nil {
		return nil, nil
	}
	text, err := json.Marshal(refusal{f.Kind.String(), f.Detail, f.Holder, f.Fields})
	if err != nil {
		return nil, fmt.Errorf("encode a row's problem: %w", err)
	}
	return text, nil
}

// Results reads up to size rows of an import behind a row, in their order. A state narrows them. more says whether there
// are others behind them. -1 begins at the first.
func Results(
	ctx context.Context, db postgres.DBTX, tenant, task uuid.UUID, state *string, after, size int32,
) (page []Result, more bool, err error) {
	rows, err := queries.ListImportRows(ctx, db, importsdb.ListImportRowsParams{
		TenantID: tenant, TaskID: task, After: after, State: state, PageSize: size + 1,
	})
	if err != nil {
		return nil, false, fmt.Errorf("list the rows of an import: %w", err)
	}
	if more = len(rows) > int(size); more {
		rows = rows[:size]
	}
	page = make([]Result, len(rows))
	for i, row := range rows {
		page[i] = Result{Row: row.Number, State: RowState(row.State), ClientOrderID: row.ClientOrderID}
		if page[i].State == Succeeded {
			page[i].OrderID = row.OrderID.UUID
		}
		if row.Problem == nil {
			continue
		}
		var r refusal
		if err := json.Unmarshal(row.Problem, &r); err != nil {
			return nil, false, fmt.Errorf("decode the problem of row %d: %w", row.Number, err)
		}
		page[i].Refusal = &fault.Error{Kind: fault.KindNamed(r.Code), Detail: r.Detail, Holder: r.Holder, Fields: r.Fields}
	}
	return page, more, nil
}
