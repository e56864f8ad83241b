package idempotency

import "testing"

// What the fingerprint of an order of three items costs: go test ./internal/idempotency -run '^$' -bench Fingerprint
func BenchmarkFingerprint(b *testing.B) {
	item := map[string]any{"sku": "MUG-0815", "quantity": int64(2), "unit_price_minor": int64(1250)}
	document := map[string]any{
		"customer_id": "customer-1", "currency": "EUR", "shipping_address_id": "address-1", "coupon_code": "WELCOME10",
		"checkout_id": "0198d0a6-4b7c-7d3e-9a51-0f6d2c3b4a59", "items": []any{item, item, item},
		"metadata": map[string]any{"channel": "web", "cart": "8731"},
	}
	p := &Parameters{}
	b.Run("parameters", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p = &Parameters{}
			if err := p.Body(document); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("print", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			print("2026-11-01", "createOrder", p)
		}
	})
	b.Run("digest", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			digest(p)
		}
	})
}
