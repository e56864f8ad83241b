package faults

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// verdict is what one try of a client ended with.
type verdict int

const (
	first    verdict = iota // an answer that says that it is the first
	replayed                // an answer that says that it is a replay
	refused                 // an answer that promises that this try has stored nothing
	lost                    // no answer, or one that does not know
)

// outcome is a try's verdict and, for an answer, its status and bytes.
type outcome struct {
	verdict
	answer string
}

// unseen is a key's outcome that exists and has not been told to anybody yet.
const unseen = "?"

// onceModel says what a key may do: its first try to take effect decides, the one answer that is called first tells of
// it, and every other answer repeats it. A lost try takes effect at any later time or never, which leaves the checker
// free to put it last; a refused one never does.
var onceModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, _, output any) (bool, any) {
		now, o := state.(string), output.(outcome)
		switch o.verdict {
		case first:
			return now == "", o.answer
		case replayed:
			return now == unseen || now == o.answer, o.answer
		case refused:
			return true, now
		case lost:
			return true, cmp.Or(now, unseen)
		}
		return false, now
	},
}

// history is what the clients of one key saw.
type history struct {
	mu  sync.Mutex
	ops []porcupine.Operation
}

func (h *history) add(called, returned time.Duration, o outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := int64(returned)
	if o.verdict == lost {
		end = math.MaxInt64
	}
	h.ops = append(h.ops, porcupine.Operation{Call: int64(called), Return: end, Output: o})
}

// possible says whether a service that keeps its promise could have been seen like this.
func (h *history) possible() bool { return porcupine.CheckOperations(onceModel, h.ops) }

// The judge is judged: histories of a service that keeps its promise pass, and each way to break it is caught.
func TestHistoriesAreJudged(t *testing.T) {
	t.Parallel()
	// One try after the other, a second apart.
	inTurn := func(outcomes ...outcome) *history {
		var h history
		for i, o := range outcomes {
			at := time.Duration(i) * time.Second
			h.add(at, at+time.Millisecond, o)
		}
		return &h
	}
	a, b := outcome{first, "a"}, outcome{first, "b"}
	againA, againB := outcome{replayed, "a"}, outcome{replayed, "b"}
	no, gone := outcome{verdict: refused}, outcome{verdict: lost}
	for name, outcomes := range map[string][]outcome{
		"once":                           {a},
		"and again":                      {a, againA, againA},
		"refused before and after":       {no, a, no, againA},
		"lost, and had taken effect":     {gone, againA},
		"lost, and had not":              {gone, a, againA},
		"lost twice, and one had":        {gone, gone, againA, againA},
		"lost after the first":           {a, gone, againA},
		"never an answer":                {gone, no, gone},
		"refused, though an earlier had": {gone, no, againA},
	} {
		if !inTurn(outcomes...).possible() {
			t.Errorf("%s: refused", name)
		}
	}
	for name, outcomes := range map[string][]outcome{
		"done twice":                     {a, b},
		"done twice, same answer":        {a, a},
		"replay of something else":       {a, againB},
		"replay of nothing":              {againA},
		"done after a replay":            {gone, againA, b},
		"two different replays":          {gone, againA, againB},
		"refused, but had taken effect":  {no, againA},
		"lost, and taken effect in both": {gone, a, againB},
	} {
		if inTurn(outcomes...).possible() {
			t.Errorf("%s: accepted", name)
		}
	}
	// Two at once: either may be the first, and only one of them.
	for _, c := range []struct {
		outcomes []outcome
		possible bool
	}{{[]outcome{againA, a}, true}, {[]outcome{a, b}, false}} {
		var h history
		for _, o := range c.outcomes {
			h.add(0, time.Second, o)
		}
		if h.possible() != c.possible {
			t.Errorf("%v at once: %v", c.outcomes, !c.possible)
		}
	}
}

// distinct are the different answers in it.
func (h *history) distinct() []string {
	var answers []string
	for _, op := range h.ops {
		if o := op.Output.(outcome); o.answer != "" && !slices.Contains(answers, o.answer) {
			answers = append(answers, o.answer)
		}
	}
	return answers
}
