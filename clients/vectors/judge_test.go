package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// judged is a running vectors command.
type judged struct {
	t       *testing.T
	control string
}

func setup(t *testing.T) judged {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, backend{}, write)
		ended <- err
		_ = write.CloseWithError(err)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(read).ReadBytes('\n')
	var ready struct {
		ControlURL string `json:"control_url"`
	}
	if err != nil || json.Unmarshal(line, &ready) != nil {
		t.Fatal(err, string(line))
	}
	return judged{t, ready.ControlURL}
}

// send posts, and reads the answer if there is one.
func (j judged) send(address, key, credential string, body []byte, into any) (status int, replayed bool) {
	j.t.Helper()
	r, err := http.NewRequestWithContext(j.t.Context(), http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		j.t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Idempotency-Key": {key}, "Authorization": {"Bearer " + credential},
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		return 0, false
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return 0, false
	}
	return response.StatusCode, response.Header.Get("Idempotency-Replayed") == "true"
}

// The judge has to find fault with the clients that the world is full of: one that takes a new key for each try, one
// that says "failed" when it hears nothing, one that sends other bytes, one that never gives up, one that gives up.
func TestJudgeFindsWrongClients(t *testing.T) {
	t.Parallel()
	j := setup(t)
	type session struct {
		Session     string
		BaseURL     string `json:"base_url"`
		Credentials keys
		Vector      Vector
	}
	for _, c := range []struct {
		what, vector string
		client       func(s session, key func() string, body []byte, place func(key string, body []byte) Result) []Result
		complaint    string // none where the client is right
	}{
		{"the right client", "answer-lost", func(_ session, key func() string, body []byte, place func(string, []byte) Result) []Result {
			k := key()
			place(k, body)
			return []Result{place(k, body)}
		}, ""},
		{"a new key for each try", "answer-lost", func(_ session, key func() string, body []byte, place func(string, []byte) Result) []Result {
			place(key(), body)
			return []Result{place(key(), body)}
		}, "different keys: 2"},
		{"no answer is failed", "unknown-then-found", func(_ session, key func() string, body []byte, place func(string, []byte) Result) []Result {
			k := key()
			for range 3 {
				place(k, body)
			}
			return []Result{{Kind: "rejected"}, place(k, body)}
		}, "result 0: rejected"},
		{"other bytes", "answer-lost", func(_ session, key func() string, body []byte, place func(string, []byte) Result) []Result {
			k := key()
			place(k, body)
			return []Result{place(k, append([]byte(" "), body...))}
		}, "different bodies: 2"},
		{"no end", "key-reused", func(_ session, key func() string, body []byte, place func(string, []byte) Result) []Result {
			k := key()
			place(k, body)
			return []Result{place(k, body)}
		}, "sends: 2, want 1"},
		{"no patience", "refused-twice", func(_ session, key func() string, body []byte, place func(string, []byte) Result) []Result {
			place(key(), body)
			return []Result{{Kind: "unknown"}}
		}, "sends: 1, want 3"},
		{"no result", "first-send", func(session, func() string, []byte, func(string, []byte) Result) []Result { return nil }, "results: 0, want 1"},
	} {
		var s session
		j.send(j.control+"/sessions/"+c.vector, "", "", nil, &s)
		place := func(key string, body []byte) Result {
			var order struct{ ID, Code string }
			status, replayed := j.send(s.BaseURL+"/orders", key, s.Credentials.Shop, body, &order)
			kind := map[int]string{0: "unknown", http.StatusCreated: "created"}[status]
			if replayed {
				kind = "replayed"
			}
			return Result{Kind: kind, Code: order.Code, Replayed: replayed, OrderID: order.ID}
		}
		key := func() string { return uuid.Must(uuid.NewV7()).String() }
		results := c.client(s, key, s.Vector.Calls[0].Body, place)
		text, err := json.Marshal(Outcome{Results: results})
		if err != nil {
			t.Fatal(err)
		}
		var v Verdict
		if status, _ := j.send(j.control+"/verdicts/"+s.Session, "", "", text, &v); status != http.StatusOK {
			t.Fatalf("%s: no verdict: %d", c.what, status)
		}
		if v.Passed != (c.complaint == "") || !strings.Contains(strings.Join(v.Failures, "\n"), c.complaint) {
			t.Errorf("%s: %q, want %q", c.what, v.Failures, c.complaint)
		}
	}
}

// A member that nothing reads would be an expectation that always holds.
func TestVectorsAreReadStrictly(t *testing.T) {
	t.Parallel()
	vectors, err := readVectors()
	if err != nil || len(vectors) == 0 {
		t.Fatal(len(vectors), err)
	}
	var v struct{ Vectors []Vector }
	if err := strictly([]byte(`{"vectors": [{"name": "x", "expects": {}}]}`), &v); err == nil {
		t.Error("a misspelt member is taken")
	}
	for _, bad := range []Vector{
		{Why: "y", Calls: make([]Call, 1), Expect: Expect{Results: make([]Result, 1)}},
		{Name: "x", Why: "y", Calls: make([]Call, 2), Expect: Expect{Results: []Result{{Kind: "created"}}}},
		{Name: "x", Why: "y", Calls: make([]Call, 1), Expect: Expect{Results: []Result{{Kind: "made"}}}},
		{Name: "x", Why: "y", Calls: make([]Call, 1), Expect: Expect{Results: []Result{{Kind: "created"}}}, Proxy: []Action{{Do: "explode"}}},
	} {
		if bad.check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
