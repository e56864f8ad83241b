package orders

import (
	"math"
	"math/bits"

	"orderonce/internal/fault"
)

// subtotal adds up the items in minor units. A sum past int64 is fault.ValidationFailed: the contract's largest order
// (200 items of 100 000 pieces at 10^12) is about twice what fits.
func subtotal(items []Item) (int64, error) {
	var total uint64
	for _, item := range items {
		high, line := bits.Mul64(uint64(item.Quantity), uint64(item.UnitPriceMinor)) //nolint:gosec // neither is negative
		var carry uint64
		total, carry = bits.Add64(total, line, 0)
		if high != 0 || carry != 0 || total > math.MaxInt64 {
			return 0, fault.Invalid("/items", "the total is past what a 64-bit integer holds")
		}
	}
	return int64(total), nil
}

// share is percent hundredths of amount, rounded down. The product may need 128 bits; the quotient fits since
// percent <= 100.
func share(amount int64, percent int16) int64 {
	high, low := bits.Mul64(uint64(amount), uint64(percent)) //nolint:gosec // neither is negative
	quotient, _ := bits.Div64(high, low, 100)
	return int64(quotient) //nolint:gosec // no more than amount
}
