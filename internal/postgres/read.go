package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"orderonce/internal/fault"
)

const (
	// sharedReads is how many shared reads are under way at once.
	sharedReads = 4

	beginRead = begin + " READ ONLY"
)

// Read runs queries that change nothing on a tenant's rows (of every tenant's, for a nil tenant and the Worker role),
// each in a snapshot that is younger than the call. Reads of one row share their round trips with other callers'.
//
// checks are rows of a Check kind that are looked at in the same round trip, before the first query: where one is not
// there, no query's answer is given and Read returns *Refused.
//
// A connection found dead is replaced once. The caller's cancellation does not cut a statement short: a storm of
// disconnecting clients must not tear down the pool's connections. Config.Deadline bounds it instead.
func (db *DB) Read(ctx context.Context, tenant uuid.UUID, read func(context.Context, DBTX) error, checks ...Staged) error {
	return db.read(ctx, tenant, func(ctx context.Context, r *reader) error { return read(ctx, r) }, checks)
}

// Check looks whether rows of a Check kind are there; *Refused says that one is not.
func (db *DB) Check(ctx context.Context, tenant uuid.UUID, checks ...Staged) error {
	return db.read(ctx, tenant, func(ctx context.Context, r *reader) error { return r.ask(ctx, &reading{}) }, checks)
}

func (db *DB) read(ctx context.Context, tenant uuid.UUID, read func(context.Context, *reader) error, checks []Staged) error {
	ctx, cancel := Detach(ctx, db.config.Deadline)
	defer cancel()
	once := func() error {
		r := &reader{db: db, tenant: tenant, checks: checks}
		defer r.end(ctx)
		return translate("read", read(ctx, r))
	}
	err := once()
	if errors.Is(err, ErrTransient) {
		err = once()
	}
	return err
}

// reader is what one Read's queries run on.
type reader struct {
	db      *DB
	tenant  uuid.UUID
	checks  []Staged // until they were looked at
	session *session // of a query for many rows
	ended   bool
}

var errReadOnly = errors.New("a read may only query")

func (r *reader) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, errReadOnly
}

// QueryRow is sent when its row is scanned.
func (r *reader) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return row(func(dest ...any) error { return r.ask(ctx, &reading{sql: sql, args: args, dest: dest}) })
}

type row func(dest ...any) error

func (scan row) Scan(dest ...any) error { return scan(dest...) }

func (r *reader) ask(ctx context.Context, q *reading) error {
	if r.ended {
		return errEnded
	}
	q.place, q.checks = newPlace(r.tenant), r.checks
	ctx, span := statement(ctx, cmp.Or(q.sql, "Check"))
	defer func() { ended(span, q.err) }()
	if r.db.config.SharedCommits == 0 {
		r.db.readTogether([]*reading{q}) //nolint:contextcheck // bounded by itself, as a shared one is
	} else if err := r.db.reads.join(ctx, q); errors.Is(err, errWithdrawn) {
		return err
	}
	// Whoever reads for it may still be writing into dest. A shared read ends within its own bound.
	<-q.done
	if errors.Is(q.err, errAlone) {
		q.place = newPlace(r.tenant)
		r.db.readTogether([]*reading{q}) //nolint:contextcheck // as above
	}
	if q.err == nil || errors.Is(q.err, pgx.ErrNoRows) {
		r.checks = nil // any other error may have come before them
	}
	return q.err
}

// Query has a connection of its own until the read ends.
func (r *reader) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if r.ended {
		return nil, errEnded
	}
	if r.session == nil {
		if err := r.open(ctx); err != nil {
			return nil, err
		}
	}
	return r.session.Query(ctx, sql, args...) //nolint:rowserrcheck // the caller reads the rows
}

// open begins the transaction of a connection of the read's own. Without the checks' consent there is none.
func (r *reader) open(ctx context.Context) error {
	s, err := r.db.acquireFor(ctx, r.tenant)
	if err != nil {
		return err
	}
	var p pipeline
	p.control(beginRead)
	p.control(named(r.tenant))
	for _, check := range r.checks {
		if err == nil {
			err = p.row(ctx, check)
		}
	}
	if err == nil {
		err = p.send(ctx, s)
	}
	if err != nil {
		rollbackAndRelease(ctx, s)
		return err
	}
	r.session, r.checks = s, nil
	return nil
}

func (r *reader) end(ctx context.Context) {
	r.ended = true
	if r.session != nil {
		rollbackAndRelease(ctx, r.session)
	}
}

// reading is one query for one row, behind its caller's checks.
type reading struct {
	place
	checks []Staged
	sql    string // empty where the checks are all
	args   []any
	dest   []any

	looked   int   // how many of the checks were looked at
	refused  *Kind // the first that was not there
	answered bool
	answer   error // of the query
}

func (q *reading) complete() bool {
	return q.looked == len(q.checks) && (q.answered || q.sql == "")
}

// readTogether settles every query of a batch. A query that fails ends the transaction for those behind it, which are
// sent again without it; past a few failures each is sent alone.
func (db *DB) readTogether(batch []*reading) {
	for try := 0; len(batch) > 0; try++ {
		if try == sharedTries {
			settle(batch, errAlone)
			return
		}
		batch = db.readBatch(batch)
	}
}

// settleUnread settles a batch for an error that came before its queries. Where one of them may be to blame, such as one
// whose arguments cannot be encoded, they are told apart by being sent alone.
func settleUnread(batch []*reading, err error) {
	if len(batch) > 1 && fault.KindOf(err) == fault.Internal {
		err = errAlone
	}
	settle(batch, err)
}

// readBatch answers queries in one round trip and returns those that it has no answer for. It is bounded as
// commitShared is.
//
// The tenants follow one another in the transaction, and each query runs while its own tenant alone is named: one that
// forgot to name its tenant still sees no other's rows.
func (db *DB) readBatch(batch []*reading) (unread []*reading) {
	ctx, cancel := context.WithTimeout(context.Background(), db.config.Statement)
	defer cancel()
	s, err := db.acquire(ctx)
	if err != nil {
		settle(batch, err)
		return nil
	}
	defer rollbackAndRelease(ctx, s)
	for i, q := range batch {
		if q.sql == "" {
			continue
		}
		if err := s.prepare(ctx, q.sql); err != nil {
			q.settle(err)
			return slices.Delete(batch, i, i+1)
		}
	}
	var p pipeline
	p.control(beginRead)
	slices.SortStableFunc(batch, func(a, b *reading) int { return bytes.Compare(a.tenant[:], b.tenant[:]) })
	for rest := batch; len(rest) > 0; {
		ofTenant := rest[:1]
		for len(ofTenant) < len(rest) && rest[len(ofTenant)].tenant == rest[0].tenant {
			ofTenant = rest[:len(ofTenant)+1]
		}
		rest = rest[len(ofTenant):]
		if err := p.reads(ctx, ofTenant); err != nil {
			settleUnread(batch, err)
			return nil
		}
	}
	p.control(commit)
	if err := p.prepare(ctx, s); err != nil {
		settleUnread(batch, err)
		return nil
	}
	err = s.conn.SendBatch(ctx, &p.batch).Close()
	for _, q := range batch {
		switch {
		case q.refused != nil:
			q.settle(&Refused{By: q.refused})
		case q.complete():
			q.settle(q.answer)
		default:
			q.looked = 0
			unread = append(unread, q)
		}
	}
	if len(unread) == len(batch) && err != nil { // none of them is at fault, so none is worth another try
		settleUnread(batch, translate("read", err))
		return nil
	}
	return unread
}

// reads queues the queries of one tenant behind the checks of their callers, equal ones as one. What comes back is put
// into the readings.
func (p *pipeline) reads(ctx context.Context, ofTenant []*reading) error {
	p.control(named(ofTenant[0].tenant))
	for _, look := range sorted(ofTenant, func(q *reading) []Staged { return q.checks }) {
		if err := p.row(ctx, look.Staged); err != nil {
			return err
		}
		p.batch.QueuedQueries[p.batch.Len()-1].Exec(func(tag pgconn.CommandTag) error {
			for _, q := range look.members {
				q.looked++
				if tag.RowsAffected() == 0 && q.refused == nil {
					q.refused = look.Kind
				}
			}
			return nil
		})
	}
	for _, q := range ofTenant {
		if q.sql == "" {
			continue
		}
		p.batch.Queue(q.sql, q.args...).Fn = q.take
		p.kinds = append(p.kinds, nil)
	}
	return nil
}

// take reads the query's answer; nothing of it reaches a caller who may not see it. An error that it returns has ended
// the transaction.
func (q *reading) take(results pgx.BatchResults) error {
	q.answered = true
	if q.refused != nil {
		_, q.answer = results.Exec()
	} else {
		q.answer = results.QueryRow().Scan(q.dest...)
	}
	if failed := (*pgconn.PgError)(nil); errors.As(q.answer, &failed) {
		return failed
	}
	return nil
}
