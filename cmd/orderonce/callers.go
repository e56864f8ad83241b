package main

import (
	"fmt"
	"strconv"
)

// parseRate reads requests per second. Slower than one in a quarter of an hour is no rate but a mistake, such as a
// rate per day; and so is what no machine answers.
func parseRate(text string) (float64, error) {
	const slowest, fastest = 0.001, 1e6
	perSecond, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, err
	}
	if perSecond != 0 && !(perSecond >= slowest && perSecond <= fastest) { // not "< or >", for which NaN is neither
		return 0, fmt.Errorf("must be 0, or between %g and %g", slowest, fastest)
	}
	return perSecond, nil
}
