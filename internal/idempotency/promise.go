package idempotency

import (
	"context"
	"fmt"
	"time"

	"orderonce/internal/idempotency/internal/idempotencydb"
	"orderonce/internal/postgres"
)

// EndRetention begins the retention of a record whose answer was a promise, in the transaction in which that was kept:
// the key is forgotten after so long. A record that is gone is none to speak of.
func EndRetention(ctx context.Context, db postgres.DBTX, scope Scope, keep time.Duration) error {
	err := queries.EndRetention(ctx, db, idempotencydb.EndRetentionParams{
		TenantID: scope.Tenant, PrincipalID: scope.Principal, Operation: scope.Operation,
		IdempotencyKey: string(scope.Key), Retention: keep,
	})
	if err != nil {
		return fmt.Errorf("end an open retention: %w", err)
	}
	return nil
}

// OpenRetention keeps a record again for as long as its promise is worked on.
func OpenRetention(ctx context.Context, db postgres.DBTX, scope Scope) error {
	err := queries.OpenRetention(ctx, db, idempotencydb.OpenRetentionParams{
		TenantID: scope.Tenant, PrincipalID: scope.Principal, Operation: scope.Operation, IdempotencyKey: string(scope.Key),
	})
	if err != nil {
		return fmt.Errorf("open a retention again: %w", err)
	}
	return nil
}
