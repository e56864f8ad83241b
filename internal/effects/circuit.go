package effects

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/sony/gobreaker/v2"
)

// rememberedLanes bounds how many lanes of a destination have a circuit of their own in memory. One that is forgotten
// begins closed.
const rememberedLanes = 4096

var (
	errFailed = errors.New("the call failed")
	errUnused = errors.New("the call was not made, or was cut by this process")
)

// circuits leave a destination alone that fails each call, one lane's apart from another's, and then try it with one
// call at a time. They are of this process, decide nothing but when, and forget all at its end.
type circuits struct {
	destination string
	failures    uint32
	open        time.Duration
	log         *slog.Logger

	mu    sync.Mutex
	lanes *lru.Cache[string, *breaker]
}

type breaker = gobreaker.TwoStepCircuitBreaker[struct{}]

func newCircuits(destination string, o Options) *circuits {
	lanes, err := lru.New[string, *breaker](rememberedLanes)
	if err != nil {
		panic(err) //nolint:forbidigo // a size that is not positive, in this very file
	}
	return &circuits{destination: destination, failures: o.Failures, open: o.Open, log: o.Log, lanes: lanes}
}

func (c *circuits) of(lane string) *breaker {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.lanes.Get(lane)
	if !ok {
		b = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Name: lane, MaxRequests: 1, Timeout: c.open,
			ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= c.failures },
			IsExcluded:  func(err error) bool { return errors.Is(err, errUnused) },
			OnStateChange: func(lane string, from, to gobreaker.State) {
				c.log.Info("circuit of a destination changed",
					"destination", c.destination, "lane", lane, "from", from.String(), "to", to.String())
			},
		})
		c.lanes.Add(lane, b)
	}
	return b
}

// most is how many effects may be taken at once, of up to n: none and one for a destination without lanes whose circuit
// is open and half open. Of one with lanes it is only known after the taking whose they are.
func (c *circuits) most(n int32) int32 {
	c.mu.Lock()
	b, ok := c.lanes.Peek("")
	c.mu.Unlock()
	if !ok {
		return n
	}
	switch b.State() {
	case gobreaker.StateOpen:
		return 0
	case gobreaker.StateHalfOpen:
		if tried := b.Counts(); tried.Requests > tried.TotalExclusions {
			return 0
		}
		return min(n, 1)
	case gobreaker.StateClosed:
	}
	return n
}

// allow says whether a call may be made for the lane; done must then be told how it went.
func (c *circuits) allow(lane string) (done func(error), allowed bool) {
	done, err := c.of(lane).Allow()
	return done, err == nil
}

// failure is what a verdict means for a circuit. Refused is a healthy destination's answer; Impossible is not: left
// alone, a destination that denies every call for a wrong credential costs a person a few effects and not all of them.
func failure(v Verdict) error {
	switch v {
	case Done, Refused, Absent:
		return nil
	case NotExecuted, Impossible, Ambiguous:
		return errFailed
	}
	return errFailed
}
