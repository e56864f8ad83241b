package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/imports"
	"orderonce/internal/postgres"
)

// ListTaskResults reads one page of a task's rows, in their order.
func (s *Server) ListTaskResults(ctx context.Context, request api.ListTaskResultsRequestObject) (api.ListTaskResultsResponseObject, error) {
	params := request.Params
	after, err := parseRowToken(params.PageToken)
	if err != nil {
		return nil, err
	}
	var page []imports.Result
	var more bool
	err = s.read(ctx, func(ctx context.Context, db postgres.DBTX) error {
		task, err := ownTask(ctx, db, request.TaskId)
		if err != nil {
			return err
		}
		page, more, err = imports.Results(ctx, db, task.Tenant, task.ID, (*string)(params.State), after, *params.PageSize)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := api.ListTaskResults200JSONResponse{Results: make([]api.TaskResult, len(page))}
	for i, result := range page {
		out.Results[i] = resultOf(result)
	}
	if more {
		token := rowToken(page[len(page)-1].Row)
		out.NextPageToken = &token
	}
	return out, nil
}

func resultOf(r imports.Result) api.TaskResult {
	out := api.TaskResult{Row: r.Row, State: api.TaskResultState(r.State), ClientOrderId: r.ClientOrderID, Problem: refusalOf(r.Refusal)}
	if r.State == imports.Succeeded {
		out.OrderId = &r.OrderID
	}
	return out
}

// A row's token is the number of the last row before the page.
func rowToken(last int32) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, uint32(last))) //nolint:gosec // not negative
}

func parseRowToken(token *string) (after int32, err error) {
	if token == nil {
		return -1, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(*token)
	if err != nil || len(b) != 4 || binary.BigEndian.Uint32(b) > math.MaxInt32 {
		return 0, errForeignToken()
	}
	return int32(binary.BigEndian.Uint32(b)), nil //nolint:gosec // looked at above
}
