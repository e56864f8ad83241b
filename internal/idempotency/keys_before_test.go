package idempotency_test

import (
	"context"
	"errors"
	"testing"

	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
)

var checkKind = &postgres.Kind{Name: "check", Rank: postgres.RankCredential}

// check is a row ahead of the claim that writes nothing: one where it passes, none where it does not.
type check struct{ passes bool }

func (c check) Write(ctx context.Context, db postgres.DBTX) error {
	_, err := db.Exec(ctx, "SELECT 1 WHERE $1", c.passes)
	return err
}

// Promise 4: the check ahead of the claim guards both the first answer and its replay.
func TestRefusedCheckClaimsNothingAndReplaysNothing(t *testing.T) {
	t.Parallel()
	eachPath(t, func(t *testing.T, f *fixture, create idempotency.Work) {
		t.Helper()
		request := newRequest(t)
		do := func(passes bool) (idempotency.Outcome, error) {
			request.Before = []postgres.Staged{{Kind: checkKind, Row: check{true}}, {Kind: checkKind, Row: check{passes}}}
			return f.keys.Do(t.Context(), request, create)
		}
		refuse := func(things, records int) {
			t.Helper()
			outcome, err := do(false)
			var refused *postgres.Refused
			if !errors.As(err, &refused) || refused.By != checkKind || outcome.Body != nil {
				t.Errorf("%+v, %v; want the check's refusal", outcome, err)
			}
			f.wantRows(things, records)
		}
		refuse(0, 0)
		if outcome, err := do(true); err != nil || outcome.Replayed {
			t.Fatalf("%+v, %v", outcome, err)
		}
		refuse(1, 1)
		if outcome, err := do(true); err != nil || !outcome.Replayed {
			t.Errorf("%+v, %v; want a replay for who passes", outcome, err)
		}
	})
}
