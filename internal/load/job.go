// Package load plays many clients at once and believes no answer. It is the one load generator of the tree: behind
// `orderonce bench`, which measures somebody's own deployment, and behind `make bench`, which measures this one.
//
// It owns the connections, the requests on them, and what became of each. It knows the HTTP contract and nothing
// else of the product, so that it can judge it: no module, no table, no database. Whoever lets it loose places real
// orders, and has to have asked for that.
package load

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Work is what each connection does over and over. It sends its next request when it has its answer.
type Work string

const (
	Place  Work = "place"  // a new order each time, but for Job.Share of the requests, which repeat an earlier one
	Repeat Work = "repeat" // Job.Known orders, placed before the first phase, again and again
	Unseen Work = "unseen" // each of Job.Unseen once, in their order; the phase ends with the last
	Same   Work = "same"   // one order of all connections: its answers are counted, and every 201 must be the same
	Get    Work = "get"    // Job.Path
)

// Job is what a load generator is told.
type Job struct {
	Target      Target
	Connections int
	Work        Work
	Share       float64   // 0 to 1, of Place
	Known       int       // of Repeat
	Unseen      Filled    // of Unseen
	Path        string    // of Get, such as /livez
	Key         uuid.UUID // of Same
	Source      string    // metadata.source of the orders, by which they can be found later
	// Strict ends a phase at the first answer that is not what it should be. Otherwise such answers are counted, and a
	// request without a final answer is sent again under its key, as a client would.
	Strict bool
	// Audit keeps every order's id and the latest exchanges, for Crew.Audit.
	Audit bool
}

// Filled are records that are there although no client has ever sent them: copies of one order without a checkout. The
// i-th key is ID("key", Begin, i) and the i-th order ID("order", Begin, i).
type Filled struct {
	Begin  int64 // milliseconds since 1970
	Count  int
	Body   []byte // of every request
	Answer []byte // to the request whose order was copied
	Order  string // the id in that answer
}

// Target is a server and the credential to show it.
type Target struct {
	Address string // host:port
	Host    string // as in the Host header
	Path    string // before /orders; empty for most
	TLS     bool
	Key     string
}

// ParseTarget reads a base URL such as https://orders.example.org or http://127.0.0.1:8080/shop.
func ParseTarget(base, key string) (Target, error) {
	u, err := url.Parse(base)
	if err != nil {
		return Target{}, fmt.Errorf("read the address of the server: %w", err)
	}
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if port == "" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Target{}, fmt.Errorf("%q is no address of a server: it looks like https://orders.example.org", u.Redacted())
	}
	if u.Port() != "" {
		port = u.Port()
	}
	if strings.ContainsAny(key, "\r\n") {
		return Target{}, errors.New("the API key has a line break in it")
	}
	return Target{
		Address: net.JoinHostPort(u.Hostname(), port), Host: u.Host, Path: strings.TrimSuffix(u.EscapedPath(), "/"),
		TLS: u.Scheme == "https", Key: key,
	}, nil
}

// head begins a request.
func (t Target) head(method, path string) string {
	return method + " " + t.Path + path + " HTTP/1.1\r\nHost: " + t.Host + "\r\nAuthorization: Bearer " + t.Key + "\r\n"
}

// get is a whole request without a body.
func (t Target) get(path string) []byte { return []byte(t.head("GET", path) + "\r\n") }

// grace is how long the last answers of a phase may take, and the connections before the first.
const grace = 20 * time.Second
