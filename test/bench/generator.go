package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"orderonce/internal/load"
)

// phase is what a load generator has seen in one phase, and the processor time that it took itself.
type phase struct {
	load.Tally
	Processor time.Duration
}

// generate is the whole life of a load generator: it reads a job, and then the lengths of phases, one after the other,
// and writes what each has brought. It ends when in does, so it does not outlive who started it.
func generate(ctx context.Context, in io.Reader, out io.Writer) error {
	said, say := json.NewDecoder(in), json.NewEncoder(out)
	var j load.Job
	if err := said.Decode(&j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	crew, err := load.Gather(ctx, j)
	if err != nil {
		return err
	}
	defer crew.Leave()
	for {
		var length time.Duration
		if err := said.Decode(&length); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the length of a phase: %w", err)
		}
		before := ownProcessor()
		tally, err := crew.Phase(ctx, length)
		if err != nil {
			return err
		}
		if err := say.Encode(phase{tally, ownProcessor() - before}); err != nil {
			return err
		}
	}
}

func ownProcessor() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// generator is a load generator under way; generate is the other end.
type generator struct {
	said       *json.Decoder
	say        *json.Encoder
	close      func() error
	wait       func() error
	complaints strings.Builder
	cancel     context.CancelFunc
}

func startGenerator(ctx context.Context, j load.Job) (*generator, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	g := &generator{cancel: cancel}
	cmd := command(ctx, self, loadFlag)
	cmd.Stderr = &g.complaints
	var in io.WriteCloser
	var out io.ReadCloser
	if in, err = cmd.StdinPipe(); err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start the load generator: %w", err)
	}
	g.said, g.say, g.close, g.wait = json.NewDecoder(out), json.NewEncoder(in), in.Close, cmd.Wait
	if err := g.say.Encode(j); err != nil {
		g.end()
		return nil, fmt.Errorf("tell the load generator its job: %w", err)
	}
	return g, nil
}

// begin starts a phase, and finish waits for its end.
func (g *generator) begin(length time.Duration) error { return g.say.Encode(length) }

func (g *generator) finish() (phase, error) {
	var p phase
	if err := g.said.Decode(&p); err != nil {
		g.end()
		return phase{}, fmt.Errorf("the load generator ended: %s", strings.TrimSpace(g.complaints.String()))
	}
	return p, nil
}

// work is a whole phase.
func (g *generator) work(length time.Duration) (phase, error) {
	if err := g.begin(length); err != nil {
		return phase{}, err
	}
	return g.finish()
}

// end lets the generator go, which it does when nobody speaks to it any more.
func (g *generator) end() {
	_ = g.close()
	_ = g.wait() // what it had to say is in its tallies and complaints
	g.cancel()
}
