package idempotency

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/idempotency/internal/idempotencydb"
	"orderonce/internal/postgres"
	"orderonce/internal/telemetry"
)

// Record is what is remembered of a key, without the answer's body.
type Record struct {
	Operation   string     `json:"operation"`
	Principal   uuid.UUID  `json:"principal_id"` // the nil UUID where all of the tenant share their keys
	APIVersion  string     `json:"api_version"`
	Status      *int16     `json:"status"` // nil for a record without a result
	Resource    *Resource  `json:"resource,omitempty"`
	CreatedAt   time.Time  `json:"created_at"`
	CompletedAt *time.Time `json:"completed_at,omitempty"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	TraceID     string     `json:"trace_id,omitempty"` // of the request that made it, where its trace was kept
}

// RecordsOf finds a key in the scopes that these principals and operations of a tenant can have: it costs a look at the
// primary key for each.
func RecordsOf(
	ctx context.Context, db postgres.DBTX, tenant uuid.UUID, principals []uuid.UUID, operations []string, key Key,
) ([]Record, error) {
	rows, err := queries.ListRecordsOfKey(ctx, db, idempotencydb.ListRecordsOfKeyParams{
		TenantID: tenant, PrincipalIds: principals, Operations: operations, IdempotencyKey: string(key),
	})
	if err != nil {
		return nil, fmt.Errorf("find the records of a key: %w", err)
	}
	records := make([]Record, len(rows))
	for i, row := range rows {
		records[i] = Record{
			Operation: row.Operation, Principal: row.PrincipalID, APIVersion: row.ApiVersion, Status: row.ResponseStatus,
			CreatedAt: row.CreatedAt, CompletedAt: row.CompletedAt, ExpiresAt: row.ExpiresAt,
		}
		if row.ResourceType != nil {
			records[i].Resource = &Resource{Type: *row.ResourceType, ID: row.ResourceID.UUID}
		}
		if row.Traceparent != nil {
			records[i].TraceID = telemetry.ParseTraceparent(*row.Traceparent).TraceID().String()
		}
	}
	return records, nil
}
