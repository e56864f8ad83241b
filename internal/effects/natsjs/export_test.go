package natsjs

import (
	"context"

	"github.com/nats-io/nats.go"
)

// Connected waits for the connection.
func (p *Publisher) Connected(ctx context.Context) error {
	change := p.conn.StatusChanged(nats.CONNECTED)
	if p.conn.IsConnected() {
		return nil
	}
	select {
	case <-change:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
