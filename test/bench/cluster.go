package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"

	"orderonce/internal/postgres/localpg"
)

// cluster is the PostgreSQL that all contenders share, with all that the run leaves on the disk.
type cluster struct {
	dir      string // PostgreSQL's own is below it; removed at the end
	postgres *localpg.Server
	admin    *pgx.Conn
	pgbench  string
}

// settings are a durable server's. No checkpoint and no vacuum falls into a measured time by itself: each leg
// begins with both instead, so that all legs begin alike.
var settings = map[string]string{
	"fsync":              "on",
	"synchronous_commit": "on",
	"full_page_writes":   "on",
	"shared_buffers":     "256MB",
	"max_connections":    "300",
	"min_wal_size":       "1GB", // segments are reused, as in a server that has run for a while
	"max_wal_size":       "16GB",
	"checkpoint_timeout": "1h",
	"autovacuum":         "off",
}

func startCluster(ctx context.Context) (_ *cluster, err error) {
	bin, err := localpg.Find(ctx)
	if err != nil {
		return nil, err
	}
	c := &cluster{}
	if c.pgbench, err = findPgbench(bin); err != nil {
		return nil, err
	}
	if c.dir, err = localpg.MkdirTemp(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.remove(ctx))
		}
	}()
	if c.postgres, err = localpg.Start(ctx, localpg.Options{Dir: c.dir, Settings: settings}); err != nil {
		return nil, err
	}
	c.admin, err = pgx.Connect(ctx, c.postgres.URL("postgres"))
	return c, err
}

func findPgbench(bin localpg.Binaries) (string, error) {
	beside := filepath.Join(bin.Dir, "pgbench")
	if info, err := os.Stat(beside); err == nil && info.Mode()&0o111 != 0 {
		return beside, nil
	}
	if path, err := exec.LookPath("pgbench"); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("there is no pgbench in %s or in PATH: Debian's package postgresql brings it, "+
		"others call it postgresql-contrib; then set %s to its folder", bin.Dir, localpg.BinEnv)
}

func (c *cluster) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if c.admin != nil {
		_ = c.admin.Close(ctx)
	}
	var err error
	if c.postgres != nil {
		err = c.postgres.Stop(ctx)
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// newDatabase makes an empty database and returns its URL.
func (c *cluster) newDatabase(ctx context.Context, name string) (string, error) {
	if _, err := c.admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("create database %s: %w", name, err)
	}
	return c.postgres.URL(name), nil
}

// settle brings one database and the cluster into the state in which each leg begins.
func (c *cluster) settle(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, "VACUUM (ANALYZE)"); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	if _, err := db.Exec(ctx, "CHECKPOINT"); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// reading is what has been spent up to a moment.
type reading struct {
	at       time.Time
	wal      int64         // bytes
	postgres time.Duration // processor time of all of PostgreSQL's processes
	server   time.Duration // and of the server, if it was asked for
	machine  time.Duration // and of everything on the machine
}

// read takes a reading. The server may be several processes, or none.
func (c *cluster) read(ctx context.Context, server ...int) (reading, error) {
	r := reading{at: time.Now()}
	const place = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
	if err := c.admin.QueryRow(ctx, place).Scan(&r.wal); err != nil {
		return reading{}, fmt.Errorf("read the place in the log: %w", err)
	}
	var err error
	if r.postgres, err = processorOfFamily(c.postgres.PID()); err != nil {
		return reading{}, err
	}
	for _, process := range server {
		used, err := processorOfFamily(process)
		if err != nil {
			return reading{}, err
		}
		r.server += used
	}
	r.machine, err = processorOfMachine()
	return r, err
}

// strangers is the share of the machine's processors that went to neither side of a leg: to the kernel's own threads,
// and to whatever else ran here. The load is the processor time of pgbench or the load generator.
func (r reading) strangers(before reading, load time.Duration) float64 {
	ours := r.postgres - before.postgres + r.server - before.server + load
	all := r.at.Sub(before.at) * time.Duration(runtime.NumCPU())
	return max(0, (r.machine-before.machine-ours).Seconds()/all.Seconds())
}
