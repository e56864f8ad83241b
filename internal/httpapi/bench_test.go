package httpapi

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// What the door spends on an order of three items, and what kin-openapi would spend on the same. The ratio is what
// counts: go test ./internal/httpapi -run '^$' -bench Door -benchmem

func threeItems() string {
	item := map[string]any{"sku": "MUG-0815", "quantity": 2, "unit_price_minor": 1250}
	return order(
		set("items", []any{item, item, item}), set("checkout_id", "0198d0a6-4b7c-7d3e-9a51-0f6d2c3b4a59"), set("coupon_code", "WELCOME10"),
		set("metadata", map[string]any{"channel": "web", "cart": "8731"}), set("client_sent_at", "2026-11-01T10:00:00.123Z"),
	)
}

func BenchmarkDoorBody(b *testing.B) {
	o := operationOf(b, "createOrder")
	document, err := decode([]byte(threeItems()))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if faults := o.rules.Check(document); len(faults) > 0 {
				b.Fatal(faults)
			}
		}
	})
	b.Run("kin-openapi", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			err := o.body.VisitJSON(document, openapi3.VisitAsRequest(), openapi3.MultiErrors(), openapi3.DefaultsSet(func() {}))
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDoorParameters(b *testing.B) {
	for id, target := range map[string]string{"createOrder": "/orders", "listOrders": "/orders?status=pending&page_size=50"} {
		o := operationOf(b, id)
		r := httptest.NewRequestWithContext(b.Context(), o.route.Method, target, nil)
		r.Header = http.Header{keyHeader: {freshKey()}, "Api-Version": {"2026-11-01"}, "Prefer": {"wait=2"}}
		b.Run(id+"/ours", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := o.validateParameters(r); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(id+"/kin-openapi", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if faults, err := judgedParameters(o, r, map[string]string{}); len(faults) > 0 || err != nil {
					b.Fatal(faults, err)
				}
			}
		})
	}
}

func BenchmarkDoorDecode(b *testing.B) {
	body := []byte(threeItems())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func operationOf(tb testing.TB, id string) *operation {
	tb.Helper()
	all := contractOperations(tb)
	return all[slices.IndexFunc(all, func(o *operation) bool { return o.id == id })]
}

// What it takes to take in an import of 10 000 orders: decoded, judged, hashed and packed, without any of it kept whole.
func BenchmarkIntake(b *testing.B) {
	o := operationOf(b, "importOrders")
	body := strings.Join(many(10_000), "\n")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		in := o.rows.intake(256 << 10)
		if err := in.read(ndjson, strings.NewReader(body)); err != nil || in.n != 10_000 {
			b.Fatal(in.n, err)
		}
	}
}
