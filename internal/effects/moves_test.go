package effects_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"orderonce/internal/effects"
	"orderonce/internal/fault"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

var (
	by      = identity.Change{Actor: "cli:alice", Reason: "ticket 17"}
	known   = effects.Finding{Evidence: "their ledger, entry 4711"}
	certain = effects.Finding{Evidence: "their support says no", Absent: true}
)

// resolve makes a move in a unit of its own.
func (f *fixture) resolve(id uuid.UUID, move effects.Move, found effects.Finding) (e effects.Effect, err error) {
	err = f.db.Run(f.t.Context(), postgres.Unit{LockTimeout: patience}, func(ctx context.Context, tx *postgres.Tx) (err error) {
		e, err = effects.Resolve(ctx, tx, by, f.tenant, id, move, found, f.options().Ended)
		return err
	})
	return e, err
}

// in makes an effect that stands in a state, sent once.
func (f *fixture) in(state effects.State, remembered bool) uuid.UUID {
	f.t.Helper()
	id := f.add(plan{})
	f.exec(`UPDATE effects SET state = $2::effect_state, attempts = 1, attempt_token = 1, first_sent_at = now(),
			key_valid_until = now() + CASE WHEN $3 THEN interval '1 hour' ELSE interval '-1 second' END,
			owner = CASE WHEN $2::effect_state = 'in_flight' THEN 'another' END,
			due_at = CASE WHEN $2::effect_state IN ('pending', 'in_flight', 'unknown') THEN now() + interval '1 hour' END,
			ended_at = CASE WHEN $2::effect_state IN ('succeeded', 'failed') THEN now() END
		WHERE id = $1`, id, string(state), remembered)
	return id
}

func (f *fixture) audited() int64 { return f.count("SELECT count(*) FROM audit_log") }

var moves = []effects.Move{effects.Succeed, effects.Fail, effects.Resend, effects.RetryNow, effects.TakeOver}

// Every state and move: the server offers what it does, and refuses the rest without a trace.
func TestPeoplesMoves(t *testing.T) {
	t.Parallel()
	f := setup(t)
	table := map[string]effects.State{
		"pending retry_now": effects.Pending, "unknown retry_now": effects.Unknown, "unknown take_over": effects.NeedsHuman,
		"needs_human succeed": effects.Succeeded, "needs_human fail": effects.Failed, "needs_human resend": effects.Pending,
	}
	for _, state := range states {
		for _, move := range moves {
			id := f.in(state, true)
			before := f.find(id)
			to, offered := table[string(state)+" "+string(move)]
			if slices.Contains(effects.Moves(before), move) != offered {
				t.Errorf("%s: offers %v", state, effects.Moves(before))
			}
			audited, told := f.audited(), len(f.told())
			e, err := f.resolve(id, move, known)
			after := f.find(id)
			if !offered {
				if fault.KindOf(err) != fault.EffectNotMovable || f.audited() != audited || len(f.told()) != told {
					t.Errorf("%s, %s: %v, %d audited", state, move, err, f.audited()-audited)
				}
				if diff := cmp.Diff(before, after); diff != "" {
					t.Errorf("%s, %s: %s", state, move, diff)
				}
				continue
			}
			if err != nil || e.State != to || after.State != to || after.Token != before.Token+1 || f.audited() != audited+1 {
				t.Errorf("%s, %s: %s, %v, want %s; %d audited", state, move, after.State, err, to, f.audited()-audited)
			}
			due := to == effects.Pending || to == effects.Unknown
			if due != (after.DueAt != nil) || due && after.DueAt.After(time.Now().Add(time.Minute)) {
				t.Errorf("%s, %s: due %v", state, move, after.DueAt)
			}
			if ends := to == effects.Succeeded || to == effects.Failed; ends != (len(f.told()) == told+1) {
				t.Errorf("%s, %s: told %d times", state, move, len(f.told())-told)
			}
			entries := f.entries(id)
			if last := entries[len(entries)-1]; last.Actor != by.Actor || last.Reason != by.Reason || last.Move != move || last.Detail != known.Evidence {
				t.Errorf("%s, %s: evidence %+v", state, move, last)
			}
		}
	}
}

// Said twice it is done once, by one person or by two at the same time; what is different the second time is refused.
func TestMoveSaidTwiceIsDoneOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.in(effects.NeedsHuman, true)
	start := make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			<-start
			if e, err := f.resolve(id, effects.Succeed, known); err != nil || e.State != effects.Succeeded {
				t.Errorf("%s, %v", e.State, err)
			}
		})
	}
	close(start)
	all.Wait()
	if f.audited() != 1 || len(f.told()) != 1 || len(f.entries(id)) != 1 {
		t.Errorf("%d audited, %d told, evidence %+v", f.audited(), len(f.told()), f.entries(id))
	}
	for name, other := range map[string]func() error{
		"another move": func() error { _, err := f.resolve(id, effects.Fail, known); return err },
		"other evidence": func() error {
			_, err := f.resolve(id, effects.Succeed, effects.Finding{Evidence: "a guess"})
			return err
		},
		"a resend of that": func() error { _, err := f.resolve(id, effects.Resend, certain); return err },
	} {
		if err := other(); fault.KindOf(err) != fault.EffectNotMovable {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A resend is recognised when a worker has it already, and made again when it came to nothing.
	again := f.in(effects.NeedsHuman, true)
	for _, state := range []string{"pending", "in_flight", "succeeded"} {
		if _, err := f.resolve(again, effects.Resend, known); err != nil {
			t.Errorf("when it is %s: %v", state, err)
		}
		f.exec("UPDATE effects SET state = $2::effect_state, ended_at = CASE WHEN $2::effect_state = 'succeeded' THEN now() END WHERE id = $1", again, state)
	}
	if f.audited() != 2 {
		t.Errorf("%d audited", f.audited())
	}
	f.exec("UPDATE effects SET state = 'needs_human', ended_at = NULL WHERE id = $1", again)
	if e, err := f.resolve(again, effects.Resend, known); err != nil || e.State != effects.Pending || f.audited() != 3 {
		t.Errorf("after it came to nothing: %s, %v, %d audited", e.State, err, f.audited())
	}
}

// A key past its validity is not resent because somebody wants it: only where the destination is certain that it never
// executed it. Then its memory begins anew.
func TestForgottenKeyIsResentOnlyWithCertainty(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	id := f.in(effects.NeedsHuman, false)
	if _, err := f.resolve(id, effects.Resend, known); fault.KindOf(err) != fault.EffectNotMovable || f.audited() != 0 {
		t.Errorf("%v, %d audited", err, f.audited())
	}
	if e, err := f.resolve(id, effects.Resend, certain); err != nil || e.State != effects.Pending || e.KeyValidUntil != nil {
		t.Errorf("%s, %v, valid until %v", e.State, err, e.KeyValidUntil)
	}
	// Nor is one that was remembered when somebody resent it, and is not when its turn comes.
	lapsed := f.in(effects.NeedsHuman, true)
	if _, err := f.resolve(lapsed, effects.Resend, known); err != nil {
		t.Fatal(err)
	}
	f.exec("UPDATE effects SET key_valid_until = now() WHERE id = $1", lapsed)
	f.run(f.worker(f.options(), out.destination("payment", effects.Idempotent)))
	f.awaitState(id, effects.Succeeded)
	f.awaitState(lapsed, effects.NeedsHuman)
	if len(out.seen()) != 1 {
		t.Errorf("%d requests", len(out.seen()))
	}
}

// A person's end ends the wait of the successor too; and a worker's answer that comes after a person took over is
// refused.
func TestPersonsEndIsAnEnd(t *testing.T) {
	t.Parallel()
	f, out := setup(t), newOutside(t)
	order, authorize := newID(t), "authorize"
	first := f.add(plan{order: order, version: 1})
	undo := f.add(plan{order: order, version: 2, operation: "void", blocked: true, reverts: &authorize})
	last := f.add(plan{order: order, version: 3, operation: "note", blocked: true})
	f.exec("UPDATE effects SET state = 'needs_human', due_at = NULL WHERE id = $1", first)
	if _, err := f.resolve(first, effects.Fail, known); err != nil {
		t.Fatal(err)
	}
	if e := f.find(undo); e.State != effects.Succeeded || e.Attempts != 0 {
		t.Errorf("the undoing is %s", e.State)
	}
	if len(f.told()) != 2 {
		t.Errorf("told of %d ends", len(f.told()))
	}
	d := out.destination("payment", effects.Idempotent)
	d.Ordered = true
	f.run(f.worker(f.options(), d))
	f.awaitState(last, effects.Succeeded)
}

// The hook's error undoes the move and its line in the audit log.
func TestMoveIsUndoneWithItsConsequence(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.in(effects.NeedsHuman, true)
	wrong := errors.New("no such order")
	err := f.db.Run(t.Context(), postgres.Unit{LockTimeout: patience}, func(ctx context.Context, tx *postgres.Tx) error {
		_, err := effects.Resolve(ctx, tx, by, f.tenant, id, effects.Succeed, known, func(context.Context, *postgres.Tx, effects.Effect) error { return wrong })
		return err
	})
	if !errors.Is(err, wrong) || f.audited() != 0 || f.find(id).State != effects.NeedsHuman {
		t.Errorf("%v, %d audited, %s", err, f.audited(), f.find(id).State)
	}
}

// A move needs words that can be kept, and an effect that there is.
func TestMoveNeedsItsWords(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.in(effects.NeedsHuman, true)
	for _, evidence := range []string{"", "no", strings.Repeat("é", 501), "\xff\xff\xff", "a\x00b"} {
		if _, err := f.resolve(id, effects.Succeed, effects.Finding{Evidence: evidence}); fault.KindOf(err) != fault.ValidationFailed {
			t.Errorf("evidence %q: %v", evidence, err)
		}
	}
	if _, err := f.resolve(id, effects.Succeed, certain); fault.KindOf(err) != fault.ValidationFailed {
		t.Errorf("absent and succeeded: %v", err)
	}
	err := f.db.Run(t.Context(), postgres.Unit{}, func(ctx context.Context, tx *postgres.Tx) error {
		_, err := effects.Resolve(ctx, tx, identity.Change{Actor: "cli:alice"}, f.tenant, id, effects.Succeed, known, nil)
		return err
	})
	if fault.KindOf(err) != fault.ValidationFailed || f.find(id).State != effects.NeedsHuman {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := f.resolve(uuid.Max, effects.Succeed, known); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an effect that there is not: %v", err)
	}
	f.tenant = uuid.Max
	if _, err := f.resolve(id, effects.Succeed, known); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another tenant's: %v", err)
	}
}

// Lists are what people look at: by what they ask for, page by page; and the replay's dry run says of each key whether
// it may be sent again, and changes nothing.
func TestListsAndDryRun(t *testing.T) {
	t.Parallel()
	f := setup(t)
	remembered, forgotten := f.in(effects.NeedsHuman, true), f.in(effects.NeedsHuman, false)
	unknown, done := f.in(effects.Unknown, true), f.in(effects.Succeeded, true)
	never := f.in(effects.NeedsHuman, false)
	f.exec("UPDATE effects SET key_valid_until = NULL, destination = 'stock' WHERE id = $1", never)
	own := uuid.NullUUID{UUID: f.tenant, Valid: true}
	f.tenant = newID(t)
	others := f.in(effects.NeedsHuman, true)
	f.tenant = own.UUID
	for name, c := range map[string]struct {
		filter effects.Filter
		want   []uuid.UUID
	}{
		"all of a tenant": {effects.Filter{Tenant: own}, []uuid.UUID{never, done, unknown, forgotten, remembered}},
		"a state":         {effects.Filter{Tenant: own, State: effects.NeedsHuman}, []uuid.UUID{never, forgotten, remembered}},
		"a destination":   {effects.Filter{Tenant: own, State: effects.NeedsHuman, Destination: "stock"}, []uuid.UUID{never}},
		"an order":        {effects.Filter{Tenant: own, Order: uuid.NullUUID{UUID: f.find(done).Order, Valid: true}}, []uuid.UUID{done}},
		"all tenants":     {effects.Filter{State: effects.NeedsHuman}, []uuid.UUID{others, never, forgotten, remembered}},
		"in doubt":        {effects.Filter{State: effects.Unknown, Destination: "payment"}, []uuid.UUID{unknown}},
	} {
		for _, size := range []int32{1, 2, 100} {
			var got []uuid.UUID
			for before, more := uuid.Max, true; more; {
				err := f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
					var page []effects.Effect
					page, more, err = effects.List(ctx, db, c.filter, before, size)
					for _, e := range page {
						got, before = append(got, e.ID), e.ID
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, %d a page: %v, want %v", name, size, got, c.want)
			}
		}
	}
	err := f.db.Read(t.Context(), uuid.Nil, func(ctx context.Context, db postgres.DBTX) error {
		for _, f := range []effects.Filter{{}, {State: effects.Pending}, {State: effects.Unknown, Order: own}} {
			if _, _, err := effects.List(ctx, db, f, uuid.Max, 10); fault.KindOf(err) != fault.ValidationFailed {
				t.Errorf("%+v: %v", f, err)
			}
		}
		page, more, err := effects.Replay(ctx, db, effects.Filter{Tenant: own}, uuid.Max, 10)
		if err != nil || more || len(page) != 5 {
			t.Fatalf("%d, %t, %v", len(page), more, err)
		}
		for _, r := range page {
			may := r.Effect.ID == remembered || r.Effect.ID == never
			if (r.Refused == "") != may || r.Remembered != (r.Effect.ID != forgotten && r.Effect.ID != never) {
				t.Errorf("%s, valid until %v: remembered %t, refused %q", r.Effect.State, r.Effect.KeyValidUntil, r.Remembered, r.Refused)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if f.audited() != 0 || f.count("SELECT count(*) FROM effects WHERE attempt_token <> 1") != 0 {
		t.Error("a dry run changed something")
	}
}
