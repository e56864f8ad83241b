package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/postgres/localpg"
	"orderonce/test/shop"
)

var kills = flag.Int("kills", 15, "how often TestRandomKills kills a server")

const (
	rowServers  = "random, under load: kill -9 server"
	rowDatabase = "random, under load: kill -9 PostgreSQL"
	rowBackends = "random, under load: backend terminated"
	rowCuts     = "random, under load: connection to PostgreSQL cut"
)

// TestRandomKills has clients that want one thing each and never give up, and two servers and a PostgreSQL that are
// killed under them. At the end every client has its answer, the same one however often it asked, and the tables hold
// what the answers say.
func TestRandomKills(t *testing.T) {
	t.Parallel()
	database := shop.Killable(t, true)
	s := shop.OpenOn(t, database)
	c := &chaos{
		t: t, shop: s, fleet: shop.NewFleet(t, s, 2, *kills), wire: shop.NewNetwork(t, s.Address(t)), began: time.Now(),
	}
	c.fleet.Through = c.wire.Address
	served, stop := context.WithCancel(t.Context())
	var servers, trouble, clients sync.WaitGroup
	servers.Go(func() { c.fleet.Serve(served) })
	trouble.Go(func() { c.troubleDatabase(database) })
	for range 8 {
		clients.Go(c.wantThings)
	}
	clients.Wait()
	trouble.Wait()
	stop()
	servers.Wait()

	c.judge()
	provoked(t, rowServers, c.fleet.Killed())
	provoked(t, rowDatabase, c.databaseKills)
	provoked(t, rowBackends, c.terminated)
	cuts := c.wire.Up.Cuts() + c.wire.Down.Cuts()
	provoked(t, rowCuts, cuts)
	t.Logf("%d kills of a server, %d of PostgreSQL, %d backends terminated, %d connections cut; "+
		"%d keys, %d tries, %d of them lost, %d refused",
		c.fleet.Killed(), c.databaseKills, c.terminated, cuts, len(c.keys), c.tries.Load(), c.losses.Load(), c.refusals.Load())
	if c.fleet.Killed() < *kills || c.databaseKills == 0 || c.terminated == 0 || cuts == 0 || c.losses.Load() == 0 {
		t.Error("the load went on without trouble")
	}
}

type chaos struct {
	t     *testing.T
	shop  *shop.Shop
	fleet *shop.Fleet
	wire  *shop.Network // between the servers and their database
	began time.Time

	tries, answers, losses, refusals atomic.Int64
	databaseKills                    int
	terminated                       int

	mu   sync.Mutex
	keys []*intent
}

// troubleDatabase ends sessions, cuts the wire to them in either direction, so that a statement or an answer gets lost,
// and now and then kills the whole PostgreSQL: not sooner after its start than its launcher takes for a start that did
// not last, for it would give up. Each trouble waits until somebody has been served since the one before, and each
// death of PostgreSQL until somebody has been answered: or a slow machine would see nothing but starts that fail.
func (c *chaos) troubleDatabase(database *localpg.Server) {
	var started time.Time
	served, answered := int64(-1), int64(-1)
	for c.fleet.GoingOn() {
		orderoncetest.Pause(c.t.Context(), rand.N(50*time.Millisecond))
		if c.tries.Load() == served {
			continue
		}
		served = c.tries.Load()
		if time.Since(started) > 2*time.Second && c.answers.Load() != answered {
			killed := database.PID()
			kill(c.t, killed)
			c.databaseKills++
			orderoncetest.Poll(c.t, "PostgreSQL to be started again", func() bool {
				return database.PID() != 0 && database.PID() != killed
			})
			started, answered = time.Now(), c.answers.Load()
			continue
		}
		if kind := rand.N(8); kind > 0 {
			[]shop.Direction{c.wire.Up, c.wire.Down}[kind%2].CutNext()
			continue
		}
		tag, err := c.shop.Connect(c.t).Exec(c.t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name = 'orderonce' ORDER BY random() LIMIT 2`)
		if err == nil {
			c.terminated += int(tag.RowsAffected())
		}
	}
}

// intent is one thing that a client wants, and what became of it.
type intent struct {
	key, body string
	history   history
}

// wantThings wants one thing after the other. A third of them is sent twice at once, as impatient clients do.
func (c *chaos) wantThings() {
	for c.fleet.GoingOn() {
		in := &intent{key: orderoncetest.NewKey()}
		switch rand.N(4) {
		case 0:
			in.body = order(in.key, "coupon_code", "WELCOME10")
		case 1:
			in.body = order(in.key, "checkout_id", in.key)
		case 2:
			in.body = order(in.key, "coupon_code", "EXPIRED10")
		default:
			in.body = order(in.key)
		}
		c.mu.Lock()
		c.keys = append(c.keys, in)
		c.mu.Unlock()
		var all sync.WaitGroup
		for range 1 + rand.N(3)/2 {
			all.Go(func() { c.insist(in) })
		}
		all.Wait()
	}
}

// insist tries until there is an answer for good.
func (c *chaos) insist(in *intent) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		client := c.fleet.Client()
		if client == nil {
			orderoncetest.Pause(ctx, 10*time.Millisecond)
			continue
		}
		called := time.Since(c.began)
		a, err := client.TryPlace(ctx, in.key, in.body)
		returned := time.Since(c.began)
		if dialled := (*net.OpError)(nil); errors.As(err, &dialled) && dialled.Op == "dial" {
			orderoncetest.Pause(ctx, 10*time.Millisecond)
			continue // nobody heard it
		}
		c.tries.Add(1)
		o := c.classify(a, err)
		in.history.add(called, returned, o)
		if o.answer != "" {
			c.answers.Add(1)
			return
		}
		orderoncetest.Pause(ctx, rand.N(50*time.Millisecond))
	}
	c.t.Errorf("key %s got no answer", in.key)
}

// classify says what an answer promises.
func (c *chaos) classify(a orderoncetest.Answer, err error) outcome {
	switch {
	case err != nil:
	case a.Status == 201, a.Status == 422 && a.Code() == "coupon_expired":
		v := first
		if a.Replayed() {
			v = replayed
		}
		return outcome{v, fmt.Sprint(a.Status, a.Body)}
	case inProgress(a), a.Status == 503 && (a.Code() == "unavailable" || a.Code() == "busy"):
		c.refusals.Add(1)
		return outcome{verdict: refused}
	case a.Status == 503 && a.Code() == "outcome_unknown":
	default:
		c.t.Errorf("no client can make anything of %d %s", a.Status, a.Body)
	}
	c.losses.Add(1)
	return outcome{verdict: lost}
}

// judge holds the tables against the answers, and the answers of each key against each other.
func (c *chaos) judge() {
	created, rejected := 0, 0
	for _, in := range c.keys {
		answers := in.history.distinct()
		if len(answers) != 1 {
			c.t.Errorf("key %s got %d different answers: %q", in.key, len(answers), answers)
			continue
		}
		if answers[0][:3] == "201" {
			created++
		} else {
			rejected++
		}
		if !in.history.possible() {
			c.t.Errorf("no service that keeps its promise gives key %s these answers: %+v", in.key, in.history.ops)
		}
	}
	c.shop.WantAccount(c.t, shop.Balanced(created, rejected))
}
