package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"orderonce/internal/load"
)

// The storm: so many connections of one tenant repeat one key whose first request never ends, while another tenant
// places orders on so many.
const (
	duplicates = 256
	bystanders = 16
)

// storm is one turn with the storm and one without.
type storm struct {
	Calm     load.Tally `json:"calm"`       // the other tenant's orders without the storm
	Stormy   load.Tally `json:"stormy"`     // and with it
	Repeated load.Tally `json:"repeated"`   // the duplicates, while the key was held
	Released load.Tally `json:"released"`   // and once it was let go: one order, and its replays
	Locks    int        `json:"lock_waits"` // sessions that waited for a lock, as the storm stood
}

func (s *stage) storm(ctx context.Context) (err error) {
	d, err := s.newDatabase(ctx, "storm")
	if err != nil {
		return err
	}
	defer d.close(ctx)
	other, err := d.mint(ctx, "bystander")
	if err != nil {
		return err
	}
	server, err := s.serve(ctx, d, "storm")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	for round := 1; round <= s.options.rounds; round++ {
		turn, err := server.storm(ctx, other)
		if err != nil {
			return fmt.Errorf("round %d of the storm: %w", round, err)
		}
		s.report.Storms = append(s.report.Storms, turn)
		tell("round %d of %d  other tenant's slowest order %4.0f ms with the storm, %4.0f ms without",
			round, s.options.rounds, millis(turn.Stormy.Max), millis(turn.Calm.Max))
	}
	return nil
}

// storm is a whole turn. What it counts has to be in the tables.
func (s *server) storm(ctx context.Context, credential string) (turn storm, err error) {
	before, err := s.rows(ctx)
	if err != nil {
		return turn, err
	}
	bystander, err := startGenerator(ctx, load.Job{
		Target: s.target(credential), Connections: bystanders, Work: load.Place, Strict: true,
	})
	if err != nil {
		return turn, err
	}
	defer bystander.end()
	warm, err := bystander.work(s.stage.options.warmup)
	if err != nil {
		return turn, s.complaint(err)
	}
	if err := s.cluster.settle(ctx, s.db); err != nil {
		return turn, err
	}
	calm, err := bystander.work(s.stage.options.measure)
	if err != nil {
		return turn, s.complaint(err)
	}
	stormy, err := s.strike(ctx, &turn, bystander)
	if err != nil {
		return turn, err
	}
	turn.Calm, turn.Stormy = calm.Tally, stormy.Tally
	if turn.Released.Outcomes[load.Created] != 1 || turn.Released.Outcomes[load.Replayed] != duplicates-1 {
		return turn, fmt.Errorf("one key, once let go, should have one order and its replays, but %v", turn.Released.Outcomes)
	}
	after, err := s.rows(ctx)
	if err != nil {
		return turn, err
	}
	if got, want := after.since(before), added(warm.Answers+calm.Answers+stormy.Answers+1); got != want {
		return turn, fmt.Errorf("the answers should have added %s, but added %s", want, got)
	}
	return turn, nil
}

// strike lets the duplicates loose, measures the bystander beside them, and lets the key go.
func (s *server) strike(ctx context.Context, turn *storm, bystander *generator) (stormy phase, err error) {
	key, err := uuid.NewV7()
	if err != nil {
		return phase{}, err
	}
	held, release, err := s.hold(ctx, key)
	if err != nil {
		return phase{}, err
	}
	defer release()
	crowd, err := startGenerator(ctx, load.Job{
		Target: s.target(s.credential), Connections: duplicates, Work: load.Same, Key: key,
	})
	if err != nil {
		return phase{}, err
	}
	defer crowd.end()
	// As long as the bystander is measured, and the time until the storm stands.
	if err := crowd.begin(s.stage.options.measure + time.Second); err != nil {
		return phase{}, err
	}
	if turn.Locks, err = s.standing(ctx); err != nil {
		return phase{}, err
	}
	if stormy, err = bystander.work(s.stage.options.measure); err != nil {
		return phase{}, s.complaint(err)
	}
	repeated, err := crowd.finish()
	if err != nil {
		return phase{}, s.complaint(err)
	}
	if err := held.Rollback(ctx); err != nil {
		return phase{}, fmt.Errorf("let the key go: %w", err)
	}
	released, err := crowd.work(0) // each once more
	if err != nil {
		return phase{}, s.complaint(err)
	}
	turn.Repeated, turn.Released = repeated.Tally, released.Tally
	return stormy, nil
}

// hold is a first request that never ends: its claim stands uncommitted, in a session that no server knows.
func (s *server) hold(ctx context.Context, key uuid.UUID) (_ pgx.Tx, release func(), err error) {
	db, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return nil, nil, err
	}
	release = func() { _ = db.Close(context.WithoutCancel(ctx)) } // which ends the transaction, if it has not ended
	tx, err := db.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, `
			INSERT INTO idempotency_requests (tenant_id, principal_id, operation, idempotency_key, fingerprint,
				fingerprint_version, field_digests, api_version, created_at)
			SELECT t.tenant_id, p.id, 'createOrder', $1, sha256(''), 1, '\x00', '', now()
			FROM tenants t JOIN principals p USING (tenant_id) WHERE t.name = 'bench'`, key.String())
	}
	if err != nil {
		release()
		return nil, nil, fmt.Errorf("hold a key: %w", err)
	}
	return tx, release, nil
}

// standing waits until a session of the server waits for the held key, and a moment more, and counts who waits.
func (s *server) standing(ctx context.Context) (locks int, err error) {
	const waiting = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for locks == 0 {
		select {
		case <-ctx.Done():
			return 0, errors.New("nobody waits for the held key")
		case <-tick.C:
		}
		if err := s.db.QueryRow(ctx, waiting).Scan(&locks); err != nil {
			return 0, err
		}
	}
	for range 10 { // the other duplicates come within this time
		<-tick.C
	}
	err = s.db.QueryRow(ctx, waiting).Scan(&locks)
	return locks, err
}
