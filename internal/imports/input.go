package imports

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"regexp"

	"orderonce/internal/fault"
	"orderonce/internal/orders"
)

const (
	// chunkRows is how many orders one transaction of the work places at most.
	chunkRows = 100
	// chunkBytes bounds a chunk of large orders, before it is compressed.
	chunkBytes = 512 << 10
)

// Input is what an import was given, in the form in which it is kept: in chunks, compressed, so that thousands of orders
// take little memory while they come in. Used by one goroutine.
type Input struct {
	ReserveInventory bool

	rows   int32
	chunks []chunk
	open   openChunk
}

type chunk struct {
	firstRow int32
	input    []byte
}

// openChunk is the one that is being filled.
type openChunk struct {
	firstRow    int32
	rows, bytes int
	out         bytes.Buffer
	flate       *flate.Writer
}

// entry is one order as it is kept: what was asked for, or why it cannot be.
type entry struct {
	ClientOrderID     string            `json:"client_order_id,omitempty"`
	CheckoutID        *string           `json:"checkout_id,omitempty"`
	CustomerID        string            `json:"customer_id,omitempty"`
	Currency          string            `json:"currency,omitempty"`
	Items             []orders.Item     `json:"items,omitempty"`
	ShippingAddressID string            `json:"shipping_address_id,omitempty"`
	CouponCode        *string           `json:"coupon_code,omitempty"`
	Metadata          map[string]string `json:"metadata,omitempty"`
	Faults            []fault.Field     `json:"faults,omitempty"`
}

// Add takes in the next order, a decoded document that keeps to the contract, or one that does not and its faults.
func (in *Input) Add(order any, faults []fault.Field) error {
	kept := order
	if len(faults) > 0 {
		kept = entry{ClientOrderID: nameOf(order), Faults: faults}
	}
	line, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("encode an order: %w", err)
	}
	c := &in.open
	if c.flate == nil {
		if c.flate, err = flate.NewWriter(&c.out, flate.BestSpeed); err != nil {
			return fmt.Errorf("compress orders: %w", err)
		}
	}
	if _, err := c.flate.Write(line); err != nil {
		return fmt.Errorf("compress orders: %w", err)
	}
	c.rows++
	c.bytes += len(line)
	in.rows++
	if c.rows == chunkRows || c.bytes >= chunkBytes {
		return in.cut()
	}
	return nil
}

// End closes the last chunk. Nothing is added behind it.
func (in *Input) End() error {
	if in.open.rows == 0 {
		return nil
	}
	return in.cut()
}

func (in *Input) cut() error {
	c := &in.open
	if err := c.flate.Close(); err != nil {
		return fmt.Errorf("compress orders: %w", err)
	}
	in.chunks = append(in.chunks, chunk{c.firstRow, bytes.Clone(c.out.Bytes())})
	c.out.Reset()
	c.flate.Reset(&c.out)
	c.firstRow, c.rows, c.bytes = in.rows, 0, 0
	return nil
}

// unpack is the orders of a chunk.
func unpack(input []byte) (entries []entry, err error) {
	in := json.NewDecoder(flate.NewReader(bytes.NewReader(input)))
	for {
		var e entry
		if err := in.Decode(&e); err == io.EOF {
			return entries, nil
		} else if err != nil {
			return nil, fmt.Errorf("unpack a chunk: %w", err)
		}
		entries = append(entries, e)
	}
}

// nameForm is that of the contract's ClientId.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._~:-]{1,64}$`)

// nameOf is the client's name for an order that breaks a rule, where it has one.
func nameOf(order any) string {
	members, _ := order.(map[string]any)
	name, _ := members["client_order_id"].(string)
	if !nameForm.MatchString(name) {
		return ""
	}
	return name
}
