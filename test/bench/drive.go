package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// replayed is how many orders a replay leg asks for again and again.
const replayed = 4096

func (s *server) create(connections int) func(context.Context) (measurement, error) {
	return func(ctx context.Context) (measurement, error) {
		return s.drive(ctx, job{Connections: connections}, func(answers int64) rows {
			return rows{answers, answers, answers}
		})
	}
}

func (s *server) replay(connections int) func(context.Context) (measurement, error) {
	return func(ctx context.Context) (measurement, error) {
		return s.drive(ctx, job{Connections: connections, Replay: replayed}, func(int64) rows { return rows{} })
	}
}

// sample places some orders and returns a typical one, as it is in the tables.
func (s *server) sample(ctx context.Context) (sample, error) {
	g, err := startGenerator(ctx, job{
		Address: s.address, Credential: s.credential, Connections: 1, Warmup: 500 * time.Millisecond,
	})
	if err != nil {
		return sample{}, err
	}
	defer g.end()
	if _, err := g.tally(); err != nil {
		return sample{}, s.complaint(err)
	}
	return takeSample(ctx, s.db)
}

// drive measures one leg of the server. Expected says which rows so many answers should have added.
func (s *server) drive(ctx context.Context, j job, expected func(answers int64) rows) (measurement, error) {
	j.Address, j.Credential = s.address, s.credential
	j.Warmup, j.Measure = s.options.warmup, s.options.measure
	g, err := startGenerator(ctx, j)
	if err != nil {
		return measurement{}, err
	}
	defer g.end()
	if _, err := g.tally(); err != nil {
		return measurement{}, s.complaint(err)
	}
	if err := s.cluster.settle(ctx, s.db); err != nil {
		return measurement{}, err
	}
	rowsBefore, err := s.rows(ctx)
	if err != nil {
		return measurement{}, err
	}
	before, err := s.cluster.read(ctx, s.cmd.Process.Pid)
	if err != nil {
		return measurement{}, err
	}
	if err := g.begin(); err != nil {
		return measurement{}, err
	}
	t, err := g.tally()
	if err != nil {
		return measurement{}, s.complaint(err)
	}
	after, err := s.cluster.read(ctx, s.cmd.Process.Pid)
	if err != nil {
		return measurement{}, err
	}
	rowsAfter, err := s.rows(ctx)
	if err != nil {
		return measurement{}, err
	}
	if added, want := rowsAfter.since(rowsBefore), expected(t.Answers); added != want {
		return measurement{}, fmt.Errorf("%d answers should have added %s, but added %s", t.Answers, want, added)
	}
	return measure(t, before, after)
}

func measure(t tally, before, after reading) (measurement, error) {
	if t.Answers == 0 {
		return measurement{}, errors.New("the server gave no answer in the measured time")
	}
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(t.Answers) }
	return measurement{
		Done:           t.Answers,
		PerSecond:      float64(t.Answers) / t.Elapsed.Seconds(),
		P50Millis:      t.P50.Seconds() * 1e3,
		P95Millis:      t.P95.Seconds() * 1e3,
		P99Millis:      t.P99.Seconds() * 1e3,
		PostgresMicros: each(after.postgres - before.postgres),
		ServerMicros:   each(after.server - before.server),
		LoadMicros:     each(t.Processor),
		WALBytes:       float64(after.wal-before.wal) / float64(t.Answers),
		Strangers:      after.strangers(before, t.Processor),
	}, nil
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

func startGenerator(ctx context.Context, j job) (*generator, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, j.Warmup+j.Measure+5*time.Minute)
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

func (g *generator) begin() error { return g.say.Encode(struct{}{}) }

// tally waits for the end of a phase.
func (g *generator) tally() (tally, error) {
	var t tally
	if err := g.said.Decode(&t); err != nil {
		g.end()
		return tally{}, fmt.Errorf("the load generator ended: %s", strings.TrimSpace(g.complaints.String()))
	}
	return t, nil
}

// end lets the generator go, which it does when nobody speaks to it any more.
func (g *generator) end() {
	_ = g.close()
	_ = g.wait() // what it had to say is in its tallies and complaints
	g.cancel()
}
