package outbox

import (
	"context"
	"time"
)

// Small lets the dispatcher's batches have at most n events.
func (d *Dispatcher) Small(n int32) { d.most, d.batch = n, n }

// Sleepy lets it look by itself so seldom that only a wake-up is the reason where it is in time.
func (d *Dispatcher) Sleepy() { d.poll = time.Hour }

// Round dispatches one batch.
func (d *Dispatcher) Round(ctx context.Context) (more bool, err error) { return d.round(ctx) }
