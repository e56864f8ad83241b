package orderonce

import (
	"math"
	"testing"
	"time"
)

// A pause is never shorter than the service asked for, never beyond the bound on top of it, and not the same for all.
func TestPauseIsBoundedAndSpread(t *testing.T) {
	t.Parallel()
	p := Policy{BasePause: time.Second, MaxPause: 5 * time.Second}.withDefaults()
	for sends, bound := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 5 * time.Second, 40: 5 * time.Second, math.MaxInt: 5 * time.Second,
	} {
		seen := map[string]bool{}
		for range 50 {
			d := p.between(sends, 3*time.Second)
			if d < 3*time.Second || d >= 3*time.Second+bound {
				t.Errorf("after %d sends: %s", sends, d)
			}
			seen[d.String()] = true
		}
		if len(seen) < 25 {
			t.Errorf("after %d sends: %d different pauses of 50", sends, len(seen))
		}
	}
	odd := Policy{BasePause: math.MaxInt64, MaxPause: time.Second}.withDefaults()
	for sends := range 40 {
		if d := odd.between(sends+1, 0); d < 0 || d >= time.Second {
			t.Errorf("after %d sends: %s", sends+1, d)
		}
	}
}
