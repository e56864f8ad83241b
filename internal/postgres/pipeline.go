package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"orderonce/internal/fault"
	"orderonce/internal/telemetry"
)

// Kind describes one kind of staged row. Modules declare theirs as package variables.
type Kind struct {
	Name string
	// Rank is the one lock order of the product: rows of a unit are sent by ascending rank, so that two units never
	// wait for each other in a circle. Claims come before what they guard, events last.
	Rank int
	// Check says that the row writes nothing: it only looks whether the unit may happen.
	Check bool
	// Busy is the fault of a unit that waited for this row, held by another transaction, past its lock time-out.
	Busy fault.Kind
}

// The ranks. One list, because only together do they give an order.
const (
	RankCredential = 10
	RankClaim      = 20
	RankTask       = 25 // accepted behind its claim; what a task writes is behind its fence, which is a claim
	RankCoupon     = 30 // locked before the order that redeems it
	RankOrder      = 40
	RankEvent      = 50
	RankResult     = 60
)

// Row is one staged row of a module.
type Row interface {
	// Write queues exactly one statement: a single-row :exec query of sqlc's. It returns before the statement ran;
	// whether the table took the row is read from the statement's row count later. A count of 0 is a refusal.
	Write(ctx context.Context, db DBTX) error
}

// Refused says that a table did not take a staged row: nothing of the unit remains.
type Refused struct{ By *Kind }

func (r *Refused) Error() string { return "the table refused a row of kind " + r.By.Name }

// pipeline queues statements and sends them in one round trip.
type pipeline struct {
	batch pgx.Batch
	kinds []*Kind // of each statement; nil for control statements
	kind  *Kind   // of the row being queued
	last  string  // the command tag of the last statement that ran
	trip  *trip   // nil where nobody is told
}

var errQueueOnly = errors.New("a staged row may only execute statements, not read")

func (p *pipeline) control(sql string) {
	p.batch.Queue(sql)
	p.kinds = append(p.kinds, nil)
}

func (p *pipeline) row(ctx context.Context, s Staged) error {
	before := p.batch.Len()
	p.kind = s.Kind
	if err := s.Row.Write(ctx, p); err != nil {
		return fmt.Errorf("stage %s: %w", s.Kind.Name, err)
	}
	if p.batch.Len() != before+1 {
		return fmt.Errorf("stage %s: a row must queue exactly one statement", s.Kind.Name)
	}
	return nil
}

func (p *pipeline) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	p.batch.Queue(sql, args...)
	p.kinds = append(p.kinds, p.kind)
	return pgconn.CommandTag{}, nil
}

func (p *pipeline) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, errQueueOnly
}

func (p *pipeline) QueryRow(context.Context, string, ...any) pgx.Row {
	return failedRow{errQueueOnly}
}

// send runs everything in one round trip. The first row that its table did not take comes back as *Refused, with the
// transaction still alive; a failed statement has aborted it.
func (p *pipeline) send(ctx context.Context, s *session) error {
	if telemetry.Sampled(ctx) {
		p.trip = &trip{}
	}
	counts, err := p.exec(ctx, s)
	p.tellAll(ctx, err)
	for i, count := range counts {
		if p.kinds[i] != nil && count == 0 {
			return &Refused{By: p.kinds[i]} // what failed behind a refused row was never to be
		}
	}
	return err
}

// exec runs everything in one round trip and returns the row counts of the statements up to the one that failed.
func (p *pipeline) exec(ctx context.Context, s *session) (counts []int64, err error) {
	if err := p.prepare(ctx, s); err != nil {
		return nil, err
	}
	if p.trip != nil {
		p.trip.sent = time.Now()
	}
	results := s.conn.SendBatch(ctx, &p.batch)
	counts = make([]int64, 0, len(p.kinds))
	for _, kind := range p.kinds {
		tag, err := results.Exec()
		if p.trip != nil {
			p.trip.answered = append(p.trip.answered, time.Now())
		}
		if err != nil {
			_ = results.Close() // the statement's own error says more
			return counts, failed(kind, err)
		}
		counts = append(counts, tag.RowsAffected())
		p.last = tag.String()
	}
	return counts, translate("send the unit", results.Close())
}

// prepare sends the rows' texts where the connection does not know them yet: a round trip each, once a connection.
func (p *pipeline) prepare(ctx context.Context, s *session) error {
	for i, q := range p.batch.QueuedQueries {
		if p.kinds[i] == nil {
			continue
		}
		if err := s.prepare(ctx, q.SQL); err != nil {
			return translate("prepare "+p.kinds[i].Name, err)
		}
	}
	return nil
}

// failed gives a lock time-out the meaning of the row that waited.
func failed(kind *Kind, err error) error {
	if kind == nil {
		return translate("control the transaction", err)
	}
	if isLockTimeout(err) {
		return fault.Later(kind.Busy, "wait for "+kind.Name, &LockTimeout{Kind: kind, err: err})
	}
	return translate("write "+kind.Name, err)
}
