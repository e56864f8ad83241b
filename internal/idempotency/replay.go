package idempotency

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/fault"
	"orderonce/internal/idempotency/internal/idempotencydb"
	"orderonce/internal/postgres"
	"orderonce/internal/telemetry"
)

// What looks like a retry is read before it is claimed: a claim that loses has sent all its work for nothing. Reading
// first may answer a replay and never decides who owns a key: whatever it does not answer is claimed.

// retryAge is how old a key is that looks like a retry. Clients mint a key just before its first request.
const retryAge = time.Second

// replay answers a request that looks like a retry from memory or from the record, and says whether it could.
func (r *run) replay(ctx context.Context) (outcome Outcome, answered bool, err error) {
	scope := r.request.Scope
	remembered, known := r.keys.recent.find(scope)
	switch {
	case known && remembered.answers(r.print):
		outcome = remembered.outcome
		outcome.Replayed = true
		r.role = telemetry.RoleMemory
		err = r.keys.db.Check(ctx, scope.Tenant, r.request.Before...)
	case known || scope.Key.old():
		ctx, cancel := postgres.Detach(ctx, r.keys.deadline)
		defer cancel()
		r.role = telemetry.RoleRecord
		outcome, err = r.recorded(ctx)
	default:
		return Outcome{}, false, nil
	}
	if errors.Is(err, errVanished) || errors.Is(err, postgres.ErrTransient) {
		return Outcome{}, false, nil
	}
	if err != nil {
		outcome = Outcome{}
	}
	return outcome, true, err
}

// old says whether the key tells its age, as a UUIDv7 does, and is too old to be at its first request. It is a guess:
// a client's clock may be wrong.
func (k Key) old() bool {
	id, err := uuid.Parse(string(k))
	if err != nil || id.Version() != 7 {
		return false
	}
	minted := time.Unix(id.Time().UnixTime())
	return time.Since(minted) > retryAge
}

// recordedBefore looks for a record where the work failed without its claim being tried: what the rules refuse today
// they may have taken when the key was new, and then the first outcome stands.
func (r *run) recordedBefore(ctx context.Context, unsent error) (Outcome, error) {
	outcome, err := r.recorded(ctx)
	if errors.Is(err, errVanished) {
		return Outcome{}, unsent
	}
	return outcome, err
}

// recorded answers from the record that was there first.
func (r *run) recorded(ctx context.Context) (Outcome, error) {
	scope := r.request.Scope
	row, err := r.keys.read(ctx, scope, r.request.Before...)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Outcome{}, errVanished
	case err != nil:
		return Outcome{}, err
	case row.Expired:
		if err := r.forget(ctx); err != nil {
			return Outcome{}, err
		}
		return Outcome{}, errVanished
	}
	rules, ok := r.keys.rules.known[row.FingerprintVersion]
	if !ok {
		return Outcome{}, fault.Later(fault.Unavailable, "read a record", errNewerRules)
	}
	print := rules(r.request.APIVersion, scope.Operation, r.request.Parameters)
	switch {
	case !bytes.Equal(row.Fingerprint, print.sum[:]):
		return Outcome{}, r.reused(row.ApiVersion, row.FieldDigests)
	case row.ResponseStatus == nil:
		return Outcome{}, fault.New(fault.RecordIncomplete, "")
	}
	outcome, err := outcomeOf(row)
	if err != nil {
		return Outcome{}, err
	}
	r.keys.recent.keep(scope, print, outcome)
	// A COMMIT of our own that turned out well is still the first answer.
	outcome.Replayed = r.unknown == nil || !r.unknown.recordedAs(row)
	return outcome, nil
}

func (k *Keys) read(ctx context.Context, scope Scope, checks ...postgres.Staged) (row idempotencydb.ReadOutcomeRow, err error) {
	err = k.db.Read(ctx, scope.Tenant, func(ctx context.Context, db postgres.DBTX) error {
		row, err = queries.ReadOutcome(ctx, db, idempotencydb.ReadOutcomeParams{
			TenantID: scope.Tenant, PrincipalID: scope.Principal, Operation: scope.Operation,
			IdempotencyKey: string(scope.Key),
		})
		return err
	}, checks...)
	return row, err
}

// reused names what differs from the first request.
func (r *run) reused(apiVersion string, digests []byte) error {
	reused := fault.New(fault.KeyReused, "This idempotency key names a request with other parameters.")
	var err error
	if reused.Differing, err = differing(digests, r.request.Parameters); err != nil {
		return err
	}
	if apiVersion != r.request.APIVersion {
		reused.Differing = append(reused.Differing, "API-Version")
	}
	return reused
}

// forget frees an expired key in a transaction of its own; whoever claims it next owns it.
func (r *run) forget(ctx context.Context) error {
	scope := r.request.Scope
	unit := postgres.Unit{Tenant: scope.Tenant, LockTimeout: r.claimTimeout()}
	return r.keys.db.InTx(ctx, unit, func(ctx context.Context, tx *postgres.Tx) error {
		db, err := tx.DB(ctx)
		if err != nil {
			return err
		}
		return queries.ForgetExpiredKey(ctx, db, idempotencydb.ForgetExpiredKeyParams{
			TenantID: scope.Tenant, PrincipalID: scope.Principal, Operation: scope.Operation,
			IdempotencyKey: string(scope.Key),
		})
	})
}
