package orders

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"orderonce/internal/fault"
)

func wantTooLarge(t *testing.T, items []Item, got int64, err error) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.ValidationFailed || len(f.Fields) != 1 || f.Fields[0].Pointer != "/items" {
		t.Errorf("%v cost %d, %v; want them to be refused at /items", items, got, err)
	}
}

// The last sum that an int64 holds is a price, the next is none: it must not come out small or negative.
func TestSubtotalEndsExactlyWhereInt64Does(t *testing.T) {
	t.Parallel()
	const most = math.MaxInt64
	const factor = 7 // 2^63-1 is 7 times a whole number
	for _, items := range [][]Item{
		{{Quantity: 1, UnitPriceMinor: most}},
		{{Quantity: factor, UnitPriceMinor: most / factor}},
		{{Quantity: 1, UnitPriceMinor: most - 1}, {Quantity: 1, UnitPriceMinor: 1}},
		{{Quantity: 1, UnitPriceMinor: 0}, {Quantity: 1, UnitPriceMinor: most}, {Quantity: 100_000, UnitPriceMinor: 0}},
	} {
		if got, err := subtotal(items); err != nil || got != most {
			t.Errorf("%v cost %d, %v; want %d", items, got, err, int64(most))
		}
		items = append(items, Item{Quantity: 1, UnitPriceMinor: 1})
		got, err := subtotal(items)
		wantTooLarge(t, items, got, err)
	}
	for name, items := range map[string][]Item{
		"one line past 2^63":   {{Quantity: 2, UnitPriceMinor: 1 << 62}},
		"one line past 2^64":   {{Quantity: 4, UnitPriceMinor: 1 << 62}},
		"one line, far beyond": {{Quantity: math.MaxInt32, UnitPriceMinor: most}},
		"a sum past 2^64":      {{Quantity: 1, UnitPriceMinor: most}, {Quantity: 1, UnitPriceMinor: most}, {Quantity: 1, UnitPriceMinor: most}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := subtotal(items)
			wantTooLarge(t, items, got, err)
		})
	}
	if got, err := subtotal(nil); err != nil || got != 0 {
		t.Errorf("nothing costs %d, %v", got, err)
	}
}

func TestSubtotalIsTheExactSumOrRefused(t *testing.T) {
	t.Parallel()
	price := rapid.OneOf(
		rapid.Int64Range(0, 1_000_000_000_000), rapid.Int64Range(0, math.MaxInt64), rapid.Int64Range(math.MaxInt64-2, math.MaxInt64))
	rapid.Check(t, func(rt *rapid.T) {
		items := make([]Item, rapid.IntRange(0, 200).Draw(rt, "items"))
		exact := new(big.Int)
		for i := range items {
			items[i] = Item{Quantity: rapid.Int32Range(1, 100_000).Draw(rt, "quantity"), UnitPriceMinor: price.Draw(rt, "price")}
			exact.Add(exact, new(big.Int).Mul(big.NewInt(int64(items[i].Quantity)), big.NewInt(items[i].UnitPriceMinor)))
		}
		got, err := subtotal(items)
		if exact.IsInt64() != (err == nil) || err == nil && got != exact.Int64() {
			rt.Fatalf("%v cost %d, %v; exactly %v", items, got, err, exact)
		}
	})
}

func TestShareIsRoundedDownExactly(t *testing.T) {
	t.Parallel()
	amount := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, math.MaxInt64), rapid.Int64Range(math.MaxInt64-100, math.MaxInt64))
	rapid.Check(t, func(rt *rapid.T) {
		of, percent := amount.Draw(rt, "amount"), rapid.Int16Range(1, 100).Draw(rt, "percent")
		exact := new(big.Int).Mul(big.NewInt(of), big.NewInt(int64(percent)))
		exact.Div(exact, big.NewInt(100))
		if got := share(of, percent); !exact.IsInt64() || got != exact.Int64() || got > of {
			rt.Fatalf("%d %% of %d is %d, want %v", percent, of, got, exact)
		}
	})
	if got := share(math.MaxInt64, 100); got != math.MaxInt64 {
		t.Errorf("100 %% of the most is %d", got)
	}
}
