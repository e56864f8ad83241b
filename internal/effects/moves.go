package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/effects/internal/effectsdb"
	"orderonce/internal/fault"
	"orderonce/internal/identity"
	"orderonce/internal/postgres"
)

// Move is what a person may do with an effect.
type Move string

const (
	Succeed  Move = "succeed"   // needs_human → succeeded: it was executed
	Fail     Move = "fail"      // needs_human → failed: it was not, and will not be
	Resend   Move = "resend"    // needs_human → pending: the same key and bytes once more
	RetryNow Move = "retry_now" // pending, unknown: without the rest of its pause
	TakeOver Move = "take_over" // unknown → needs_human: the service need not look any further
)

// Moves are what a person may do with the effect as it is. While a worker has it there is nothing: what is under way is
// not known yet.
func Moves(e Effect) []Move {
	switch e.State {
	case NeedsHuman:
		return []Move{Succeed, Fail, Resend}
	case Unknown:
		if e.Owner == nil {
			return []Move{RetryNow, TakeOver}
		}
	case Pending:
		if e.DueAt != nil {
			return []Move{RetryNow}
		}
	case InFlight, Succeeded, Failed:
	}
	return nil
}

// Finding is how a person knows.
type Finding struct {
	// Evidence is 3 to 500 characters, such as the destination's own reference. Every move but RetryNow needs it.
	Evidence string
	// Absent says for Resend that the destination was asked, and is certain that it never executed the key.
	Absent bool
}

// Resolve makes a person's move and writes it into the audit log, in the unit of tx; ended is told of an end there, as
// a worker's is. Said twice it is done once: the second time it finds the move done and returns the effect as it is.
//
// A move that Moves does not offer is fault.EffectNotMovable. So is Resend for a key that the destination may have
// forgotten, without the certainty that it was never executed.
func Resolve(
	ctx context.Context, tx *postgres.Tx, by identity.Change, tenant, id uuid.UUID, move Move, found Finding, ended Ended,
) (Effect, error) {
	if err := found.check(move); err != nil {
		return Effect{}, err
	}
	db, err := tx.DB(ctx)
	if err != nil {
		return Effect{}, err
	}
	row, err := queries.LockEffect(ctx, db, effectsdb.LockEffectParams{TenantID: tenant, ID: id})
	if errors.Is(err, pgx.ErrNoRows) {
		return Effect{}, notFound()
	}
	if err != nil {
		return Effect{}, fmt.Errorf("lock effect %s: %w", id, err)
	}
	e := effectOf(row)
	entry := Entry{Token: e.Token, Detail: found.Evidence, Actor: by.Actor, Move: move, Reason: by.Reason, Absent: found.Absent}
	if !slices.Contains(Moves(e), move) {
		return e, e.doneBefore(entry)
	}
	change, err := plan(e, entry)
	if err != nil {
		return Effect{}, err
	}
	row, err = queries.MoveEffect(ctx, db, change)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && change.IfPaused:
		return e, nil // it is due
	case errors.Is(err, pgx.ErrNoRows):
		return Effect{}, fault.New(fault.EffectNotMovable, "The key may not be sent again: "+keyForgotten+".")
	case err != nil:
		return Effect{}, fmt.Errorf("move effect %s: %w", id, err)
	}
	moved := effectOf(row)
	err = by.Audit(ctx, tx, tenant, "effect."+string(move), id, map[string]any{
		"order_id": e.Order, "destination": e.Destination, "operation": e.Operation, "from": e.State, "to": moved.State,
		"evidence": found.Evidence, "absent": found.Absent,
	})
	if err == nil && moved.State.definite() {
		_, err = settle(ctx, tx, db, moved, ended)
	}
	return moved, err
}

func (f Finding) check(move Move) error {
	n := utf8.RuneCountInString(f.Evidence)
	switch {
	case !utf8.ValidString(f.Evidence) || strings.ContainsRune(f.Evidence, 0) || n > longestDetail || n < 3 && move != RetryNow:
		return fault.Invalid("/evidence", "must have 3 to 500 characters")
	case f.Absent && move != Resend:
		return fault.Invalid("/absent", "says why a key may be resent, and is about nothing else")
	}
	return nil
}

// doneBefore is nil where the last move that a person made is this very one, and nobody could make it again.
func (e Effect) doneBefore(wanted Entry) error {
	entries, err := e.Entries()
	if err != nil {
		return err
	}
	for _, done := range slices.Backward(entries) {
		if done.Move == "" {
			continue
		}
		if done.Move == wanted.Move && done.Detail == wanted.Detail && done.Reason == wanted.Reason && done.Absent == wanted.Absent {
			return nil
		}
		break
	}
	detail := "It is " + string(e.State) + "."
	if offered := Moves(e); len(offered) > 0 {
		detail += fmt.Sprintf(" It can be moved by %v.", offered)
	}
	return fault.New(fault.EffectNotMovable, detail)
}

// plan is the change that a move means.
func plan(e Effect, entry Entry) (effectsdb.MoveEffectParams, error) {
	change := effectsdb.MoveEffectParams{TenantID: e.Tenant, ID: e.ID, State: string(e.State)}
	switch entry.Move {
	case Succeed:
		change.State = string(Succeeded)
	case Fail:
		change.State = string(Failed)
	case TakeOver:
		change.State = string(NeedsHuman)
	case Resend:
		change.State, change.Due, change.Unsent, change.IfRemembered = string(Pending), true, entry.Absent, !entry.Absent
	case RetryNow:
		change.Due, change.IfPaused = true, true
	}
	var err error
	if change.Entry, err = json.Marshal(entry); err != nil {
		return change, fmt.Errorf("encode the evidence: %w", err)
	}
	return change, nil
}
