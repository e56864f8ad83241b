package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// importKeyEnv brings the API key where others must not see it in the list of processes.
const importKeyEnv = envPrefix + "IMPORT_KEY"

// importing is what `orderonce import` was asked for.
type importing struct {
	URL, Key, IdempotencyKey string
	Format                   string
	Reserve, NoWait          bool
	Patience                 time.Duration
}

func importCommand() *cobra.Command {
	var i importing
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import a file of orders into a deployment of yours, and wait for the end",
		Long: `Import sends a file of up to 10 000 orders to a deployment, shows how far it is, and lists the rows that were
rejected. A .ndjson or .jsonl file has one order a line; any other is a JSON document with "orders".

It may be said twice, or again after it was interrupted: the idempotency key is made of the file's content, so that the
same file finds its task. Orders that are there already under their client_order_id are found, whatever the key.

The key needs the scope imports:create. The exit status is 1 where a row was rejected or the task failed.`,
		Example: `  ` + importKeyEnv + `=oo_live_… orderonce import --url https://orders.example.org orders.ndjson
  orderonce import --url http://127.0.0.1:8080 --key oo_live_… --reserve-inventory orders.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return i.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&i.URL, "url", "", "base URL of the deployment")
	flags.StringVar(&i.Key, "key", "", "API key; "+importKeyEnv+" keeps it out of the list of processes")
	flags.StringVar(&i.IdempotencyKey, "idempotency-key", "", "the import's key (default: made of the file's content)")
	flags.StringVar(&i.Format, "format", "", "json or ndjson (default: by the file's name)")
	flags.BoolVar(&i.Reserve, "reserve-inventory", false, "reserve the stock of each order before it is placed")
	flags.BoolVar(&i.NoWait, "no-wait", false, "print the task's address and do not wait for its end")
	flags.DurationVar(&i.Patience, "patience", time.Hour, "how long to wait for the end, and for a deployment that is away")
	require(cmd, "url")
	return cmd
}

func (i importing) run(cmd *cobra.Command, file string) error {
	if i.Key == "" {
		i.Key = os.Getenv(importKeyEnv)
	}
	if i.Key == "" {
		return fmt.Errorf("key: must be set, as a flag or as %s", importKeyEnv)
	}
	base, err := url.Parse(i.URL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return errors.New("url: must be like https://orders.example.org")
	}
	media, err := i.mediaType(file)
	if err != nil {
		return err
	}
	if i.IdempotencyKey == "" {
		if i.IdempotencyKey, err = contentKey(file, i.Reserve); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), i.Patience)
	defer cancel()
	remote := &importClient{base: base, key: i.Key, bar: newProgressBar(cmd.ErrOrStderr())}
	task, err := remote.send(ctx, file, media, i)
	if err != nil {
		return err
	}
	if i.NoWait {
		fmt.Fprintln(cmd.OutOrStdout(), base.JoinPath("tasks", task.ID))
		return nil
	}
	if task, err = remote.wait(ctx, task); err != nil {
		return fmt.Errorf("%w; the task goes on: say the same again to look at it", err)
	}
	return remote.report(ctx, cmd.OutOrStdout(), task)
}

func (i importing) mediaType(file string) (string, error) {
	format := i.Format
	if format == "" {
		format = "json"
		if extension := filepath.Ext(file); extension == ".ndjson" || extension == ".jsonl" {
			format = "ndjson"
		}
	}
	switch format {
	case "json":
		return "application/json", nil
	case "ndjson":
		return "application/x-ndjson", nil
	}
	return "", errors.New("format: must be json or ndjson")
}

// contentKey names the intent to import this very content in this way.
func contentKey(file string, reserve bool) (string, error) {
	f, err := os.Open(file) //nolint:gosec // the very file that the caller names
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	return fmt.Sprintf("import-%s-%t", hex.EncodeToString(sum.Sum(nil)), reserve), nil
}

// progressBar is redrawn in place on a terminal; elsewhere it says each tenth.
type progressBar struct {
	out      io.Writer
	terminal bool
	tenth    int
}

func newProgressBar(out io.Writer) *progressBar {
	b := &progressBar{out: out, tenth: -1}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		b.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return b
}

const barWidth = 30

func (b *progressBar) show(t importTask) {
	p := t.Progress
	full := barWidth * p.Done / max(p.Total, 1)
	line := fmt.Sprintf("[%s%s] %d/%d, %d rejected, %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), p.Done, p.Total, p.Rejected, t.State)
	tenth := 10 * p.Done / max(p.Total, 1)
	switch {
	case b.terminal:
		fmt.Fprintf(b.out, "\r\x1b[K%s", line)
		if t.ended() {
			fmt.Fprintln(b.out)
		}
	case tenth != b.tenth || t.ended():
		fmt.Fprintln(b.out, line)
	}
	b.tenth = tenth
}
