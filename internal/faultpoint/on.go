//go:build faults

package faultpoint

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Env names the variable that says what happens where, as a list with semicolons between:
//
//	after_claim=kill@3               the third hit is the end of the process, as by kill -9
//	before_response=pause:/file@2    the second hit makes the file, and waits until it is gone
//
// Without @ it is the first hit. A point may stand in the list several times.
const Env = "ORDERONCE_FAULTS"

// fault is what happens at one hit of one point.
type fault struct {
	at   int64
	file string // to wait for; empty is a kill
}

// place is a point that something happens at.
type place struct {
	hits   atomic.Int64
	faults []fault
}

var places = mustParse(os.Getenv(Env))

// Hit lets happen what is planned for this hit of the point.
func Hit(at Point) {
	p, ok := places[at]
	if !ok {
		return
	}
	hit := p.hits.Add(1)
	for _, f := range p.faults {
		if f.at == hit {
			f.happen()
		}
	}
}

func (f fault) happen() {
	if f.file == "" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way; nothing more may happen here
	}
	made, err := os.Create(f.file)
	if err != nil {
		panic(err) //nolint:forbidigo // a test whose fault cannot happen must not pass
	}
	_ = made.Close()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for err == nil {
		<-tick.C
		_, err = os.Stat(f.file)
	}
}

func mustParse(text string) map[Point]*place {
	parsed, err := parse(text)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", Env, err)) //nolint:forbidigo // a test that asks for a fault there is none of must not pass
	}
	return parsed
}

func parse(text string) (map[Point]*place, error) {
	parsed := make(map[Point]*place)
	for one := range strings.SplitSeq(text, ";") {
		if one == "" {
			continue
		}
		name, action, _ := strings.Cut(one, "=")
		action, hit, counted := strings.Cut(action, "@")
		f := fault{at: 1}
		if counted {
			var err error
			if f.at, err = strconv.ParseInt(hit, 10, 64); err != nil || f.at < 1 {
				return nil, errors.New(one + ": the hit must be a number from 1")
			}
		}
		if action != "kill" {
			var pauses bool
			if f.file, pauses = strings.CutPrefix(action, "pause:"); !pauses || f.file == "" {
				return nil, errors.New(one + ": what happens must be kill or pause:FILE")
			}
		}
		at := Point(name)
		switch at {
		case BeforeClaim, AfterClaim, AfterCommit, BeforeResponse, BeforeDispatched, AfterDispatched, BeforeSend, AfterAnswer, BeforeFinish, AfterFinish:
		default:
			return nil, errors.New(one + ": there is no such point")
		}
		if parsed[at] == nil {
			parsed[at] = &place{}
		}
		parsed[at].faults = append(parsed[at].faults, f)
	}
	return parsed, nil
}
