package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/google/uuid"
)

// order writes requests that place an order of two items. Bodies differ by a fifth in length.
type order struct {
	head   string
	random *rand.Rand
	body   []byte
}

// customerPrefix and five digits are a customer.
const customerPrefix = "customer-0198d0a6-0000-7000-8000-"

func newOrder(host, credential string, seed uint64) *order {
	return &order{
		head: "POST /orders HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + credential +
			"\r\nContent-Type: application/json\r\nIdempotency-Key: ",
		random: rand.New(rand.NewPCG(seed, 0)),
	}
}

const note = "left at the door of the neighbour, who is at home from nine in the morning until noon on working days"

// append adds a whole request, with a key and a checkout that no other request has.
func (o *order) append(request []byte) ([]byte, error) {
	key, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("idempotency key: %w", err)
	}
	checkout, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("checkout: %w", err)
	}
	b := append(o.body[:0], `{"checkout_id":"`...)
	b = append(b, checkout.String()...)
	b = append(b, `","customer_id":"`+customerPrefix...)
	b = o.number(b, 10_000, 90_000)
	b = append(b, `","currency":"EUR","items":[{"sku":"MUG-BLUE-`...)
	b = o.number(b, 1_000, 9_000)
	b = append(b, `","quantity":`...)
	b = o.number(b, 1, 9)
	b = append(b, `,"unit_price_minor":1250},{"sku":"TEA-ASSAM-250-`...)
	b = o.number(b, 1_000, 9_000)
	b = append(b, `","quantity":1,"unit_price_minor":`...)
	b = o.number(b, 100, 9_900)
	b = append(b, `}],"shipping_address_id":"address-`...)
	b = o.number(b, 10_000, 90_000)
	b = append(b, `","metadata":{"source":"web","note":"`...)
	b = append(b, note[:o.random.IntN(len(note)+1)]...)
	b = append(b, `"}}`...)
	o.body = b

	request = append(request, o.head...)
	request = append(request, key.String()...)
	request = append(request, "\r\nContent-Length: "...)
	request = strconv.AppendInt(request, int64(len(b)), 10)
	request = append(request, "\r\n\r\n"...)
	return append(request, b...), nil
}

// number adds a number from the given one on, of so many.
func (o *order) number(b []byte, from, many int) []byte {
	return strconv.AppendInt(b, int64(from+o.random.IntN(many)), 10)
}
