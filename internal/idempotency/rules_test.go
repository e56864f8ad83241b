package idempotency

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/postgres"
	"orderonce/internal/postgres/postgrestest"
)

// Two versions of the service live on one database during a deploy that changes the rules: the new one recognises
// the records of the old one, and the old one does not take a record that it cannot read for another request's.
func TestRulesChangeKeepsOldKeys(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: postgrestest.URL(t), MaxConns: 4, Acquire: time.Minute, Statement: time.Minute,
		IdleInTransaction: time.Minute, Deadline: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	newKeys := func(book ruleBook) *Keys {
		k := New(db, time.Minute, 0)
		k.rules = book
		return k
	}
	second := func(apiVersion, operation string, p *Parameters) fingerprint {
		made := print("second rules", operation, p)
		made.version = 2
		return made
	}
	before := newKeys(currentRules)
	after := newKeys(ruleBook{writes: 2, known: map[int16]rules{1: print, 2: second}})

	request := func(name string) Request {
		p := &Parameters{}
		if err := p.Body(map[string]any{"name": name}); err != nil {
			t.Fatal(err)
		}
		policy := Policy{Retention: time.Hour, Wait: time.Second, MaxResponse: 1 << 10}
		return Request{
			Scope: policy.Scope(uuid.New(), uuid.New(), "createThing", "0198d0a6-4b7c-7d3e"), Policy: policy, Parameters: p,
		}
	}
	work := func(context.Context, *postgres.Tx) (Answer, error) {
		return Answer{Status: 201, Body: []byte("made")}, nil
	}

	old := request("lamp")
	if _, err := before.Do(t.Context(), old, work); err != nil {
		t.Fatal(err)
	}
	if outcome, err := after.Do(t.Context(), old, work); err != nil || !outcome.Replayed {
		t.Errorf("the new version met an old record: replayed %v, %v", outcome.Replayed, err)
	}
	changed := old
	changed.Parameters = request("chair").Parameters
	if _, err := after.Do(t.Context(), changed, work); fault.KindOf(err) != fault.KeyReused {
		t.Errorf("other parameters under an old record: %v", err)
	}
	young := request("lamp")
	if _, err := after.Do(t.Context(), young, work); err != nil {
		t.Fatal(err)
	}
	if _, err := before.Do(t.Context(), young, work); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("the old version met a new record: %v", err)
	}
}
