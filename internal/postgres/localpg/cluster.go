package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Owner is the superuser of every server, Database the database made for it beside PostgreSQL's own.
const (
	Owner    = "orderonce"
	Database = "orderonce"
)

// unfinished is how the directory of a cluster is named until it is whole. Only the rename makes it one, so
// an initdb that was killed in the middle can never be taken for a cluster.
const unfinished = "unfinished-"

// makeCluster runs initdb. The collation is C, so that rows sort alike on every machine.
func (h home) makeCluster(ctx context.Context, bin Binaries, acct account, durable bool) error {
	for _, dir := range matches(h.dir, unfinished+"*") {
		// A child of the killed initdb may still be writing there; then the next start removes it.
		_ = os.RemoveAll(dir)
	}
	temp, err := os.MkdirTemp(h.dir, unfinished)
	if err != nil {
		return err
	}
	if err := acct.own(temp); err != nil {
		return err
	}

	args := []string{
		"--pgdata=" + temp, "--username=" + Owner, "--pwfile=" + h.password(), "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-instructions",
	}
	fsync := "on"
	if !durable {
		args, fsync = append(args, "--no-sync"), "off"
	}
	if err := h.run(ctx, acct, "", bin.path("initdb"), args...); err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	create := "CREATE DATABASE " + Database + ";\n"
	single := []string{"--single", "-D", temp, "-c", "exit_on_error=on", "-c", "fsync=" + fsync, "postgres"}
	if err := h.run(ctx, acct, create, bin.path("postgres"), single...); err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	if err := os.Rename(temp, h.data()); err != nil {
		return err
	}
	return syncDir(h.dir)
}

// run runs one of PostgreSQL's programs to its end, with its output in the log and in the error.
func (h home) run(ctx context.Context, acct account, stdin, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = attributesFor(acct, syscall.SIGKILL)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Dir, cmd.Env = h.dir, environment()
	cmd.Stdin = strings.NewReader(stdin)
	out, err := h.openLog()
	if err != nil {
		return err
	}
	defer out.Close()
	before := size(out)
	cmd.Stdout, cmd.Stderr = out, out

	if err := onOwnThread(cmd.Run); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, tail(out, before))
	}
	return nil
}

// environment is all that PostgreSQL gets of ours: PGDATA, PGPORT and the like would lead it astray, and
// its messages are English.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
}

// syncDir makes a rename in dir survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func size(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// tail returns the last lines of what was written to the log since it had the given size, on one line.
func tail(log *os.File, since int64) string {
	const most, lines = 4096, 6
	from := max(since, size(log)-most)
	text := make([]byte, most)
	n, _ := log.ReadAt(text, from)
	said := strings.Split(strings.TrimSpace(string(text[:n])), "\n")
	return strings.Join(said[max(0, len(said)-lines):], " | ")
}
