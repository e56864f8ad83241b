package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// overdue is how many records wait to be purged when a leg begins: more than the purge removes while it lasts.
const overdue = 400_000

// purging is create with a purge of overdue records beside it. What the purge removes is not counted: a record of
// the leg that it took by mistake is a difference, and fails the run.
func (s *server) purging(connections int) func(context.Context) (measurement, error) {
	return func(ctx context.Context) (_ measurement, err error) {
		if err := s.age(ctx); err != nil {
			return measurement{}, err
		}
		ctx, cancel := context.WithCancel(ctx)
		purge := exec.CommandContext(ctx, s.binary, "idempotency", "purge", "--database-url", s.url)
		if err := purge.Start(); err != nil {
			cancel()
			return measurement{}, fmt.Errorf("start the purge: %w", err)
		}
		defer func() {
			cancel()
			var killed *exec.ExitError // it has more to do than there is time
			if wait := purge.Wait(); wait != nil && !errors.As(wait, &killed) {
				err = errors.Join(err, wait)
			}
		}()
		return s.create(connections)(ctx)
	}
}

// age adds records that are past their retention, of another tenant. They expired one after the other, as they do.
func (s *server) age(ctx context.Context) error {
	_, err := s.db.Exec(ctx, `
		INSERT INTO idempotency_requests (tenant_id, principal_id, operation, idempotency_key, fingerprint,
			fingerprint_version, field_digests, api_version, response_status, response_headers, response_body,
			created_at, completed_at, expires_at)
		SELECT md5('overdue')::uuid, md5('overdue')::uuid, 'createOrder', gen_random_uuid()::text, sha256(''), 1, '\x00',
			'2026-11-01', 201, '{}', convert_to(repeat('x', 500), 'UTF8'), now(), now(), now() - interval '1 day' + i * interval '10 ms'
		FROM generate_series(1, $1::integer - (SELECT count(*) FROM idempotency_requests WHERE expires_at <= now())) AS i`, overdue)
	if err != nil {
		return fmt.Errorf("add overdue records: %w", err)
	}
	return nil
}
