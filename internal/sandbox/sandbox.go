// Package sandbox plays other people's services over real HTTP: payment, inventory and notification, with a durable
// memory of their own, so that what happens between them and an order service can be tried, broken and counted. It
// counts how often it has really executed each key, and that count is what tests believe. It shares nothing with the
// service that calls it, and knows it only by what it sends.
//
// It is for tests and for a developer's machine: whoever reaches it may set faults and move its clock.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Config is how a sandbox begins.
type Config struct {
	Dir string // of its store
	// NoSync leaves what was done in the kernel's hands: it survives the process, but not the machine.
	NoSync   bool
	Services map[string]Settings // by name; one that is not named is as Default says
	Faults   []Fault
	// Hold bounds how long a request that is never answered is held before its connection is cut.
	Hold time.Duration
	Log  *slog.Logger
}

// Settings are what a service can do, and what it refuses. They can be changed while it runs.
type Settings struct {
	// Idempotent executes a key once, for as long as it remembers it.
	Idempotent bool `json:"idempotent"`
	// Retention is how long a key is remembered from its outcome.
	Retention Duration `json:"retention"`
	// Queryable tells what became of a key, for ever, and lists what was executed.
	Queryable bool `json:"queryable"`
	// DeclineOver is the amount in minor units above which a payment is declined; 0 declines none.
	DeclineOver int64 `json:"decline_over,omitempty"`
}

// Default are the settings of a service that was not told otherwise.
func Default() Settings {
	return Settings{Idempotent: true, Queryable: true, Retention: Duration(24 * time.Hour)}
}

// defaultHold is longer than any caller should wait.
const defaultHold = time.Minute

// Sandbox is the three services on one store.
type Sandbox struct {
	log    *slog.Logger
	store  *store
	faults faults
	hold   time.Duration
	routes *http.ServeMux
	ended  chan struct{} // closed by Close: no request is held any longer
	end    sync.Once

	mu       sync.Mutex
	settings map[string]Settings
	underWay map[opKey]int // requests that have come and are not answered, by service and key
}

// Open opens the store and sets the services up as they were asked for.
func Open(c Config) (*Sandbox, error) {
	s := &Sandbox{
		log: c.Log, hold: c.Hold, ended: make(chan struct{}), settings: map[string]Settings{}, underWay: map[opKey]int{},
	}
	if s.hold == 0 {
		s.hold = defaultHold
	}
	for name := range services {
		s.settings[name] = Default()
	}
	for name, settings := range c.Services {
		if err := s.set(name, settings); err != nil {
			return nil, err
		}
	}
	for _, f := range c.Faults {
		if _, err := s.faults.add(f); err != nil {
			return nil, err
		}
	}
	var err error
	if s.store, err = openStore(c.Dir, c.NoSync); err != nil {
		return nil, fmt.Errorf("open the sandbox's store: %w", err)
	}
	s.route()
	return s, nil
}

// Release cuts the requests that are held and will never be answered, so that the HTTP server in front can end.
func (s *Sandbox) Release() { s.end.Do(func() { close(s.ended) }) }

// Close closes the store, once nobody sends requests any more.
func (s *Sandbox) Close() error { return s.store.close() }

// ServeHTTP answers as the services and as their operator.
func (s *Sandbox) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.routes.ServeHTTP(w, r) }

func (s *Sandbox) route() {
	s.routes = http.NewServeMux()
	for name, service := range services {
		for path, operation := range service.paths {
			s.routes.HandleFunc("POST /"+name+"/"+path, func(w http.ResponseWriter, r *http.Request) {
				s.work(w, r, name, operation)
			})
		}
		s.routes.HandleFunc("GET /"+name+"/operations/{key}", func(w http.ResponseWriter, r *http.Request) {
			s.tell(w, r, name)
		})
		s.routes.HandleFunc("GET /"+name+"/operations", func(w http.ResponseWriter, r *http.Request) {
			s.listOperations(w, r, name)
		})
	}
	s.routes.HandleFunc("GET /{$}", s.overview)
	s.routes.HandleFunc("GET /executions", s.executions)
	s.routes.HandleFunc("GET /faults", s.listFaults)
	s.routes.HandleFunc("POST /faults", s.addFaults)
	s.routes.HandleFunc("DELETE /faults", s.clearFaults)
	s.routes.HandleFunc("PUT /services/{service}", s.changeService)
	s.routes.HandleFunc("POST /clock", s.moveClock)
}

// set checks and takes a service's settings.
func (s *Sandbox) set(name string, settings Settings) error {
	if _, ok := services[name]; !ok {
		return fmt.Errorf("there is no service %q", name)
	}
	if settings.Retention <= 0 {
		return errors.New("retention: must be longer than nothing")
	}
	if settings.DeclineOver < 0 {
		return errors.New("decline_over: must not be negative")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings[name] = settings
	return nil
}

func (s *Sandbox) settingsOf(name string) Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings[name]
}

// begin notes that a request is under way; what it returns notes its end.
func (s *Sandbox) begin(k opKey) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay[k]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.underWay[k]--; s.underWay[k] == 0 {
			delete(s.underWay, k)
		}
	}
}

func (s *Sandbox) isUnderWay(k opKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.underWay[k] > 0
}

// wait waits for d, for the end of ctx, or for that of the sandbox.
func (s *Sandbox) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-s.ended:
	}
}
