package load

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A quantile is that of the sorted list by nearest rank, rounded up by less than a 64th.
func TestQuantilesAreThoseOfTheSortedList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		took := rapid.SliceOfN(rapid.Int64Range(0, int64(10*time.Minute)), 1, 200).Draw(t, "took")
		share := rapid.Float64Range(0, 1).Draw(t, "share")
		var one, other latencies
		for i, ns := range took {
			if i%2 == 0 {
				one.add(time.Duration(ns))
			} else {
				other.add(time.Duration(ns))
			}
		}
		one.merge(&other)
		slices.Sort(took)
		exact := took[max(int(math.Ceil(share*float64(len(took)))), 1)-1]
		got := int64(one.quantile(share))
		if got < exact || got-exact > exact/64 {
			t.Fatalf("the %.3f quantile is %d, and %d was said", share, exact, got)
		}
		if longest := took[len(took)-1]; int64(one.longest) != longest || int64(one.quantile(1)) != longest {
			t.Fatalf("the longest is %d, not %d", longest, one.longest)
		}
	})
}

func TestQuantilesAtTheEdges(t *testing.T) {
	t.Parallel()
	var l latencies
	if got := l.quantile(0.99); got != 0 {
		t.Errorf("of nothing: %s", got)
	}
	l.add(-time.Second) // a clock that was set back
	l.add(100 * time.Hour)
	if low, high := l.quantile(0.5), l.quantile(1); low != 0 || high < 30*time.Minute {
		t.Errorf("%s and %s", low, high)
	}
	for bucket := range bucketCount {
		if got := bucketOf(endOf(bucket)); got != bucket {
			t.Fatalf("the end of bucket %d lies in bucket %d", bucket, got)
		}
	}
}
