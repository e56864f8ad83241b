package effects

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"orderonce/internal/effects/internal/effectsdb"
	"orderonce/internal/postgres"
)

// asked is what makes an operation of a destination the same one, however often and under whatever key it is asked for.
type asked struct {
	tenant, order uuid.UUID
	operation     string
}

// compare holds a page of what the destination lists against the effects that asked for it.
func (l *look) compare(ctx context.Context, operations []Listed) error {
	l.looked.Listed += len(operations)
	params := effectsdb.ListEffectsOfOperationsParams{Destination: l.d.Name}
	for _, o := range operations {
		params.TenantIds = append(params.TenantIds, o.Tenant)
		params.OrderIds = append(params.OrderIds, o.Order)
		params.Operations = append(params.Operations, o.Operation)
	}
	// Read after the page was listed: what was executed by then has an effect that was committed before it was sent.
	effects := map[asked][]Effect{}
	err := l.db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		clear(effects)
		rows, err := queries.ListEffectsOfOperations(ctx, db, params)
		for _, row := range rows {
			e := effectOf(row)
			a := asked{e.Tenant, e.Order, e.Operation}
			effects[a] = append(effects[a], e)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list the effects of operations: %w", err)
	}
	var found []Disagreement
	for _, o := range operations {
		if o.Executed && len(l.seen) < mostSeen {
			l.seen[o.Key] = true
		}
		found = append(found, l.judge(o, effects[asked{o.Tenant, o.Order, o.Operation}])...)
	}
	return l.write(ctx, found)
}

// judge says how an operation and the effects that ask for the same disagree.
func (l *look) judge(o Listed, effects []Effect) (found []Disagreement) {
	says := map[string]any{"executed": o.Executed, "executions": o.Executions, "reference": clean(o.Reference), "at": o.At}
	add := func(kind Discord, e Effect) {
		if e.ID != uuid.Nil {
			says["effect"], says["effect_state"], says["effect_key"] = e.ID, e.State, e.Key
		}
		e.Tenant, e.Order, e.Operation = o.Tenant, o.Order, o.Operation
		found = append(found, l.disagreement(kind, e, o.Key, says))
	}
	var own, done Effect // the effect of this very key, and one that is done under another
	for _, e := range effects {
		switch {
		case e.Key.String() == o.Key:
			own = e
		case e.State == Succeeded && e.FirstSentAt != nil:
			done = e
		}
	}
	if !o.Executed {
		if own.State == Succeeded {
			add(SuccessDenied, own)
		}
		return found
	}
	if own.ID == uuid.Nil {
		if done.ID != uuid.Nil {
			add(ExecutedTwice, done)
		}
		add(ExecutedWithoutEffect, done)
		return found
	}
	if o.Executions > 1 {
		add(ExecutedTwice, own)
	}
	if own.State == Failed {
		add(ExecutedButFailed, own)
	}
	return found
}

// disagreement is one about an operation, under the key that the destination has it by.
func (l *look) disagreement(kind Discord, e Effect, key string, says map[string]any) Disagreement {
	details, err := json.Marshal(says)
	if err != nil {
		panic(err) //nolint:forbidigo // ids, times and words always encode
	}
	runes := []rune(clean(key))
	return Disagreement{
		Tenant: e.Tenant, Destination: l.d.Name, Kind: kind, Key: string(runes[:min(len(runes), 255)]), Order: e.Order,
		Operation: clean(e.Operation), Details: details,
	}
}

// write keeps the disagreements that are not known yet, and raises the alarm for each.
func (l *look) write(ctx context.Context, found []Disagreement) error {
	if len(found) == 0 {
		return nil
	}
	fresh := make([]bool, len(found))
	err := l.inTx(ctx, func(ctx context.Context, db postgres.DBTX) error {
		for i, d := range found {
			id, err := uuid.NewV7()
			if err != nil {
				return err
			}
			found[i].ID = id
			rows, err := queries.InsertFinding(ctx, db, effectsdb.InsertFindingParams{
				TenantID: d.Tenant, ID: id, Destination: d.Destination, Kind: string(d.Kind), IdempotencyKey: d.Key, OrderID: d.Order,
				Operation: d.Operation, Details: d.Details,
			})
			if err != nil {
				return err
			}
			fresh[i] = rows == 1
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write disagreements: %w", err)
	}
	for i, d := range found {
		if fresh[i] {
			l.looked.Found++
			l.log.ErrorContext(ctx, "the destination and the effects disagree", "destination", d.Destination, "kind", d.Kind,
				"tenant", d.Tenant, "order", d.Order, "operation", d.Operation, "finding", d.ID)
		}
	}
	return nil
}
