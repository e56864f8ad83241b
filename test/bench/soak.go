package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderonce/internal/load"
)

// soak is a long run under full load, with what the server held on the way.
type soak struct {
	Seconds float64    `json:"seconds"`
	Load    load.Tally `json:"load"`
	Rows    string     `json:"rows"`
	Samples []vitals   `json:"samples"`
}

// aged is a PostgreSQL that looks after itself, as one does that runs for long.
var aged = []string{"ALTER SYSTEM SET autovacuum = on", "ALTER SYSTEM SET checkpoint_timeout = '5min'", "SELECT pg_reload_conf()"}

func (s *stage) soak(ctx context.Context) (err error) {
	for _, statement := range aged {
		if _, err := s.cluster.admin.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	d, err := s.newDatabase(ctx, "soak")
	if err != nil {
		return err
	}
	defer d.close(ctx)
	server, err := s.serve(ctx, d, "soak")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	g, err := startGenerator(ctx, load.Job{
		Target: server.target(server.credential), Connections: 64, Work: load.Place, Strict: true,
	})
	if err != nil {
		return err
	}
	defer g.end()
	// Caches and pools are filled first: what grows from then on is what counts.
	warm, err := g.work(s.options.warmup)
	if err != nil {
		return server.complaint(err)
	}
	if err := g.begin(s.options.soak); err != nil {
		return err
	}
	samples, err := server.watch(ctx, s.options.soak)
	if err != nil {
		return err
	}
	p, err := g.finish()
	if err != nil {
		return server.complaint(err)
	}
	rows, err := server.rows(ctx)
	if err != nil {
		return err
	}
	if want := added(warm.Answers + p.Answers); rows != want {
		return fmt.Errorf("%d answers should have left %s, but left %s", warm.Answers+p.Answers, want, rows)
	}
	s.report.Soak = &soak{Seconds: s.options.soak.Seconds(), Load: p.Tally, Rows: rows.String(), Samples: samples}
	return nil
}

// watch looks at the server from time to time until the load ends.
func (s *server) watch(ctx context.Context, length time.Duration) ([]vitals, error) {
	began := time.Now()
	end := time.NewTimer(length)
	defer end.Stop()
	every := min(max(length/60, time.Second), 15*time.Second)
	tick := time.NewTicker(every)
	defer tick.Stop()
	var samples []vitals
	for {
		select {
		case <-tick.C:
		case <-end.C:
			return samples, nil
		case <-s.ended:
			return nil, s.complaint(errors.New("the server ended"))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		v, err := s.vitals(ctx, began)
		if err != nil {
			return nil, s.complaint(err)
		}
		samples = append(samples, v)
		tell("%4.0f s  RSS %.1f MiB, live heap %.2f MiB, %.0f goroutines", v.At, v.RSS, v.Heap, v.Goroutines)
	}
}

// trend is a figure over time: where it began and ended, its extremes, and the slope of the straight line that lies
// nearest to it, for an hour.
type trend struct{ first, last, min, max, slope float64 }

func trendOf(samples []vitals, figure func(vitals) float64) trend {
	if len(samples) == 0 {
		return trend{}
	}
	t := trend{first: figure(samples[0]), last: figure(samples[len(samples)-1])}
	t.min, t.max = t.first, t.first
	var meanAt, mean float64
	for _, v := range samples {
		t.min, t.max = min(t.min, figure(v)), max(t.max, figure(v))
		meanAt += v.At / float64(len(samples))
		mean += figure(v) / float64(len(samples))
	}
	var together, alone float64
	for _, v := range samples {
		together += (v.At - meanAt) * (figure(v) - mean)
		alone += (v.At - meanAt) * (v.At - meanAt)
	}
	if alone > 0 {
		t.slope = together / alone * time.Hour.Seconds()
	}
	return t
}
