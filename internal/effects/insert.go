package effects

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"orderonce/internal/effects/internal/effectsdb"
	"orderonce/internal/postgres"
)

// insert is the rows of new effects, column by column: one statement writes them all.
type insert struct {
	effectsdb.InsertEffectsParams
	known []uuid.UUID // those that were decided by what their lane held, so that they must be new
}

func (i *insert) add(a planned, state State, due bool) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("effect id: %w", err)
	}
	hash := sha256.Sum256(a.Request)
	i.TenantIds = append(i.TenantIds, a.Tenant)
	i.Ids = append(i.Ids, id)
	i.Destinations = append(i.Destinations, a.to.Name)
	i.Lanes = append(i.Lanes, a.Lane)
	i.Operations = append(i.Operations, a.Operation)
	i.Reverts = append(i.Reverts, orEmpty(a.Reverts))
	i.EventIds = append(i.EventIds, a.Event)
	i.OrderIds = append(i.OrderIds, a.Order)
	i.Versions = append(i.Versions, a.Version)
	i.IdempotencyKeys = append(i.IdempotencyKeys, a.identity().key(a.Tenant))
	i.Requests = append(i.Requests, a.Request)
	i.RequestHashes = append(i.RequestHashes, hash[:])
	i.Required = append(i.Required, a.Required)
	i.States = append(i.States, string(state))
	i.Due = append(i.Due, due)
	i.Traceparents = append(i.Traceparents, orEmpty(a.Traceparent))
	if a.known() {
		i.known = append(i.known, id)
	}
	return nil
}

func (i *insert) write(ctx context.Context, tx *postgres.Tx, db postgres.DBTX) error {
	if len(i.Ids) == 0 {
		return nil
	}
	i.NothingToUndo = NothingToUndo
	made, err := queries.InsertEffects(ctx, db, i.InsertEffectsParams)
	if err != nil {
		return fmt.Errorf("make effects: %w", err)
	}
	if len(made) < len(i.Ids) { // rare: somebody else has made some of them
		for _, id := range i.known {
			if !slices.Contains(made, id) {
				return errMeanwhile
			}
		}
	}
	if len(made) > 0 {
		tx.Wrote(effectKind)
	}
	return nil
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
