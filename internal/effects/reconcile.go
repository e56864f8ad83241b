package effects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/effects/internal/effectsdb"
	"orderonce/internal/postgres"
)

// Windows are what a Reconciler looks at, and when. A zero value means the default.
type Windows struct {
	// Every is the time between two looks at a destination, over all processes. Default: 1 minute.
	Every time.Duration
	// Back is where the first look ever begins. Default: 24 hours.
	Back time.Duration
	// Overlap is how much of what the last look saw is looked at again: for what a destination lists late. Default: 10
	// minutes.
	Overlap time.Duration
	// Settle is how long ago an effect must have succeeded for its destination to be asked whether it did. Default: 30 s.
	Settle time.Duration
}

// Reconciler compares the effects with what their destinations say they did, and writes down where the two disagree. It
// repairs nothing. It calls destinations only outside of transactions. Any number may run, in any number of processes.
type Reconciler struct {
	db           *postgres.DB
	destinations []Destination
	windows      Windows
	log          *slog.Logger
}

const (
	// lookLease is how long a look under way keeps others away after its last sign of life.
	lookLease = 5 * time.Minute
	// succeededPage is how many effects are compared at once.
	succeededPage = 200
	// mostSeen bounds the keys of one look that are remembered as listed; what is forgotten is asked for.
	mostSeen = 100_000
	// mostReviewed bounds how many open disagreements one look asks about again.
	mostReviewed = 100
)

// NewReconciler compares those of the destinations that have a List. db is of the Worker role.
func NewReconciler(db *postgres.DB, destinations []Destination, w Windows, log *slog.Logger) *Reconciler {
	w.Every = cmp.Or(w.Every, time.Minute)
	w.Back = cmp.Or(w.Back, 24*time.Hour)
	w.Overlap = cmp.Or(w.Overlap, 10*time.Minute)
	w.Settle = cmp.Or(w.Settle, 30*time.Second)
	r := &Reconciler{db: db, windows: w, log: log}
	for _, d := range destinations {
		if d.List != nil && d.Query != nil {
			r.destinations = append(r.destinations, d)
		}
	}
	return r
}

// Run looks until ctx ends. An error is logged, and the next look begins where that one came to.
func (r *Reconciler) Run(ctx context.Context) {
	for len(r.destinations) > 0 && ctx.Err() == nil {
		if _, err := r.Look(ctx, false); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "reconciliation failed", "error", err)
		}
		sleep(ctx, r.windows.Every/2+rand.N(r.windows.Every)) //nolint:gosec // chance, no secret
	}
}

// Looked is the account of a look.
type Looked struct {
	Listed    int // operations that destinations have listed
	Succeeded int // effects that were held against that
	Asked     int // of these, how many a destination was asked about
	Unsure    int // of these, how many it did not tell about; they are asked about again, while they are in the overlap
	Found     int // disagreements that were not known
	Cleared   int // disagreements that are none any more
}

// Look compares once: each destination whose turn it is, or each one where forced.
func (r *Reconciler) Look(ctx context.Context, forced bool) (looked Looked, err error) {
	for i := range r.destinations {
		d := &r.destinations[i]
		l := &look{Reconciler: r, d: d, seen: map[string]bool{}, looked: &looked}
		if one := l.run(ctx, forced); one != nil {
			err = errors.Join(err, fmt.Errorf("reconcile %s: %w", d.Name, one))
		}
	}
	return looked, err
}

// look is one look at one destination.
type look struct {
	*Reconciler
	d      *Destination
	at     time.Time       // by the database's clock
	seen   map[string]bool // keys that were listed as executed
	looked *Looked
}

func (l *look) run(ctx context.Context, forced bool) error {
	from, err := l.claim(ctx, forced)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	l.at = from.At
	if err := l.listed(ctx, from.ListedUntil); err != nil {
		return err
	}
	if err := l.succeeded(ctx, from.EndedUntil); err != nil {
		return err
	}
	if err := l.review(ctx); err != nil {
		return err
	}
	return l.advance(ctx, from.ListedUntil, from.EndedUntil, l.windows.Every)
}

func (l *look) claim(ctx context.Context, forced bool) (from effectsdb.ClaimLookRow, err error) {
	err = l.inTx(ctx, func(ctx context.Context, db postgres.DBTX) error {
		from, err = queries.ClaimLook(ctx, db, effectsdb.ClaimLookParams{
			Destination: l.d.Name, Back: l.windows.Back.Microseconds(), Pause: max(l.windows.Every, lookLease).Microseconds(), Forced: forced,
		})
		return err
	})
	return from, err
}

// advance says how far the look has come. pause is how long others leave the destination alone.
func (l *look) advance(ctx context.Context, listed, ended time.Time, pause time.Duration) error {
	return l.inTx(ctx, func(ctx context.Context, db postgres.DBTX) error {
		_, err := queries.AdvanceLook(ctx, db, effectsdb.AdvanceLookParams{
			Destination: l.d.Name, ListedUntil: listed, EndedUntil: ended, Pause: pause.Microseconds(),
		})
		return err
	})
}

// listed holds what the destination lists against the effects.
func (l *look) listed(ctx context.Context, until time.Time) error {
	since, page := until.Add(-l.windows.Overlap), ""
	for more := true; more; more = page != "" {
		listing, err := l.d.List(ctx, since, page)
		if err != nil {
			return err
		}
		if err := l.compare(ctx, listing.Operations); err != nil {
			return err
		}
		for _, o := range listing.Operations {
			if o.At.After(until) {
				until = o.At
			}
		}
		if err := l.advance(ctx, until, time.Time{}, lookLease); err != nil {
			return err
		}
		page = listing.Next
	}
	return nil
}

// succeeded asks about the effects that have succeeded and were not listed. What it is certain of is written page by
// page.
func (l *look) succeeded(ctx context.Context, until time.Time) error {
	params := effectsdb.ListSucceededEffectsParams{
		Destination: l.d.Name, Since: until.Add(-l.windows.Overlap), Until: l.at.Add(-l.windows.Settle), PageSize: succeededPage,
	}
	for more := true; more; {
		var rows []effectsdb.Effect
		err := l.db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
			rows, err = queries.ListSucceededEffects(ctx, db, params)
			return err
		})
		if err != nil {
			return fmt.Errorf("list succeeded effects: %w", err)
		}
		var found []Disagreement
		for _, row := range rows {
			e := effectOf(row)
			l.looked.Succeeded++
			if !l.seen[e.Key.String()] {
				denied, err := l.ask(ctx, e)
				if err != nil {
					return errors.Join(err, l.write(ctx, found))
				}
				found = append(found, denied...)
			}
			params.AfterEnd, params.AfterID = *row.EndedAt, row.ID
		}
		if err := l.write(ctx, found); err != nil {
			return err
		}
		if more = len(rows) == succeededPage; !more {
			params.AfterEnd = params.Until
		}
		if err := l.advance(ctx, time.Time{}, params.AfterEnd, lookLease); err != nil {
			return err
		}
	}
	return nil
}

// ask asks the destination whether it did what counts as done here. An error ends the look: nobody answers.
func (l *look) ask(ctx context.Context, e Effect) ([]Disagreement, error) {
	l.looked.Asked++
	answer := l.d.Query(ctx, e)
	switch answer.Verdict {
	case Absent, Refused:
		return []Disagreement{l.disagreement(SuccessDenied, e, e.Key.String(), map[string]any{
			"effect": e.ID, "ended_at": e.EndedAt, "destination_says": answer.Verdict, "detail": clean(answer.Detail),
		})}, nil
	case Done:
	case NotExecuted, Impossible, Ambiguous:
		if answer.Status == 0 {
			return nil, fmt.Errorf("ask about effect %s: %s", e.ID, clean(answer.Detail))
		}
		l.looked.Unsure++
	}
	return nil, nil
}

// review asks again about disagreements that may have ended by themselves: a destination that had lost its memory for
// a while. Of many it is a few at a time.
func (l *look) review(ctx context.Context) error {
	var open []Disagreement
	err := l.db.Read(ctx, uuid.Nil, func(ctx context.Context, db postgres.DBTX) (err error) {
		open, _, err = Open(ctx, db, l.d.Name, uuid.Max, mostReviewed)
		return err
	})
	if err != nil {
		return err
	}
	for _, o := range open {
		key, err := uuid.Parse(o.Key)
		if o.Kind != SuccessDenied || err != nil || l.d.Query(ctx, Effect{Key: key}).Verdict != Done {
			continue
		}
		err = l.inTx(ctx, func(ctx context.Context, db postgres.DBTX) error {
			_, err := queries.ClearFinding(ctx, db, effectsdb.ClearFindingParams{TenantID: o.Tenant, ID: o.ID})
			return err
		})
		if err != nil {
			return fmt.Errorf("clear a disagreement: %w", err)
		}
		l.looked.Cleared++
		l.log.InfoContext(ctx, "the destination and the effects agree again", "destination", l.d.Name, "tenant", o.Tenant,
			"order", o.Order, "operation", o.Operation, "finding", o.ID)
	}
	return nil
}

func (l *look) inTx(ctx context.Context, do func(ctx context.Context, db postgres.DBTX) error) error {
	return l.db.Run(ctx, postgres.Unit{LockTimeout: lockTimeout}, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		return do(ctx, db)
	})
}
