package main

import (
	"context"

	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/effects/downstream"
	"orderonce/internal/httpapi"
	"orderonce/internal/imports"
	"orderonce/internal/orders"
	"orderonce/internal/tasks"
)

// taskKinds are the kinds of long work there are, each with what the contract promises about it.
func taskKinds(ctx context.Context, c config, planner *effects.Planner) ([]tasks.Kind, error) {
	policy, err := httpapi.Policy(ctx, imports.Operation)
	if err != nil {
		return nil, err
	}
	importer := imports.NewImporter(c.Effects.inventory(planner))
	return []tasks.Kind{{Operation: imports.Operation, Policy: policy, Step: importer.Step, Forget: imports.Forget}}, nil
}

// inventory is where imports reserve; nil where none is configured. What is asked for is of the version that the order is
// made with, and given back as of the next.
func (c effectsConfig) inventory(planner *effects.Planner) *imports.Inventory {
	if c.Inventory == nil {
		return nil
	}
	return &imports.Inventory{
		Destination: downstream.Inventory(*c.Inventory).Name,
		Ask:         planner.Ask,
		Reserve: func(tenant, order, asker uuid.UUID, items []orders.Item) (effects.Call, error) {
			kept := make([]downstream.Item, 0, len(items))
			for _, item := range items {
				kept = append(kept, downstream.Item{SKU: item.SKU, Quantity: item.Quantity})
			}
			return downstream.Reservation(tenant, order, asker, 1, kept)
		},
		Release: func(tenant, order, asker uuid.UUID) (effects.Call, error) {
			return downstream.Release(tenant, order, asker, 2)
		},
	}
}
