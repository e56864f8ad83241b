package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"orderonce/internal/fault"
)

// rollbackBound is how long a failed unit may take to be rolled back before its connection is closed instead.
const rollbackBound = time.Second

// ErrTransient marks a unit that PostgreSQL rolled back for a reason of its own (a serialization failure, a deadlock,
// a connection lost before COMMIT): the same unit may succeed when it is run again.
var ErrTransient = errors.New("rolled back, may be run again")

// ErrCommitUnknown marks a unit whose COMMIT was sent and not answered. Running the unit again is safe where its
// claim decides: that claim waits for a COMMIT still under way.
var ErrCommitUnknown = errors.New("commit sent, outcome unknown")

// LockTimeout is the cause of a fault that came of waiting too long for a row which another transaction held.
type LockTimeout struct {
	Kind *Kind // of the row
	err  error
}

func (l *LockTimeout) Error() string { return l.err.Error() }
func (l *LockTimeout) Unwrap() error { return l.err }

// SQLSTATE codes, https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	tooManyConnections   = "53300"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	adminShutdown        = "57P01"
	crashShutdown        = "57P02"
	cannotConnectNow     = "57P03"
	idleInTransaction    = "25P03"
)

func isLockTimeout(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == lockNotAvailable
}

// commitUnknown treats every failed COMMIT alike. "A PgError means rolled back" would be wrong: the FATAL of a server
// that shuts down arrives as one too.
func commitUnknown(err error) error {
	return fault.Later(fault.OutcomeUnknown, "commit", fmt.Errorf("%w: %w", ErrCommitUnknown, err))
}

// translate gives a driver's error its meaning. Faults, refusals and pgx.ErrNoRows pass as they are; what is not
// known stays unknown, and is answered as an internal fault.
func translate(doing string, err error) error {
	if err == nil || errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	var known *fault.Error
	var refused *Refused
	if errors.As(err, &known) || errors.As(err, &refused) {
		return err
	}
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return translateState(doing, pe, err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fault.Later(fault.Busy, doing, err)
	}
	if connectionLost(err) {
		return fault.Later(fault.Unavailable, doing, fmt.Errorf("%w: %w", ErrTransient, err))
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func translateState(doing string, pe *pgconn.PgError, err error) error {
	switch pe.Code {
	case lockNotAvailable, queryCanceled:
		return fault.Later(fault.Busy, doing, err)
	case serializationFailure, deadlockDetected:
		return fault.Later(fault.Busy, doing, fmt.Errorf("%w: %w", ErrTransient, err))
	case adminShutdown, crashShutdown, cannotConnectNow, tooManyConnections, idleInTransaction:
		return fault.Later(fault.Unavailable, doing, fmt.Errorf("%w: %w", ErrTransient, err))
	}
	switch class := pe.Code[:min(2, len(pe.Code))]; class {
	case "08": // connection exceptions
		return fault.Later(fault.Unavailable, doing, fmt.Errorf("%w: %w", ErrTransient, err))
	case "28": // the database does not let this process in: somebody changes a password
		return fault.Later(fault.Unavailable, doing, err)
	}
	if len(pe.Code) == 5 && pe.Code[:2] == "22" { // data exceptions
		err = unquoted{err, pe.Message}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// unquoted is an error about a value without PostgreSQL's words for it, which quote the value: what a client sent does
// not belong in a log.
type unquoted struct {
	error
	words string
}

func (u unquoted) Error() string {
	return strings.ReplaceAll(u.error.Error(), u.words, "a value cannot be taken")
}

func (u unquoted) Unwrap() error { return u.error }

func connectionLost(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// withoutSecret keeps a parse error's reason and drops the URL it quotes, which holds the password.
func withoutSecret(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		if cause := parse.Unwrap(); cause != nil {
			return cause
		}
		return errors.New("cannot be parsed")
	}
	return err
}
