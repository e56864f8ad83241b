package main

import "slices"

// figure is one number of the report over all rounds, with what it should be.
type figure struct {
	Name  string  `json:"name"`
	Base  string  `json:"base,omitempty"` // what a ratio is taken to
	Unit  string  `json:"unit,omitempty"`
	Goal  float64 `json:"goal,omitempty"`
	Least float64 `json:"at_least,omitempty"` // the worst that will do
	Less  bool    `json:"less_is_better,omitempty"`
	spread
}

// verdict compares the median with what was wanted; it is empty where nothing was.
func (f figure) verdict() string {
	better := func(than float64) bool {
		if f.Less {
			return f.Median <= than
		}
		return f.Median >= than
	}
	switch {
	case f.Goal == 0:
		return ""
	case better(f.Goal):
		return "goal"
	case f.Least != 0 && better(f.Least):
		return "enough"
	}
	return "missed"
}

// compared are the ratios of the table. Naive means pgbench at 64 connections.
var compared = []struct {
	name, leg, base string
	of              func(measurement) float64
	goal, least     float64
	less            bool
}{
	{"create c1", create1, naive64, rate, 0, 0, false},
	{"create c16", create16, naive64, rate, 0, 0, false},
	{"create c64", create64, naive64, rate, 4, 3, false},
	{"create c256", create256, naive64, rate, 6, 4.5, false},
	{"replay from the database c64", db64, naive64, rate, 9, 7, false},
	{"hot replay c64", hot64, naive64, rate, 20, 12, false},
	{"hot replay c64", hot64, static64, rate, 1, 0.8, false},
	{"create c1", create1, alone1, rate, 1, 0.95, false},
	{"create c16", create16, alone16, rate, 1, 0.95, false},
	{"create c64 with row level security", create64, bare64, rate, 0.8, 0, false},
	{"create c64 with a purge", purging64, create64, rate, 0, 0, false},
	{"CPU per order, create c64", create64, naive64, processing, 0.16, 0.25, true},
	{"CPU per order, create c256", create256, naive64, processing, 0, 0, true},
	{"WAL per order, create c64", create64, naive64, wal, 0, 0, true},
	{besideWorker, besideWorker, withoutWorker, rate, 0.8, 0, false},
}

// grown is the goal for the largest size over the smallest.
const grownGoal, grownLeast = 0.9, 0.8

// compare takes all figures from the measurements.
func (r *report) compare() {
	for _, c := range compared {
		f := figure{Name: c.name, Base: c.base, Goal: c.goal, Least: c.least, Less: c.less}
		r.divide(f, c.leg, c.of)
	}
	for i, size := range r.Growth {
		f := figure{Name: growthLeg(size), Base: growthLeg(r.Growth[0])}
		if i == 0 {
			continue
		}
		if i == len(r.Growth)-1 {
			f.Goal, f.Least = grownGoal, grownLeast
		}
		r.divide(f, growthLeg(size), rate)
	}
	r.take(figure{Name: "WAL per order, create c64", Unit: "B", Goal: 2600, Least: 2800, Less: true}, r.of(create64, wal))
	r.take(figure{Name: "events dispatched for each order, under load", Unit: "events", Goal: 1.2, Least: 1}, r.of(catchingUp, dispatchedEach))
	r.take(figure{Name: "events that wait beside a worker", Unit: "s of orders", Goal: 1, Least: 2, Less: true}, r.of(besideWorker, behind))
	var calm, stormy, longest []float64
	for _, turn := range r.Storms {
		calm, stormy = append(calm, turn.Calm.Max.Seconds()), append(stormy, turn.Stormy.Max.Seconds())
		longest = append(longest, turn.Repeated.Max.Seconds())
	}
	r.take(figure{Name: "other tenant's slowest order without the storm", Unit: "s", Less: true}, calm)
	r.take(figure{Name: "other tenant's slowest order in the storm", Unit: "s", Goal: 0.3, Less: true}, stormy)
	r.take(figure{Name: "a duplicate's longest wait in the storm", Unit: "s", Less: true}, longest)
}

// divide takes a ratio within each round that has both legs.
func (r *report) divide(f figure, leg string, of func(measurement) float64) {
	ours, theirs := r.rounds(leg, of), r.rounds(f.Base, of)
	var values []float64
	for round := 1; round <= r.Rounds; round++ {
		if theirs[round] > 0 && ours[round] > 0 {
			values = append(values, ours[round]/theirs[round])
		}
	}
	if len(values) > 0 {
		f.spread = spreadOf(values)
		r.Ratios = append(r.Ratios, f)
	}
}

func (r *report) take(f figure, values []float64) {
	if len(values) > 0 {
		f.spread = spreadOf(values)
		r.Figures = append(r.Figures, f)
	}
}

// merge adds the ratios of another report that this one lacks.
func (r *report) merge(other report) {
	for _, f := range other.Ratios {
		same := func(have figure) bool { return have.Name == f.Name && have.Base == f.Base }
		if !slices.ContainsFunc(r.Ratios, same) {
			r.Ratios = append(r.Ratios, f)
		}
	}
}
