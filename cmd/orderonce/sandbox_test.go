package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orderonce/cmd/orderonce/orderoncetest"
)

// played is a running `orderonce sandbox`.
type played struct {
	*orderoncetest.Process
	*orderoncetest.Client
}

func startSandbox(t *testing.T, data string, args ...string) played {
	t.Helper()
	process, ready := orderoncetest.StartServer(t, orderoncetest.Command{
		Binary: orderoncetest.Binary(t), Args: append([]string{"sandbox", "--data=" + data}, args...),
	})
	if ready.SandboxURL == "" || ready.PIDs["sandbox"] != process.PID() {
		t.Fatalf("the ready-file says %+v", ready)
	}
	return played{process, orderoncetest.NewClient(ready.SandboxURL, "")}
}

func (p played) authorize(t *testing.T, key string) (orderoncetest.Answer, error) {
	t.Helper()
	return p.Do(t.Context(), http.MethodPost, "/payment/authorizations", `{"order_id":"order-1","amount_minor":2500}`,
		http.Header{"Idempotency-Key": {key}})
}

// executions are those of all keys.
func (p played) executions(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	// The whole of it: the test makes fewer than a page holds.
	a, err := p.Do(t.Context(), http.MethodGet, "/executions", "", nil)
	must(t, err)
	var page struct {
		Executions []struct {
			Key        string `json:"idempotency_key"`
			Executions int
		}
		Next string
	}
	must(t, json.Unmarshal([]byte(a.Body), &page))
	if page.Next != "" {
		t.Fatal("there is more than a page")
	}
	for _, o := range page.Executions {
		counts[o.Key] = o.Executions
	}
	return counts
}

// What was answered has been done and stays done, and a key that was executed stays so, through kill -9 under load; what
// the killed process's callers send again is not done twice. The clock stays where it was moved to.
func TestSandboxKilled(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := startSandbox(t, data)
	if a, err := p.Do(t.Context(), http.MethodPost, "/clock", `{"advance":"48h"}`, nil); err != nil || a.Status != http.StatusOK {
		t.Fatal(a, err)
	}
	var answered sync.Map
	var sent atomic.Int64
	var all sync.WaitGroup
	keys := make([]string, 80)
	for i := range keys {
		keys[i] = orderoncetest.NewKey()
	}
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < len(keys); i += 8 {
				if a, err := p.authorize(t, keys[i]); err == nil && a.Status == http.StatusCreated {
					answered.Store(keys[i], true)
				}
				if sent.Add(1) == 40 {
					p.Kill()
				}
			}
		})
	}
	all.Wait()

	again := startSandbox(t, data)
	counts, executed := again.executions(t), 0
	for key, n := range counts {
		if n > 1 {
			t.Errorf("key %s was executed %d times", key, n)
		}
		executed += n
	}
	answered.Range(func(key, _ any) bool {
		if counts[key.(string)] != 1 {
			t.Errorf("key %s was answered, and executed %d times", key, counts[key.(string)])
		}
		return true
	})
	if executed == 0 || executed == len(keys) {
		t.Errorf("%d of %d were executed before the kill", executed, len(keys))
	}
	for _, key := range keys {
		if a, err := again.authorize(t, key); err != nil || a.Status != http.StatusCreated {
			t.Errorf("key %s: %v %v", key, a, err)
		}
	}
	counts = again.executions(t)
	for _, key := range keys {
		if counts[key] != 1 {
			t.Errorf("key %s was executed %d times in the end", key, counts[key])
		}
	}
	a, err := again.Do(t.Context(), http.MethodGet, "/", "", nil)
	must(t, err)
	var overview struct{ Clock time.Time }
	must(t, json.Unmarshal([]byte(a.Body), &overview))
	if ahead := time.Until(overview.Clock); ahead < 47*time.Hour {
		t.Errorf("the clock is %s ahead", ahead)
	}
}

// A sandbox begins as its flags say, and says what is wrong with them.
func TestSandboxFlags(t *testing.T) {
	t.Parallel()
	p := startSandbox(t, t.TempDir(), "--payment=none", "--inventory=queryable", "--retention=2h", "--decline-over=100", "--fsync=false")
	a, err := p.Do(t.Context(), http.MethodGet, "/", "", nil)
	must(t, err)
	for _, want := range []string{
		`"payment":{"idempotent":false,"retention":"2h0m0s","queryable":false,"decline_over":100,`,
		`"inventory":{"idempotent":false,"retention":"2h0m0s","queryable":true,`,
		`"notification":{"idempotent":true,"retention":"2h0m0s","queryable":true,`,
	} {
		if !strings.Contains(a.Body, want) {
			t.Errorf("%s is not in %s", want, a.Body)
		}
	}
	for _, wrong := range []string{"--payment=idempotant", "--faults=/nowhere", "--retention=0s", "--decline-over=-1"} {
		status, _, stderr := orderoncetest.Run(t, orderoncetest.Command{
			Binary: orderoncetest.Binary(t), Args: []string{"sandbox", "--data=" + t.TempDir(), "--listen=127.0.0.1:0", wrong},
		})
		if status == 0 || stderr == "" {
			t.Errorf("%s: status %d: %s", wrong, status, stderr)
		}
	}
}

// The services of dev are there, with a store that outlives it.
func TestDevPlaysTheServices(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	key := orderoncetest.NewKey()
	for round := range 2 {
		d := startDev(t, data)
		p := played{d.Process, orderoncetest.NewClient(d.SandboxURL, "")}
		a, err := p.authorize(t, key)
		if err != nil || a.Status != http.StatusCreated || p.executions(t)[key] != 1 || !strings.Contains(d.Stdout.String(), d.SandboxURL) {
			t.Errorf("round %d: %v %v", round, a, err)
		}
		d.Kill()
	}
}
