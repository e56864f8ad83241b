package effects

import (
	"math"
	"math/rand/v2"
	"time"
)

// longestWish bounds what a destination may recommend: a webhook's is somebody else's word.
const longestWish = time.Hour

// pause is how long an effect waits after an attempt: full jitter, so that what failed together does not come back
// together, behind what the destination recommends.
func (o *Options) pause(attempts int32, wish time.Duration) time.Duration {
	top := min(float64(o.BackoffCap), math.Ldexp(float64(o.BackoffBase), int(max(attempts-1, 0))))
	return min(max(wish, 0), longestWish) + rand.N(time.Duration(top)) //nolint:gosec // chance, no secret
}
