package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"orderonce/internal/faultpoint"
	"orderonce/internal/telemetry"
)

// Unit says how a unit of work begins.
type Unit struct {
	// Tenant is whose rows the unit may see and write, and whose share of the connections it uses; nil for the service's
	// own work, which needs a DB of the Worker role.
	Tenant uuid.UUID
	// First are rows that decide whether the unit may happen at all (a credential, a claim): they are written before
	// everything that the work reads or writes, in the same round trip as BEGIN.
	First []Staged
	// LockTimeout bounds each wait for a row that another transaction holds; FirstTimeout, where it is set, that of the
	// First rows.
	LockTimeout  time.Duration
	FirstTimeout time.Duration
	// Open opens the transaction before the work begins, so that Offer knows its answer at once.
	Open bool
}

// Staged is a row with its kind.
type Staged struct {
	Kind *Kind
	Row  Row
}

// Tx is one unit of work: optional reads, and staged rows that become visible together or not at all. A unit that
// only stages costs two round trips: BEGIN with everything it writes, and COMMIT. It is valid inside the function
// that InTx calls, for one goroutine.
type Tx struct {
	db      *DB
	unit    Unit
	session *session // the transaction's connection, once it is open
	rows    []Staged
	wrote   []*Kind // kinds of rows that the work wrote by itself
	undo    bool    // the work's own writes are to be undone before anything else is sent
	ended   bool
}

var errEnded = errors.New("this unit of work has ended")

// InTx runs work as one unit and commits it. On any error nothing of the unit remains, with one exception:
// ErrCommitUnknown says that the connection was lost while COMMIT was under way, and only the database knows.
//
// *Refused names the kind of the first row that its table did not take. Work may run again after an error, so it
// must touch nothing outside tx. ctx bounds the unit; a cancelled ctx closes the connection, so detach it first
// where a client may go away.
func (db *DB) InTx(ctx context.Context, unit Unit, work func(context.Context, *Tx) error) error {
	ctx, span := telemetry.Detail(ctx, telemetry.SpanTransaction)
	defer span.End()
	tx := &Tx{db: db, unit: unit}
	defer tx.end(ctx)
	if unit.Open {
		if err := tx.open(ctx); err != nil {
			return err
		}
	}
	if err := work(ctx, tx); err != nil {
		return translate("work", err)
	}
	return tx.commit(ctx)
}

// Stage adds a row that is written with the unit, at the latest when it commits. A refusal fails the unit.
func (tx *Tx) Stage(kind *Kind, row Row) {
	tx.rows = append(tx.rows, Staged{kind, row})
}

// Offer stages a row that its table may refuse because another unit was first. In an open unit kept is the table's
// answer. Otherwise kept is an assumption: a refusal ends the unit with *Refused, and whoever runs it runs it again,
// open.
func (tx *Tx) Offer(ctx context.Context, kind *Kind, row Row) (kept bool, err error) {
	if tx.ended {
		return false, errEnded
	}
	if tx.session == nil {
		tx.Stage(kind, row)
		return true, nil
	}
	var p pipeline
	tx.takeBack(&p)
	if err := p.row(ctx, Staged{kind, row}); err != nil {
		return false, err
	}
	err = p.send(ctx, tx.session)
	var refused *Refused
	if errors.As(err, &refused) {
		return false, nil
	}
	if err == nil {
		tx.Wrote(kind)
	}
	return err == nil, err
}

// DB opens the unit's transaction, its First rows written, for work that must read or lock. It costs the unit its
// place in a shared commit and a round trip for each statement.
func (tx *Tx) DB(ctx context.Context) (DBTX, error) {
	if err := tx.open(ctx); err != nil {
		return nil, err
	}
	return tx.session, nil
}

// Opened says whether the First rows have been written already.
func (tx *Tx) Opened() bool { return tx.session != nil }

// Undo takes back all that the work wrote and staged, and keeps the First rows: a rejection must not commit a side
// write that came before it.
func (tx *Tx) Undo() {
	tx.rows, tx.wrote = nil, nil
	tx.undo = tx.session != nil
}

// takeBack queues what Undo promised, ahead of the next thing that is sent.
func (tx *Tx) takeBack(p *pipeline) {
	if tx.undo {
		p.control("ROLLBACK TO SAVEPOINT work")
		tx.undo = false
	}
}

func (tx *Tx) open(ctx context.Context) error {
	if tx.ended {
		return errEnded
	}
	if tx.session != nil {
		var p pipeline
		if tx.takeBack(&p); len(p.kinds) > 0 {
			return p.send(ctx, tx.session)
		}
		return nil
	}
	p, err := tx.begin(ctx)
	if err != nil {
		return err
	}
	p.control("SAVEPOINT work")
	return p.send(ctx, tx.session)
}

// begin takes a connection and queues what every unit starts with.
func (tx *Tx) begin(ctx context.Context) (*pipeline, error) {
	faultpoint.Hit(faultpoint.BeforeClaim)
	s, err := tx.db.acquireFor(ctx, tx.unit.Tenant)
	if err != nil {
		return nil, err
	}
	tx.session = s
	p := &pipeline{}
	p.control(begin)
	first := cmp.Or(tx.unit.FirstTimeout, tx.unit.LockTimeout)
	p.control(lockTimeout(first))
	p.control(named(tx.unit.Tenant))
	for _, row := range tx.unit.First {
		if err := p.row(ctx, row); err != nil {
			return nil, err
		}
	}
	if first != tx.unit.LockTimeout {
		p.control(lockTimeout(tx.unit.LockTimeout))
	}
	return p, nil
}

const (
	begin  = "BEGIN ISOLATION LEVEL READ COMMITTED" // whatever the database's default is
	commit = "COMMIT"
)

// errAborted says that PostgreSQL answered a COMMIT with ROLLBACK, which is no error to it.
var errAborted = errors.New("the transaction was aborted before its commit")

// lockTimeout is a literal, never set_config: a cluster that shards by tenant ignores the latter. PostgreSQL reads 0 as
// no bound at all.
func lockTimeout(d time.Duration) string {
	return "SET LOCAL lock_timeout = '" + milliseconds(max(d, time.Millisecond)) + "'"
}

func (tx *Tx) commit(ctx context.Context) error {
	if tx.session == nil && tx.db.config.SharedCommits > 0 {
		unit := &sharer{place: newPlace(tx.unit.Tenant), ctx: ctx, traced: telemetry.Sampled(ctx), rows: slices.Concat(tx.unit.First, tx.rows)}
		if sharable(unit.rows) {
			if err := tx.db.share(ctx, unit); !errors.Is(err, errAlone) {
				return err
			}
		}
	}
	p := &pipeline{}
	if tx.session == nil {
		var err error
		if p, err = tx.begin(ctx); err != nil {
			return err
		}
	}
	tx.takeBack(p)
	slices.SortStableFunc(tx.rows, func(a, b Staged) int { return a.Kind.Rank - b.Kind.Rank })
	for _, row := range tx.rows {
		if err := p.row(ctx, row); err != nil {
			return err
		}
	}
	if len(p.kinds) > 0 {
		if err := p.send(ctx, tx.session); err != nil {
			return err
		}
	}
	faultpoint.Hit(faultpoint.AfterClaim)
	committing, span := statement(ctx, commit)
	tag, err := tx.session.conn.Exec(committing, commit)
	ended(span, err)
	if err != nil {
		return commitUnknown(err)
	}
	if tag.String() != commit {
		return errAborted
	}
	faultpoint.Hit(faultpoint.AfterCommit)
	tx.db.watchers.tell(tx.written)
	return nil
}

func (tx *Tx) end(ctx context.Context) {
	tx.ended = true
	if tx.session != nil {
		rollbackAndRelease(ctx, tx.session)
	}
}

// rollbackAndRelease gives the connection back, rolled back where its transaction did not commit. A connection that
// cannot be rolled back in time is closed by the pool.
func rollbackAndRelease(ctx context.Context, s *session) {
	conn := s.conn.Conn()
	if !conn.IsClosed() && conn.PgConn().TxStatus() != 'I' {
		rollback, cancel := Detach(context.WithoutCancel(ctx), rollbackBound)
		defer cancel()
		_, _ = conn.Exec(rollback, "ROLLBACK") // Release closes what this leaves unclean
	}
	s.release()
}
