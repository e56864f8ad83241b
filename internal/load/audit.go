package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Audit is what can be told from outside once the load is over.
type Audit struct {
	Orders   int      `json:"orders"`             // that were answered for with an id
	Sampled  int      `json:"sampled"`            // of which so many were asked for again, and read
	Wrong    int64    `json:"wrong"`              // orders with another's id, or that are not there as they were answered
	Examples []string `json:"examples,omitempty"` // of what is wrong
	Unread   string   `json:"unread,omitempty"`   // why the sample could not be read
}

// idOf finds an order's id in the answer that holds it.
func idOf(body []byte) (uuid.UUID, error) {
	const member = `"id":"`
	at := bytes.Index(body, []byte(member))
	if at < 0 || len(body) < at+len(member)+36 {
		return uuid.Nil, fmt.Errorf("an order without an id: %.500s", body)
	}
	return uuid.ParseBytes(body[at+len(member) : at+len(member)+36])
}

func (w *worker) identify(body []byte) error {
	id, err := idOf(body)
	if err == nil {
		w.ids = append(w.ids, id)
	}
	return err
}

// Audit looks for orders that two keys share, repeats a sample of the latest requests, and reads their orders.
func (c *Crew) Audit(ctx context.Context, sample int) (Audit, error) {
	var ids []uuid.UUID
	var kept []exchange
	for _, w := range c.workers {
		w.seen = sight{}
		ids = append(ids, w.ids...)
		kept = append(kept, w.kept...)
	}
	a := Audit{Orders: len(ids)}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	first := c.workers[0]
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			first.seen.complain(fmt.Errorf("two keys have one order, %s", ids[i]))
		}
	}
	rand.Shuffle(len(kept), func(i, j int) { kept[i], kept[j] = kept[j], kept[i] }) //nolint:gosec // a sample
	kept = kept[:min(sample, len(kept))]
	err := first.conn.until(time.Now().Add(grace + time.Duration(len(kept))*time.Second))
	for i := 0; i < len(kept) && err == nil; i++ {
		err = first.check(ctx, kept[i])
		if refused := (*refusedError)(nil); errors.As(err, &refused) {
			a.Unread, err = refused.Error(), nil
			break
		}
		a.Sampled++
	}
	a.Wrong, a.Examples = first.seen.wrong, first.seen.examples
	return a, err
}

// refusedError says that the credential may not read orders.
type refusedError struct{ code string }

func (e *refusedError) Error() string { return "the key may not read orders: " + e.code }

// check repeats one request and reads its order.
func (w *worker) check(ctx context.Context, e exchange) error {
	again := want{what: "a repeated order", status: 201, replayed: true, body: e.body}
	if _, err := w.send(ctx, e.request, again); err != nil {
		return err
	}
	id, err := idOf(e.body)
	if err != nil {
		w.seen.complain(err)
		return nil
	}
	a, err := w.ask(ctx, w.crew.job.Target.get("/orders/"+id.String()))
	if err != nil {
		return fmt.Errorf("read order %s: %w", id, err)
	}
	if a.status == 401 || a.status == 403 {
		return &refusedError{a.code()}
	}
	// Its status and version may be others by now; who ordered what for how much stays.
	type order struct {
		ID         uuid.UUID `json:"id"`
		CheckoutID string    `json:"checkout_id"`
		CustomerID string    `json:"customer_id"`
		Total      int64     `json:"total_minor"`
	}
	var answered, read order
	if json.Unmarshal(e.body, &answered) != nil || a.status != 200 || json.Unmarshal(a.body, &read) != nil || answered != read {
		w.seen.complain(fmt.Errorf("order %s was answered as %.500s and is read with status %d as %.500s", id, e.body, a.status, a.body))
	}
	return nil
}
