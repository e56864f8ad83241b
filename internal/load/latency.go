package load

import (
	"math"
	"math/bits"
	"time"
)

// latencies counts durations in buckets that are at most a 64th wide of what they hold, so that a run of hours needs no
// more room than one of seconds.
type latencies struct {
	buckets [bucketCount]int64
	count   int64
	longest time.Duration
}

const (
	bucketBits  = 6  // 64 buckets for each doubling
	durationMax = 41 // bits: half an hour in nanoseconds; longer ones are all one
	bucketCount = (durationMax - bucketBits + 1) << bucketBits
)

func (l *latencies) add(d time.Duration) {
	l.buckets[bucketOf(d)]++
	l.count++
	l.longest = max(l.longest, d)
}

func (l *latencies) merge(other *latencies) {
	for i, n := range other.buckets {
		l.buckets[i] += n
	}
	l.count += other.count
	l.longest = max(l.longest, other.longest)
}

// quantile is the shortest duration that at least this share of all did not exceed, by nearest rank, rounded up to the
// end of its bucket: it never flatters. 0 where nothing was counted.
func (l *latencies) quantile(share float64) time.Duration {
	rank := max(int64(math.Ceil(share*float64(l.count))), 1)
	for i, n := range l.buckets {
		if rank -= n; rank <= 0 {
			return min(endOf(i), l.longest)
		}
	}
	return l.longest
}

func bucketOf(d time.Duration) int {
	ns := min(uint64(max(d, 0)), 1<<durationMax-1)
	shift := max(bits.Len64(ns)-bucketBits-1, 0)
	return shift<<bucketBits + int(ns>>shift) //nolint:gosec // of bucketBits+1 bits by now
}

// endOf is the longest duration of a bucket.
func endOf(bucket int) time.Duration {
	shift := max(bucket>>bucketBits-1, 0)
	return time.Duration((bucket-shift<<bucketBits+1)<<shift - 1)
}
