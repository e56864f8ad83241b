package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Outcome is what a client's test says that it saw.
type Outcome struct {
	Results []Result `json:"results"`   // one for each call
	Pauses  []int64  `json:"pauses_ms"` // each that the client wanted to make, in order
}

// Verdict is what came of a session. It is passed where there are no failures.
type Verdict struct {
	Passed   bool     `json:"passed"`
	Failures []string `json:"failures"`
	Sends    []Send   `json:"sends"`
	Orders   int      `json:"orders"`
}

// judge compares what was seen with what the vector expects.
func (s *session) judge(ctx context.Context, o Outcome) (Verdict, error) {
	orders, err := s.backend.countOrders(ctx, s.id)
	if err != nil {
		return Verdict{}, fmt.Errorf("count the orders: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) > 0 {
		return Verdict{}, errors.Join(s.faults...)
	}
	v := Verdict{Failures: []string{}, Sends: slices.Clone(s.sends), Orders: orders}
	fails := func(format string, args ...any) { v.Failures = append(v.Failures, fmt.Sprintf(format, args...)) }
	want, keys, bodies := s.vector.Expect, map[string]bool{}, map[string]bool{}
	for _, sent := range s.sends {
		keys[sent.Key], bodies[string(sent.body)] = true, true
	}
	for _, count := range []struct {
		what string
		want Range
		got  int
	}{
		{"sends", want.Sends, len(s.sends)},
		{"different keys", want.Keys, len(keys)},
		{"different bodies", want.Bodies, len(bodies)},
		{"orders in the server", Range{want.Orders, want.Orders}, orders},
	} {
		if !count.want.holds(count.got) {
			fails("%s: %d, want %s", count.what, count.got, count.want)
		}
	}
	judgeResults(want, o.Results, fails)
	if want.Pauses != nil {
		if len(o.Pauses) != len(want.Pauses) {
			fails("pauses: %v ms, want %d of them", o.Pauses, len(want.Pauses))
		}
		for i, pause := range want.Pauses[:min(len(want.Pauses), len(o.Pauses))] {
			if o.Pauses[i] < int64(pause.AtLeastMS) {
				fails("pause %d: %d ms, want %d at least", i, o.Pauses[i], pause.AtLeastMS)
			}
		}
	}
	v.Passed = len(v.Failures) == 0
	return v, nil
}

func judgeResults(want Expect, got []Result, fails func(string, ...any)) {
	if len(got) != len(want.Results) {
		fails("results: %d, want %d", len(got), len(want.Results))
		return
	}
	ids := map[string]bool{}
	for i, r := range got {
		w := want.Results[i]
		if r.OrderID != "" {
			ids[r.OrderID] = true
		}
		local := r.Kind == "local_error"
		if r.Task != w.Task {
			fails("result %d: the task is %q, want %q", i, r.Task, w.Task)
		}
		if !slices.Contains(strings.Split(w.Kind, "|"), r.Kind) || !local && (r.Code != w.Code || r.Replayed != w.Replayed) {
			fails("result %d: %s %s (replayed: %t), want %s %s (replayed: %t)", i, r.Kind, r.Code, r.Replayed, w.Kind, w.Code, w.Replayed)
		}
	}
	if len(ids) > want.Orders {
		fails("results: they name %d different orders, want %d at most", len(ids), want.Orders)
	}
}

// countOrders counts the orders of a session: each says in its metadata whose it is.
func (b backend) countOrders(ctx context.Context, session string) (n int, err error) {
	for token := ""; ; {
		query := url.Values{"page_size": {"100"}}
		if token != "" {
			query.Set("page_token", token)
		}
		var page struct {
			Orders []struct{ Metadata map[string]string }
			Next   string `json:"next_page_token"`
		}
		if err := b.get(ctx, "/orders?"+query.Encode(), &page); err != nil {
			return 0, err
		}
		for _, o := range page.Orders {
			if o.Metadata["session"] == session {
				n++
			}
		}
		if token = page.Next; token == "" {
			return n, nil
		}
	}
}

func (b backend) get(ctx context.Context, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.URL+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+b.Keys.Shop)
	response, err := toServer.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}
