package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/identity/internal/identitydb"
	"orderonce/internal/postgres"
)

// Change says who changes something and why. Every change writes both into the audit log, in its own transaction; what
// was so already is no change, and writes nothing.
type Change struct {
	Actor  string // cli:<user of the operating system>, or principal:<id>
	Reason string // 3 to 500 characters
}

// AuditEntry is one change that was made.
type AuditEntry struct {
	ID          uuid.UUID      `json:"id"`
	Tenant      uuid.UUID      `json:"tenant_id"` // whose thing was changed
	Actor       string         `json:"actor"`
	Action      string         `json:"action"` // what was changed and how, such as api_key.revoked
	SubjectType string         `json:"subject_type"`
	SubjectID   uuid.UUID      `json:"subject_id"`
	Reason      string         `json:"reason"`
	Details     map[string]any `json:"details"` // no secrets
	OccurredAt  time.Time      `json:"occurred_at"`
}

// begin opens the unit for a change whose reason can be kept; fault.ValidationFailed where it cannot.
func (c Change) begin(ctx context.Context, tx *postgres.Tx) (postgres.DBTX, error) {
	if n := utf8.RuneCountInString(c.Reason); n < 3 || n > 500 || !utf8.ValidString(c.Reason) {
		return nil, fault.Invalid("/reason", "must have 3 to 500 characters")
	}
	return tx.DB(ctx)
}

// Audit writes, in the unit of the change, that another module's thing was changed. The subject's type is what stands
// before the action's dot. A reason that cannot be kept is fault.ValidationFailed.
func (c Change) Audit(ctx context.Context, tx *postgres.Tx, tenant uuid.UUID, action string, subject uuid.UUID, details map[string]any) error {
	db, err := c.begin(ctx, tx)
	if err != nil {
		return err
	}
	return c.record(ctx, db, tenant, action, subject, details)
}

// record writes that it happened. The subject's type is what stands before the action's dot.
func (c Change) record(ctx context.Context, db postgres.DBTX, tenant uuid.UUID, action string, subject uuid.UUID, details map[string]any) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	text, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("encode the details of %s: %w", action, err)
	}
	subjectType, _, _ := strings.Cut(action, ".")
	err = queries.InsertAuditEntry(ctx, db, identitydb.InsertAuditEntryParams{
		TenantID: tenant, ID: id, Actor: c.Actor, Action: action, SubjectType: subjectType, SubjectID: subject,
		Reason: c.Reason, Details: text, OccurredAt: time.Now(),
	})
	if err != nil {
		return fmt.Errorf("write %s into the audit log: %w", action, err)
	}
	return nil
}

// ListAuditLog reads up to size entries that are older than before, newest first, of one tenant or, where none is
// given, of all. more says whether there are others behind them. uuid.Max begins at the newest.
func ListAuditLog(ctx context.Context, db postgres.DBTX, tenant uuid.NullUUID, before uuid.UUID, size int32) (page []AuditEntry, more bool, err error) {
	var rows []identitydb.AuditLog
	if tenant.Valid {
		rows, err = queries.ListAuditLogOfTenant(ctx, db, identitydb.ListAuditLogOfTenantParams{
			TenantID: tenant.UUID, Before: before, PageSize: size + 1,
		})
	} else {
		rows, err = queries.ListAuditLog(ctx, db, identitydb.ListAuditLogParams{Before: before, PageSize: size + 1})
	}
	if err != nil {
		return nil, false, fmt.Errorf("list the audit log: %w", err)
	}
	page, more = pageOf(rows, size, func(row identitydb.AuditLog) AuditEntry {
		entry := AuditEntry{
			ID: row.ID, Tenant: row.TenantID, Actor: row.Actor, Action: row.Action, SubjectType: row.SubjectType,
			SubjectID: row.SubjectID, Reason: row.Reason, Details: map[string]any{}, OccurredAt: row.OccurredAt,
		}
		if e := json.Unmarshal(row.Details, &entry.Details); e != nil {
			err = fmt.Errorf("decode the details of entry %s: %w", row.ID, e)
		}
		return entry
	})
	return page, more, err
}

// pageOf leaves out the row that was only read to know whether there are more.
func pageOf[Row, Item any](rows []Row, size int32, item func(Row) Item) (page []Item, more bool) {
	if more = len(rows) > int(size); more {
		rows = rows[:size]
	}
	page = make([]Item, len(rows))
	for i, row := range rows {
		page[i] = item(row)
	}
	return page, more
}
