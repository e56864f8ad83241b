package load

import (
	"crypto/md5" //nolint:gosec // an id that PostgreSQL can count as well, and no secret
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/google/uuid"
)

// order writes requests that place an order of two items. Bodies differ by a fifth in length.
type order struct {
	head   string
	source string
	random *rand.Rand
	body   []byte
}

// CustomerPrefix and five digits are a customer.
const CustomerPrefix = "customer-0198d0a6-0000-7000-8000-"

func newOrder(j Job, seed uint64) *order {
	source := j.Source
	if source == "" {
		source = "web"
	}
	return &order{
		head:   j.Target.head("POST", "/orders") + "Content-Type: application/json\r\nIdempotency-Key: ",
		source: source,
		random: rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // an order like many, and no secret
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
	o.body = o.rest(append(b, `",`...), o.random.IntN(len(note)+1))
	return o.whole(request, key, o.body), nil
}

// rest adds all but the checkout, with so much of the note.
func (o *order) rest(b []byte, noted int) []byte {
	b = append(b, `"customer_id":"`+CustomerPrefix...)
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
	b = append(b, `","metadata":{"source":"`...)
	b = append(b, o.source...)
	b = append(b, `","note":"`...)
	b = append(b, note[:noted]...)
	return append(b, `"}}`...)
}

// whole adds the request of this key and body.
func (o *order) whole(request []byte, key uuid.UUID, body []byte) []byte {
	request = append(request, o.head...)
	request = append(request, key.String()...)
	request = append(request, "\r\nContent-Length: "...)
	request = strconv.AppendInt(request, int64(len(body)), 10)
	request = append(request, "\r\n\r\n"...)
	return append(request, body...)
}

// number adds a number from the given one on, of so many.
func (o *order) number(b []byte, from, many int) []byte {
	return strconv.AppendInt(b, int64(from+o.random.IntN(many)), 10)
}

// PlainBody is an order of middling length without a checkout: any number of keys may place it.
func PlainBody() []byte { return newOrder(Job{}, 0).rest([]byte("{"), len(note)/2) }

// IDsPerMillisecond is how many ids of one kind share their time.
const IDsPerMillisecond = 16

// ID is the i-th of a row of UUIDv7 that PostgreSQL can count as well, so that millions of rows can be made there and be
// known here: its time is Begin and one more millisecond for each 16, and the rest is the MD5 of kind and i in decimal.
//
//	lpad(to_hex(begin + i / 16), 12, '0') || '7' || substr(md5(kind || i), 1, 3) || '8' || substr(md5(kind || i), 4, 15)
func ID(kind string, begin int64, i int) uuid.UUID {
	var digits [32]byte
	sum := md5.Sum(strconv.AppendInt([]byte(kind), int64(i), 10)) //nolint:gosec // no secret
	hex.Encode(digits[:], sum[:])
	copy(digits[17:], digits[3:18])
	copy(digits[13:16], digits[:3])
	digits[12], digits[16] = '7', '8'
	at := begin + int64(i/IDsPerMillisecond)
	for place := 11; place >= 0; place-- {
		digits[place] = "0123456789abcdef"[at&15]
		at >>= 4
	}
	id, _ := uuid.ParseBytes(digits[:]) // they are 32 digits
	return id
}
