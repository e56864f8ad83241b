package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"orderonce/sql/schema"
)

// MigrateUp applies every migration that the database does not have yet; none is no error. Several processes may
// call it at once: one migrates, the others wait for it. When ctx ends, the migration that is running is completed
// and no further one is begun: half a migration is worse than a late end. A database whose last migration was not
// completed, or that is newer than this program, is refused untouched.
func MigrateUp(ctx context.Context, url string) error {
	return migrateUp(ctx, url, schema.Files)
}

// MigrateDown undoes the given number of migrations, the latest first, and destroys what is in the tables they made.
// More than have been applied is an error before anything is undone. Otherwise it behaves as MigrateUp.
func MigrateDown(ctx context.Context, url string, steps int) error {
	return migrateDown(ctx, url, schema.Files, steps)
}

// MigrationStatus reads what the database says of itself. It changes nothing and waits for no migration.
func MigrationStatus(ctx context.Context, url string) (MigrationState, error) {
	return migrationStatus(ctx, url, schema.Files)
}

// MigrationState compares a database with the migrations that this program has.
type MigrationState struct {
	Version uint // of the database; 0 before the first migration
	Newest  uint // of the program
	Dirty   bool // Version was begun and not completed
}

// String is the state in words, for an operator.
func (s MigrationState) String() string {
	text := fmt.Sprintf("the database is at migration %d, this program's newest is %d", s.Version, s.Newest)
	if s.Dirty {
		text += "; the last one was begun and not completed"
	}
	return text
}

// Err is nil if the database is as this program needs it, and otherwise says what to do.
func (s MigrationState) Err() error {
	if err := s.refusal(); err != nil {
		return err
	}
	if s.Version < s.Newest {
		return fmt.Errorf("the database is at migration %d, this program needs %d: run: orderonce migrate up",
			s.Version, s.Newest)
	}
	return nil
}

// refusal says why nothing may be migrated, if so.
func (s MigrationState) refusal() error {
	switch {
	case s.Dirty:
		return fmt.Errorf("a migration to version %d was begun and not completed: see which of its statements took "+
			"effect, complete or undo them by hand, then write the version that is now true to schema_migrations, "+
			"with dirty = false", s.Version)
	case s.Version > s.Newest:
		return fmt.Errorf("the database is at migration %d, this program knows none after %d: use a newer program",
			s.Version, s.Newest)
	}
	return nil
}

func migrateUp(ctx context.Context, url string, files fs.FS) error {
	return withMigrator(ctx, url, files, func(m *migrator) error {
		for {
			at, err := m.state()
			if err != nil || at.Version == at.Newest {
				return err
			}
			next := m.versions[slices.Index(m.versions, at.Version)+1]
			if err := m.step(ctx, 1, next); err != nil {
				return err
			}
		}
	})
}

func migrateDown(ctx context.Context, url string, files fs.FS, steps int) error {
	return withMigrator(ctx, url, files, func(m *migrator) error {
		at, err := m.state()
		if err != nil {
			return err
		}
		applied := slices.Index(m.versions, at.Version) + 1
		if at.Version != 0 && applied == 0 {
			return fmt.Errorf("migration %d of the database is none of this program's", at.Version)
		}
		if steps < 1 || steps > applied {
			return fmt.Errorf("undo %d migrations: %d have been applied", steps, applied)
		}
		for _, version := range m.versions[applied-steps : applied] {
			// golang-migrate takes a missing file for an empty one, and would only count the version down.
			down, _, err := m.files.ReadDown(version)
			if err != nil {
				return fmt.Errorf("migration %d cannot be undone: %w", version, err)
			}
			if err := down.Close(); err != nil {
				return err
			}
		}
		for _, version := range slices.Backward(m.versions[applied-steps : applied]) {
			if err := m.step(ctx, -1, version); err != nil {
				return err
			}
		}
		return nil
	})
}

func migrationStatus(ctx context.Context, url string, files fs.FS) (_ MigrationState, err error) {
	_, versions, err := openMigrations(files)
	if err != nil {
		return MigrationState{}, err
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return MigrationState{}, fmt.Errorf("database URL: %w", withoutSecret(err))
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return MigrationState{}, translate("connect", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()

	state := MigrationState{Newest: versions[len(versions)-1]}
	err = conn.QueryRow(ctx, "SELECT version, dirty FROM schema_migrations LIMIT 1").Scan(&state.Version, &state.Dirty)
	var pe *pgconn.PgError
	if errors.Is(err, pgx.ErrNoRows) || errors.As(err, &pe) && pe.Code == undefinedTable {
		err = nil
	}
	return state, translate("read schema_migrations", err)
}

const undefinedTable = "42P01" // SQLSTATE

// migrationTurn is the advisory lock of the process that migrates: "orderonce" in ASCII, folded to 63 bits.
const migrationTurn = 0x6f72_6465_726f_6e63

// migrationTurnPoll is how often a waiting process asks for its turn.
const migrationTurnPoll = 50 * time.Millisecond

// migrator is golang-migrate for as long as it is this process's turn.
type migrator struct {
	migrate  *migrate.Migrate
	files    source.Driver
	versions []uint
}

func withMigrator(ctx context.Context, url string, files fs.FS, work func(*migrator) error) (err error) {
	source, versions, err := openMigrations(files)
	if err != nil {
		return err
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("database URL: %w", withoutSecret(err))
	}
	turn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return translate("connect to migrate", err)
	}
	// Whatever became of ctx, connections are closed and gone: CREATE DATABASE refuses a template in use.
	closing := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, turn.Close(closing)) }()
	if err := awaitMigrationTurn(ctx, turn); err != nil {
		return fmt.Errorf("wait for another process's migration: %w", err)
	}

	// golang-migrate forgets its connection where its own set-up fails.
	var opened []*pgx.Conn
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(_ context.Context, conn *pgx.Conn) error {
		opened = append(opened, conn)
		return nil
	}))
	defer func() {
		for _, conn := range opened {
			err = errors.Join(err, conn.Close(closing))
		}
	}()
	m, err := newMigrate(db, source)
	if err != nil {
		return errors.Join(fmt.Errorf("prepare to migrate: %w", err), db.Close())
	}
	defer func() {
		sourceErr, databaseErr := m.Close()
		err = errors.Join(err, sourceErr, databaseErr)
	}()
	return work(&migrator{migrate: m, files: source, versions: versions})
}

// awaitMigrationTurn waits until no other process migrates. golang-migrate would wait too, but deaf to ctx, for at
// most 15 s, and inside a statement: CREATE INDEX CONCURRENTLY waits for the end of every other statement, so that
// the two would wait for each other.
func awaitMigrationTurn(ctx context.Context, conn *pgx.Conn) error {
	tick := time.NewTicker(migrationTurnPoll)
	defer tick.Stop()
	for {
		var mine bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(migrationTurn)).Scan(&mine); err != nil {
			return err
		}
		if mine {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func newMigrate(db *sql.DB, files source.Driver) (*migrate.Migrate, error) {
	driver, err := migratepgx.WithInstance(db, &migratepgx.Config{})
	if err != nil {
		return nil, err
	}
	return migrate.NewWithInstance("embedded files", files, "postgres", driver)
}

// openMigrations reads the names of all migrations; there is at least one.
func openMigrations(files fs.FS) (source.Driver, []uint, error) {
	source, err := iofs.New(files, ".")
	if err != nil {
		return nil, nil, fmt.Errorf("read the migrations: %w", err)
	}
	var versions []uint
	version, err := source.First()
	for err == nil {
		versions = append(versions, version)
		version, err = source.Next(version)
	}
	if !errors.Is(err, fs.ErrNotExist) || len(versions) == 0 {
		return nil, nil, fmt.Errorf("read the migrations: %w", err)
	}
	return source, versions, nil
}

// state is where the database is; an error if it must not be migrated.
func (m *migrator) state() (MigrationState, error) {
	state := MigrationState{Newest: m.versions[len(m.versions)-1]}
	var err error
	state.Version, state.Dirty, err = m.migrate.Version()
	if err != nil && !errors.Is(err, migrate.ErrNilVersion) {
		return MigrationState{}, err
	}
	return state, state.refusal()
}

// step applies (1) or undoes (-1) the next migration, which is the given one. One at a time: of those it reads ahead,
// golang-migrate leaves goroutines behind when one before them fails.
func (m *migrator) step(ctx context.Context, direction int, version uint) error {
	if ctx.Err() != nil {
		return fmt.Errorf("stopped between two migrations: %w", context.Cause(ctx))
	}
	err := m.migrate.Steps(direction)
	var failed database.Error
	if errors.As(err, &failed) { // its text is the whole file
		return fmt.Errorf("migration %d, line %d: %w", version, failed.Line, failed.OrigErr)
	}
	return err
}
