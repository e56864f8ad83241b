// Package postgres owns the connection pool, the unit of work and the meaning of PostgreSQL's errors. It knows no
// table: modules bring their rows and queries, typed by sqlc, and can run them on a unit of work but neither commit,
// forge nor bypass it. Misused (a Tx kept past its unit, a Row that queues two statements), it refuses with an error
// and commits nothing.
package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"

	"orderonce/internal/fault"
	"orderonce/internal/telemetry"
)

// DBTX is what sqlc's queries run on: a session of the pool, or a pipeline that queues them.
type DBTX interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Config bounds everything that a request may wait for in the database. Each bound is shorter than the one outside
// it: lock wait < Statement < IdleInTransaction, and Acquire + Statement < the caller's own deadline.
type Config struct {
	URL         string
	Role        Role // whose rights the sessions have; empty for those of the URL's user
	MaxConns    int32
	TenantShare int32 // connections that the units of one tenant may hold; 0 for all
	// SharedCommits is how many commits that units which only write share, across tenants, are under way at once; 0 lets
	// each commit and read alone. Not for a cluster that shards by tenant: there it would make each commit a distributed
	// one.
	SharedCommits     int
	Acquire           time.Duration // the wait for a connection of the pool; then fault.Busy
	Statement         time.Duration // PostgreSQL's statement_timeout; then fault.Busy
	IdleInTransaction time.Duration // idle_in_transaction_session_timeout: frees the locks of a peer that was cut off
	Deadline          time.Duration // one Read, the caller's cancellation notwithstanding

	Telemetry *telemetry.Telemetry // of all that is done on this database; nil for none
}

// DB is a bounded pool of connections to one database. Safe for concurrent use.
type DB struct {
	pool     *pgxpool.Pool
	config   Config
	gate     gate
	commits  queue[*sharer]
	reads    queue[*reading]
	watchers watchers

	stopMeasuring func() error
}

// Open makes the pool and waits until the database answers once. The caller closes it.
func Open(ctx context.Context, config Config) (*DB, error) {
	pc, err := pgxpool.ParseConfig(config.URL)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", withoutSecret(err))
	}
	pc.MaxConns = config.MaxConns
	// Statements that sqlc typed are prepared once a connection and sent by name; control statements with literals
	// in them (SET LOCAL) are sent as text and would only thrash a statement cache. This mode mixes both in one
	// pipeline.
	pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	params := pc.ConnConfig.RuntimeParams
	params["application_name"] = "orderonce"
	if config.Role != "" {
		params["role"] = string(config.Role)
	}
	params["statement_timeout"] = milliseconds(config.Statement)
	params["idle_in_transaction_session_timeout"] = milliseconds(config.IdleInTransaction)
	pc.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		// uuid.UUID would otherwise travel as text, through driver.Valuer: measured at 15 % of a server's CPU.
		pgxuuid.Register(conn.TypeMap())
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
		})
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, translate("open the pool", err)
	}
	db := &DB{pool: pool, config: config, gate: gate{share: int64(config.TenantShare)}}
	db.commits = queue[*sharer]{limit: config.SharedCommits, size: sharedUnits, crowd: sharedCrowd, do: db.flush}
	db.reads = queue[*reading]{limit: sharedReads, size: sharedUnits, do: db.readTogether}
	if db.config.Telemetry == nil {
		db.config.Telemetry = telemetry.Off()
	}
	if err := db.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	db.stopMeasuring, err = db.config.Telemetry.Pool(string(config.Role), func() telemetry.Pool {
		s := pool.Stat()
		return telemetry.Pool{
			Idle: int64(s.IdleConns()), Used: int64(s.AcquiredConns()), Most: int64(s.MaxConns()), TimedOut: s.CanceledAcquireCount(),
		}
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("measure the pool: %w", err)
	}
	return db, nil
}

// Telemetry is what this database's work is told to. Modules tell what they do on it to the same.
func (db *DB) Telemetry() *telemetry.Telemetry { return db.config.Telemetry }

// Close waits for the connections in use and closes them all.
func (db *DB) Close() {
	_ = db.stopMeasuring() // forgets a callback; there is nothing to lose
	db.pool.Close()
}

// Stat is the pool's own account of its connections.
func (db *DB) Stat() *pgxpool.Stat { return db.pool.Stat() }

// Ping asks the database for a sign of life. It returns fault.Unavailable or fault.Busy where there is none.
func (db *DB) Ping(ctx context.Context) error {
	s, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer s.release()
	return translate("ping", s.conn.Ping(ctx))
}

func (db *DB) acquire(ctx context.Context) (*session, error) {
	waiting, cancel := context.WithTimeout(ctx, db.config.Acquire)
	defer cancel()
	return db.acquireWithin(waiting)
}

// acquireFor is acquire in the tenant's turn.
func (db *DB) acquireFor(ctx context.Context, tenant uuid.UUID) (*session, error) {
	if tenant == uuid.Nil || db.gate.share == 0 {
		return db.acquire(ctx)
	}
	waiting, cancel := context.WithTimeout(ctx, db.config.Acquire)
	defer cancel()
	leave, err := db.gate.enter(waiting, tenant)
	if err != nil {
		return nil, err
	}
	s, err := db.acquireWithin(waiting)
	if err != nil {
		leave()
		return nil, err
	}
	s.leave = leave
	return s, nil
}

func (db *DB) acquireWithin(waiting context.Context) (*session, error) {
	conn, err := db.pool.Acquire(waiting)
	if err != nil {
		if waiting.Err() != nil {
			return nil, fault.Later(fault.Busy, "acquire a connection", err)
		}
		return nil, translate("acquire a connection", err)
	}
	return &session{conn: conn}, nil
}

// Detach keeps ctx's values and deadline but not its cancellation, and bounds it by limit: what was begun for a
// client goes on when the client is gone. (context.WithoutCancel alone would drop the deadline as well.)
func Detach(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	until := time.Now().Add(limit)
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until = d
	}
	return context.WithDeadline(context.WithoutCancel(ctx), until)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

// session runs statements on one connection and prepares each text the first time the connection meets it.
type session struct {
	conn  *pgxpool.Conn // nil once it has gone back to the pool
	leave func()        // ends the tenant's turn; nil where there was none
}

func (s *session) release() {
	s.conn.Release()
	s.conn = nil
	if s.leave != nil {
		s.leave()
	}
}

func (s *session) prepare(ctx context.Context, sql string) error {
	if s.conn == nil {
		return errEnded
	}
	_, err := s.conn.Conn().Prepare(ctx, sql, sql)
	return err
}

func (s *session) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := s.prepare(ctx, sql); err != nil {
		return pgconn.CommandTag{}, err
	}
	ctx, span := statement(ctx, sql)
	tag, err := s.conn.Exec(ctx, sql, args...)
	ended(span, err)
	return tag, err
}

func (s *session) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := s.prepare(ctx, sql); err != nil {
		return nil, err
	}
	ctx, span := statement(ctx, sql)
	rows, err := s.conn.Query(ctx, sql, args...) //nolint:rowserrcheck // the caller reads the rows
	if !span.IsRecording() {
		return rows, err
	}
	if err != nil {
		ended(span, err)
		return rows, err
	}
	return tracedRows{rows, span}, nil
}

func (s *session) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := s.prepare(ctx, sql); err != nil {
		return failedRow{err}
	}
	ctx, span := statement(ctx, sql)
	return tracedRow(s.conn.QueryRow(ctx, sql, args...), span)
}

// failedRow is the answer of a QueryRow that could not be sent.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }
