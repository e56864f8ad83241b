package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/effects/internal/effectsdb"
	"orderonce/internal/fault"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

// Discord is how the effects and a destination's own word can disagree.
type Discord string

// None of them can come about by what this service does; each means that a promise was broken, here or there.
const (
	ExecutedTwice         Discord = "executed_twice"          // one operation of one order, under whatever keys
	ExecutedWithoutEffect Discord = "executed_without_effect" // nobody here has asked for it
	ExecutedButFailed     Discord = "executed_but_failed"     // what counts as failed here was done
	SuccessDenied         Discord = "success_denied"          // what counts as done here was not
)

// Disagreement is one that was found. Tenant and Order are nil where the destination does not say.
type Disagreement struct {
	Tenant      uuid.UUID       `json:"tenant_id"`
	ID          uuid.UUID       `json:"id"`
	Destination string          `json:"destination"`
	Kind        Discord         `json:"kind"`
	Key         string          `json:"idempotency_key"` // as the destination has it
	Order       uuid.UUID       `json:"order_id"`
	Operation   string          `json:"operation"`
	Details     json.RawMessage `json:"details"` // what each side says
	FoundAt     time.Time       `json:"found_at"`
	ClearedAt   *time.Time      `json:"cleared_at,omitempty"`
}

// Open reads up to size disagreements with a destination that nobody has cleared, newest first, older than before.
func Open(ctx context.Context, db postgres.DBTX, destination string, before uuid.UUID, size int32) (page []Disagreement, more bool, err error) {
	rows, err := queries.ListOpenFindings(ctx, db, effectsdb.ListOpenFindingsParams{
		Destination: destination, Before: before, PageSize: size + 1,
	})
	if err != nil {
		return nil, false, fmt.Errorf("list disagreements: %w", err)
	}
	if more = len(rows) > int(size); more {
		rows = rows[:size]
	}
	for _, row := range rows {
		page = append(page, disagreementOf(row))
	}
	return page, more, nil
}

// OpenCount is how many disagreements nobody has cleared.
type OpenCount struct {
	Destination string
	Kind        Discord
	Open        int64
}

// CountOpen counts them, for a gauge.
func CountOpen(ctx context.Context, db postgres.DBTX) (counts []OpenCount, err error) {
	rows, err := queries.CountOpenFindings(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("count disagreements: %w", err)
	}
	for _, row := range rows {
		counts = append(counts, OpenCount{row.Destination, Discord(row.Kind), row.Open})
	}
	return counts, nil
}

// Clear says that a person has dealt with a disagreement; what was done about it is the reason. Said twice it is done
// once. It is not found again.
func Clear(ctx context.Context, tx *postgres.Tx, by identity.Change, tenant, id uuid.UUID) (Disagreement, error) {
	db, err := tx.DB(ctx)
	if err != nil {
		return Disagreement{}, err
	}
	cleared, err := queries.ClearFinding(ctx, db, effectsdb.ClearFindingParams{TenantID: tenant, ID: id})
	if err != nil {
		return Disagreement{}, fmt.Errorf("clear disagreement %s: %w", id, err)
	}
	row, err := queries.ReadFinding(ctx, db, effectsdb.ReadFindingParams{TenantID: tenant, ID: id})
	if errors.Is(err, pgx.ErrNoRows) {
		return Disagreement{}, fault.New(fault.NotFound, "There is no such disagreement.")
	}
	if err != nil {
		return Disagreement{}, fmt.Errorf("read disagreement %s: %w", id, err)
	}
	d := disagreementOf(row)
	if cleared == 0 {
		return d, nil
	}
	return d, by.Audit(ctx, tx, tenant, "reconciliation.cleared", id, map[string]any{
		"destination": d.Destination, "kind": d.Kind, "order_id": d.Order, "operation": d.Operation, "idempotency_key": d.Key,
	})
}

func disagreementOf(r effectsdb.ReconciliationFinding) Disagreement {
	return Disagreement{
		Tenant: r.TenantID, ID: r.ID, Destination: r.Destination, Kind: Discord(r.Kind), Key: r.IdempotencyKey, Order: r.OrderID,
		Operation: r.Operation, Details: r.Details, FoundAt: r.FoundAt, ClearedAt: r.ClearedAt,
	}
}
