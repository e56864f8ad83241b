package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"orderonce/internal/fault"
)

// MaxTries bounds how often one request runs its unit: a refused row, a deadlock or a lost connection each cost one.
// Past it the client is told to come back.
const MaxTries = 8

// Run is InTx for work that is recognised by its own rows, so that running it again after an unknown COMMIT finds
// what the first run did. It runs the unit again, open, after a refused row, and after whatever PostgreSQL rolled back
// for reasons of its own. The caller's cancellation does not count once it has begun; Config.Deadline does.
func (db *DB) Run(ctx context.Context, unit Unit, work func(context.Context, *Tx) error) error {
	ctx, cancel := Detach(ctx, db.config.Deadline)
	defer cancel()
	var err, unknown error
	for try := range MaxTries {
		if try > 0 && Pause(ctx, try, err) != nil {
			break
		}
		err = db.InTx(ctx, unit, work)
		if errors.Is(err, ErrCommitUnknown) {
			unknown = err
		}
		if by := RefusedBy(err); by != nil && by.Rank > RankClaim && !unit.Open {
			unit.Open = true
			continue
		}
		if !errors.Is(err, ErrTransient) && !errors.Is(err, ErrCommitUnknown) {
			break
		}
	}
	// A later try that could not find out has not made the COMMIT undone.
	if kind := fault.KindOf(err); unknown != nil && (kind == fault.Busy || kind == fault.Unavailable) {
		return unknown
	}
	return err
}

// RefusedBy is the kind of the row that its table did not take, where err says so.
func RefusedBy(err error) *Kind {
	var refused *Refused
	if errors.As(err, &refused) {
		return refused.By
	}
	return nil
}

// Pause comes before try number try after err. After ErrTransient it is a random time of up to 20 ms, doubled with each
// try, for units that rolled each other back must not meet again in step; after anything else there is none.
func Pause(ctx context.Context, try int, err error) error {
	if !errors.Is(err, ErrTransient) {
		return nil
	}
	timer := time.NewTimer(rand.N(20 * time.Millisecond << min(try, 5))) //nolint:gosec // chance, no secret
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
