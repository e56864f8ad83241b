package httpapi

import (
	"math"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"orderonce/internal/fault"
)

// bucketsKept bounds the memory: about 200 bytes each. The tenant that was idle longest is forgotten first, and begins
// anew with a full bucket, as after any pause. Only tenants of a known credential are counted: no stranger can have
// one forgotten.
const bucketsKept = 10_000

// allowance holds each tenant to its rate: a token bucket for each, in the memory of this process and nowhere else.
// Safe for concurrent use.
type allowance struct {
	rate    rate.Limit // tokens per second; 0 for no limit
	burst   int        // tokens that a bucket holds
	buckets *lru.Cache[uuid.UUID, *rate.Limiter]
	now     func() time.Time // the clock, for tests to hold
}

func newAllowance(perSecond float64, burst int) *allowance {
	if burst == 0 {
		burst = max(1, int(math.Ceil(perSecond)))
	}
	buckets, err := lru.New[uuid.UUID, *rate.Limiter](bucketsKept)
	if err != nil {
		panic(err) //nolint:forbidigo // a size that is not positive, in this very file
	}
	return &allowance{rate: rate.Limit(perSecond), burst: burst, buckets: buckets, now: time.Now}
}

// take counts one request of a tenant. Where no token is left it takes none, so that asking too often delays nothing,
// and returns fault.RateLimited with the time until the next one.
func (a *allowance) take(tenant uuid.UUID) error {
	if a.rate == 0 {
		return nil
	}
	bucket, now := a.bucket(tenant), a.now()
	// Not Reserve and Cancel: a cancelled reservation gives back less than it took while others reserve after it.
	if bucket.AllowN(now, 1) {
		return nil
	}
	missing := 1 - bucket.TokensAt(now)
	pause := time.Duration(missing / float64(a.rate) * float64(time.Second))
	// Up to whole milliseconds, which is what retry_after_ms can say: less would be too early.
	pause = max((pause + time.Millisecond - 1).Truncate(time.Millisecond), time.Millisecond)
	return &fault.Error{Kind: fault.RateLimited, Detail: "The tenant sends more requests than it may.", RetryAfter: pause}
}

func (a *allowance) bucket(tenant uuid.UUID) *rate.Limiter {
	if bucket, ok := a.buckets.Get(tenant); ok {
		return bucket
	}
	fresh := rate.NewLimiter(a.rate, a.burst)
	if bucket, ok, _ := a.buckets.PeekOrAdd(tenant, fresh); ok {
		return bucket // another request of the tenant was faster
	}
	return fresh
}
