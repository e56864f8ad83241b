package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The settings that say who may ask, and how often, have a form of their own.

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

// origin is how a browser writes one (RFC 6454, 6.2): lower case, nothing behind the port.
var origin = regexp.MustCompile(`^(https?)://([a-z0-9-]+(\.[a-z0-9-]+)*|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?$`)

// parseOrigins reads a list of origins. One that a browser never writes would be refused for ever and nobody would
// know why, and one that stands for many would let in whoever gets a name among them: its error joins all of these.
func parseOrigins(list string) (origins []string, err error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	var wrong []error
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		parts := origin.FindStringSubmatch(one)
		switch {
		case strings.Contains(one, "*"):
			wrong = append(wrong, fmt.Errorf("%q: each origin must be named; there is no *", one))
		case parts == nil:
			wrong = append(wrong, fmt.Errorf("%q: must be http or https, a host in lower case and no more, such as https://shop.example", one))
		case parts[1] == "http" && parts[4] == ":80", parts[1] == "https" && parts[4] == ":443":
			wrong = append(wrong, fmt.Errorf("%q: browsers leave out this port", one))
		default:
			origins = append(origins, one)
		}
	}
	return origins, errors.Join(wrong...)
}
