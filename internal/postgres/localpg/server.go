package localpg

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Options says how a server is to run. Its zero value is a durable server in [DefaultDir].
type Options struct {
	// Dir is the directory of the server; it is made if it is missing. Empty is DefaultDir.
	Dir string

	// Settings are put over PostgreSQL's defaults for this run, such as "max_connections": "300". Nothing
	// here lowers durability; fsync=off does, and then also initdb does not wait for the disk. Address,
	// port and socket cannot be set.
	Settings map[string]string

	// Restart starts PostgreSQL again, on the same port, whenever it ends without being asked, after a
	// growing delay. It gives up, and Done is closed, when PostgreSQL does not last several times in a row.
	Restart bool

	// Log hears of starts and unexpected ends. Nil is silence.
	Log *slog.Logger
}

// Server is a running PostgreSQL. Its methods may be called from several goroutines.
type Server struct {
	home     home
	bin      Binaries
	account  account
	log      *slog.Logger
	settings []string
	restart  bool
	password string
	port     int

	pid      atomic.Int64
	stopping chan struct{} // closed by the first Stop
	hurry    chan struct{} // closed by the first Stop that is out of patience
	stopOnce sync.Once
	lateOnce sync.Once
	done     chan struct{}
	err      error // of the end; written before done is closed
}

// portAttempts bounds how often Start chooses another port because somebody took the last one first.
const portAttempts = 5

// Start makes the cluster if there is none yet, ends a PostgreSQL that a killed launcher left on it, and
// returns when a new one answers. ctx bounds only the start: the server runs until [Server.Stop], its own
// end, or the death of this process. If another process serves from the same directory the error says so,
// within a few seconds.
func Start(ctx context.Context, opts Options) (*Server, error) {
	s, err := startServer(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("start a local postgresql: %w", err)
	}
	return s, nil
}

func startServer(ctx context.Context, opts Options) (_ *Server, err error) {
	dir := opts.Dir
	if dir == "" {
		if dir, err = DefaultDir(); err != nil {
			return nil, err
		}
	}
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	acct, err := unprivileged()
	if err != nil {
		return nil, err
	}
	home, err := openHome(ctx, dir, acct)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			home.unlock()
		}
	}()

	s := &Server{home: home, account: acct, log: log, restart: opts.Restart}
	for _, name := range slices.Sorted(maps.Keys(opts.Settings)) {
		s.settings = append(s.settings, "-c", name+"="+opts.Settings[name])
	}
	if err := s.prepare(ctx, opts.Settings["fsync"] != "off"); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		err := s.begin(ctx)
		if err == nil {
			break
		}
		if attempt == portAttempts || ctx.Err() != nil || portFree(ctx, s.port) {
			return nil, err
		}
		if s.port, err = freePort(ctx); err != nil {
			return nil, err
		}
	}
	// begin has made the supervisor the lock's keeper: from here on, an error must stop the server.
	if err := home.write(home.port(), strconv.Itoa(s.port), account{}); err != nil {
		log.WarnContext(ctx, "the next start may use another port", "dir", home.dir, "error", err)
	}
	return s, nil
}

// prepare finds binaries that fit the cluster, makes it if there is none, and makes sure that nobody is on it.
func (s *Server) prepare(ctx context.Context, durable bool) error {
	major, err := s.home.madeBy()
	if err != nil {
		return err
	}
	if s.bin, err = forCluster(ctx, s.home, major); err != nil {
		return err
	}
	if err := s.account.reaches(s.bin.Dir); err != nil {
		return err
	}
	if s.password, err = s.home.ownerPassword(s.account, major == 0); err != nil {
		return err
	}
	if major == 0 {
		began := time.Now()
		if err := s.home.makeCluster(ctx, s.bin, s.account, durable); err != nil {
			return fmt.Errorf("make a cluster in %s: %w", s.home.dir, err)
		}
		s.log.InfoContext(ctx, "made a postgresql cluster",
			"dir", s.home.dir, "version", s.bin.Major, "took", time.Since(began))
	}
	if err := s.home.clear(ctx, s.log); err != nil {
		return err
	}
	s.port, err = s.home.choosePort(ctx)
	return err
}

// URL is the owner's connection string for the given database, over TCP on 127.0.0.1. [Database] exists
// from the start. It contains the password.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(Owner, s.password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// PID is the postmaster's process id: the latest one's, if it has been started again. After Done it is 0.
func (s *Server) PID() int { return int(s.pid.Load()) }

// Dir is the server's directory, without symbolic links. Its postgresql.log is worth a look after trouble.
func (s *Server) Dir() string { return s.home.dir }

// Done is closed when PostgreSQL has ended and will not be started again, asked for or not.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err is why PostgreSQL ended without being asked; nil before Done and after a Stop.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Stop shuts PostgreSQL down fast: open transactions roll back, everything committed is on disk. When ctx
// ends or that takes too long it is shut down at once, and recovers at its next start. Stop returns when
// nothing of it runs any more, with Err. A later Stop waits for the same end.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { close(s.stopping) })
	select {
	case <-s.done:
	case <-ctx.Done():
		s.lateOnce.Do(func() { close(s.hurry) })
		<-s.done
	}
	return s.Err()
}
