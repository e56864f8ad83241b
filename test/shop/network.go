package shop

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// Network is a wire that can be cut, between a server and its database or between a client and a server.
type Network struct {
	Address string
	Up      Direction // what the client sends
	Down    Direction // what it gets
	proxy   *toxiproxy.Proxy
}

// Direction is one of the wire's two.
type Direction struct{ *direction }

type direction struct {
	mode atomic.Int32
	cuts atomic.Int32
}

const (
	passing int32 = iota
	cutOnce
	cutAlways
	silenceOnce
)

// CutNext lets the next bytes of this direction, on whatever connection, get lost and their connection with them.
func (d Direction) CutNext() { d.mode.Store(cutOnce) }

// Cut does so to all bytes from now on.
func (d Direction) Cut() { d.mode.Store(cutAlways) }

// SilenceNext lets the next connection to send something go silent in this direction, without an end.
func (d Direction) SilenceNext() { d.mode.Store(silenceOnce) }

// Mend ends Cut.
func (d Direction) Mend() { d.mode.Store(passing) }

// Cuts counts the connections that were lost.
func (d Direction) Cuts() int { return int(d.cuts.Load()) }

// NewNetwork makes a wire to the address.
func NewNetwork(tb testing.TB, to string) *Network {
	tb.Helper()
	registerCut()
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	n := &Network{
		Up: Direction{&direction{}}, Down: Direction{&direction{}},
		proxy: toxiproxy.NewProxy(api, "wire", "127.0.0.1:0", to),
	}
	for stream, d := range map[string]Direction{"upstream": n.Up, "downstream": n.Down} {
		wrapper, err := n.proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"type": "cut", "stream": %q}`, stream)))
		if err != nil {
			tb.Fatal(err)
		}
		wrapper.Toxic.(*cut).direction = d.direction
	}
	if err := n.proxy.Start(); err != nil {
		tb.Fatal(err)
	}
	n.Address = n.proxy.Listen
	tb.Cleanup(n.proxy.Stop)
	return n
}

// Unplug cuts every connection and refuses new ones.
func (n *Network) Unplug() { n.proxy.Stop() }

// Plug lets connections in again.
func (n *Network) Plug(tb testing.TB) {
	tb.Helper()
	if err := n.proxy.Start(); err != nil {
		tb.Fatal(err)
	}
}

var registerCut = sync.OnceFunc(func() { toxics.Register("cut", &cut{}) })

// cut is a toxic that is there from the start, so that it never has to be put into a connection under way.
type cut struct {
	direction *direction
}

func (c *cut) Pipe(stub *toxics.ToxicStub) {
	silent := false
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			if c.direction.mode.CompareAndSwap(cutOnce, passing) || c.direction.mode.Load() == cutAlways {
				c.direction.cuts.Add(1)
				stub.Close()
				return
			}
			if silent = silent || c.direction.mode.CompareAndSwap(silenceOnce, passing); !silent {
				stub.Output <- chunk
			}
		}
	}
}
