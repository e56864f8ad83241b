package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5"

	"orderonce/internal/postgres"
)

// naive is pgbench with what one would write by hand, on tables of its own in a database of its own.
type naive struct {
	cluster *cluster
	options options
	url     string
	script  string
	db      *pgx.Conn
}

//go:embed naive.sql
var naiveTables string

//go:embed naive.pgbench
var naiveScript string

// prepareNaive makes the tables, and the script whose rows are as long as that of the sample.
func prepareNaive(ctx context.Context, c *cluster, sample sample, opts options) (*naive, error) {
	n := &naive{cluster: c, options: opts, script: filepath.Join(c.dir, "naive.pgbench")}
	var err error
	if n.url, err = c.newDatabase(ctx, "naive"); err != nil {
		return nil, err
	}
	if err := postgres.MigrateUp(ctx, n.url); err != nil {
		return nil, err
	}
	script := template.Must(template.New("naive").Funcs(template.FuncMap{"text": textLiteral, "bytes": bytesLiteral}).
		Parse(naiveScript))
	var text strings.Builder
	if err := script.Execute(&text, sample); err != nil {
		return nil, fmt.Errorf("write pgbench's script: %w", err)
	}
	if err := os.WriteFile(n.script, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	if n.db, err = pgx.Connect(ctx, n.url); err != nil {
		return nil, err
	}
	if _, err := n.db.Exec(ctx, naiveTables); err != nil {
		return nil, fmt.Errorf("make the naive tables: %w", err)
	}
	return n, nil
}

// textLiteral has no colon in it: pgbench would take what follows for a variable, even inside quotes.
func textLiteral(s string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, ":", `\x3a`).Replace(s) + "'"
}

func bytesLiteral(b []byte) string { return `'\x` + hex.EncodeToString(b) + "'" }

func (n *naive) empty(ctx context.Context) error {
	_, err := n.db.Exec(ctx, "TRUNCATE naive.idempotency_requests, naive.orders, naive.order_lines, naive.outbox_events")
	if err != nil {
		return fmt.Errorf("empty the naive tables: %w", err)
	}
	return nil
}

func (n *naive) with(clients int) func(context.Context) (measurement, error) {
	return func(ctx context.Context) (measurement, error) { return n.measure(ctx, clients) }
}

func (n *naive) measure(ctx context.Context, clients int) (measurement, error) {
	// pgbench wants whole seconds.
	if _, err := n.pgbench(ctx, clients, max(n.options.warmup.Round(time.Second), time.Second)); err != nil {
		return measurement{}, err
	}
	if err := n.cluster.settle(ctx, n.db); err != nil {
		return measurement{}, err
	}
	rowsBefore, err := n.rows(ctx)
	if err != nil {
		return measurement{}, err
	}
	before, err := n.cluster.read(ctx)
	if err != nil {
		return measurement{}, err
	}
	result, err := n.pgbench(ctx, clients, n.options.measure)
	if err != nil {
		return measurement{}, err
	}
	after, err := n.cluster.read(ctx)
	if err != nil {
		return measurement{}, err
	}
	rowsAfter, err := n.rows(ctx)
	if err != nil {
		return measurement{}, err
	}
	if result.done == 0 {
		return measurement{}, errors.New("pgbench completed no transaction in the measured time")
	}
	if added := rowsAfter.since(rowsBefore); added != (rows{result.done, result.done, result.done}) {
		return measurement{}, fmt.Errorf("pgbench counted %d transactions, but in the tables are %s more", result.done, added)
	}
	return measurement{
		Done: result.done, PerSecond: result.perSecond, MeanMillis: result.meanMillis,
		PostgresMicros: result.processorMicros, WALBytes: float64(after.wal-before.wal) / float64(result.done),
		LoadMicros: result.load.Seconds() * 1e6 / float64(result.done), Strangers: after.strangers(before, result.load),
	}, nil
}

func (n *naive) rows(ctx context.Context) (rows, error) { return countRows(ctx, n.db, "naive") }

func (n *naive) close(ctx context.Context) { _ = n.db.Close(context.WithoutCancel(ctx)) }

// pgbenchResult is what one run of pgbench said.
type pgbenchResult struct {
	done            int64
	perSecond       float64 // without the time to connect
	meanMillis      float64
	processorMicros float64 // of PostgreSQL, for one transaction
	load            time.Duration
}

var (
	transactions = regexp.MustCompile(`number of transactions actually processed: (\d+)`)
	failures     = regexp.MustCompile(`number of failed transactions: (\d+)`)
	latency      = regexp.MustCompile(`latency average = ([\d.]+) ms`)
	throughput   = regexp.MustCompile(`tps = ([\d.]+) \(without initial connection time\)`)
	progress     = regexp.MustCompile(`^progress: ([\d.]+) s, ([\d.]+) tps`)
)

func (n *naive) pgbench(ctx context.Context, clients int, length time.Duration) (pgbenchResult, error) {
	ctx, cancel := context.WithTimeout(ctx, length+time.Minute)
	defer cancel()
	cmd := command(ctx, n.cluster.pgbench, "--no-vacuum", "--protocol=prepared", "--file="+n.script,
		"--client="+strconv.Itoa(clients), "--jobs="+strconv.Itoa(min(clients, 2)),
		"--time="+strconv.Itoa(int(length.Seconds())), "--progress=1",
		"--define=n=0", "--define=base="+strconv.FormatInt(time.Now().UnixMicro(), 10), n.url)
	var out strings.Builder
	cmd.Stdout = &out
	complaints, err := cmd.StderrPipe()
	if err != nil {
		return pgbenchResult{}, err
	}
	if err := cmd.Start(); err != nil {
		return pgbenchResult{}, fmt.Errorf("start pgbench: %w", err)
	}
	seen := watch{until: length.Seconds() - 0.5}
	var said []string
	for lines := bufio.NewScanner(complaints); lines.Scan(); {
		if match := progress.FindStringSubmatch(lines.Text()); match != nil {
			seen.note(match, n.cluster)
			continue
		}
		said = append(said, lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		return pgbenchResult{}, fmt.Errorf("pgbench: %w: %s", err, strings.Join(said[max(0, len(said)-5):], "; "))
	}
	result, err := parsePgbench(out.String())
	if err != nil {
		return pgbenchResult{}, err
	}
	result.processorMicros = seen.processorMicros()
	result.load = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return result, nil
}

func parsePgbench(out string) (pgbenchResult, error) {
	var err error
	number := func(pattern *regexp.Regexp) float64 {
		match := pattern.FindStringSubmatch(out)
		if match == nil {
			err = fmt.Errorf("pgbench did not say %q: %s", pattern, out)
			return 0
		}
		n, _ := strconv.ParseFloat(match[1], 64) // the pattern lets only numbers through
		return n
	}
	if done := number(transactions); done == 0 {
		return pgbenchResult{}, err // of a machine that is busy elsewhere: there are no times to tell
	}
	result := pgbenchResult{done: int64(number(transactions)), perSecond: number(throughput), meanMillis: number(latency)}
	if failed := number(failures); failed > 0 && err == nil {
		err = fmt.Errorf("%.0f of pgbench's transactions failed", failed)
	}
	return result, err
}

// watch reads PostgreSQL's processor time at pgbench's progress lines, but the last: the time before the first and
// after the last is left out, because in it 64 clients connect and leave, which a server's pool does not.
type watch struct {
	until       float64 // seconds; what comes later may be the last line
	lines       int
	at          float64 // seconds of the last line
	transaction float64 // between the first line and the last
	first, last time.Duration
}

func (w *watch) note(match []string, c *cluster) {
	at, _ := strconv.ParseFloat(match[1], 64)
	perSecond, _ := strconv.ParseFloat(match[2], 64)
	spent, err := processorOfFamily(c.postgres.PID())
	if err != nil || at > w.until {
		return // a PostgreSQL that has ended fails the run in a plainer way
	}
	if w.lines == 0 {
		w.first = spent
	} else {
		w.transaction += perSecond * (at - w.at)
	}
	w.lines, w.at, w.last = w.lines+1, at, spent
}

func (w *watch) processorMicros() float64 {
	if w.transaction == 0 {
		return 0
	}
	return (w.last - w.first).Seconds() * 1e6 / w.transaction
}
