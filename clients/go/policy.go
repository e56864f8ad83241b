package orderonce

import (
	"context"
	"math/rand/v2"
	"time"
)

// Policy says how long and how often a request is tried. A member that is zero has its default.
type Policy struct {
	Deadline    time.Duration // for all sends and pauses of one call; 60 s. The call's context may end it earlier
	SendTimeout time.Duration // for one send and its whole answer; 20 s. The server gives up after 10 s, by default
	MaxSends    int           // 10
	BasePause   time.Duration // the first random pause is shorter than this, each next one up to twice as long; 200 ms
	MaxPause    time.Duration // a random pause is never longer, however many went before; 10 s

	// Pause waits between two sends; nil waits on a timer. A test may write down what it is asked for and return at once.
	Pause func(ctx context.Context, d time.Duration) error
}

func (p Policy) withDefaults() Policy {
	orElse := func(d *time.Duration, fallback time.Duration) {
		if *d <= 0 {
			*d = fallback
		}
	}
	orElse(&p.Deadline, time.Minute)
	orElse(&p.SendTimeout, 20*time.Second)
	orElse(&p.BasePause, 200*time.Millisecond)
	orElse(&p.MaxPause, 10*time.Second)
	if p.MaxSends <= 0 {
		p.MaxSends = 10
	}
	if p.Pause == nil {
		p.Pause = pause
	}
	return p
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// between is the pause before the next send, after so many. What the service asked for is the least of it. The rest is
// any time up to a bound that doubles: of clients that were cut off together, each comes back at another moment.
func (p Policy) between(sends int, asked time.Duration) time.Duration {
	bound := p.MaxPause
	if doublings := sends - 1; doublings < 32 {
		bound = min(bound, p.BasePause<<doublings)
	}
	if bound <= 0 { // so many doublings overflow
		bound = p.MaxPause
	}
	return asked + rand.N(bound) //nolint:gosec // chance, no secret
}
