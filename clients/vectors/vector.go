package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed vectors.json
var vectorsFile []byte

// Vector is one situation: what the network does, what the client is asked to do, and what must come of it. The README
// describes each member.
type Vector struct {
	Name   string   `json:"name"`
	Case   int      `json:"case,omitempty"` // of the list of faults that other systems had
	Why    string   `json:"why"`
	Nobody bool     `json:"nobody,omitempty"` // nobody listens at the base URL
	Proxy  []Action `json:"proxy"`
	Calls  []Call   `json:"calls"`
	Expect Expect   `json:"expect"`
}

// Action is what the proxy does to one request; past the last one every request passes.
type Action struct {
	Do     string  `json:"do"`
	Server bool    `json:"server,omitempty"` // of answer and hang: the server has done it all the same
	Answer *Answer `json:"answer,omitempty"`
}

// The proxy's ways.
const (
	pass        = "pass"         // to the server and back
	refuse      = "refuse"       // cut before the server gets it
	dropAnswer  = "drop_answer"  // cut after the server did it
	cutAnswer   = "cut_answer"   // cut amid the body of the server's answer
	garbage     = "garbage"      // bytes that are no HTTP, after the server did it
	hang        = "hang"         // no answer until the client hangs up
	twiceFirst  = "twice_first"  // to the server twice; back comes the first answer
	twiceSecond = "twice_second" // to the server twice; back comes the second answer
	late        = "late"         // cut, and delivered after the next request was
	answer      = "answer"       // the proxy's own answer
)

var actions = []string{pass, refuse, dropAnswer, cutAnswer, garbage, hang, twiceFirst, twiceSecond, late, answer}

// Answer is the proxy's own. One of Problem, Body and HTMLLines says what is in it.
type Answer struct {
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers,omitempty"`
	Problem   map[string]any    `json:"problem,omitempty"` // code, retryable and key_action; the rest is added
	Body      json.RawMessage   `json:"body,omitempty"`
	HTMLLines int               `json:"html_lines,omitempty"`
}

// Call is one thing that the client is asked for. Calls come one after the other.
type Call struct {
	Intent     string          `json:"intent"`              // the same name, the same key
	Operation  string          `json:"operation,omitempty"` // createOrder unless it says otherwise
	Body       json.RawMessage `json:"body,omitempty"`
	OrderOf    string          `json:"order_of,omitempty"`   // of cancelOrder: the intent whose order it is about
	Credential string          `json:"credential,omitempty"` // shop unless it says otherwise
	Reload     bool            `json:"reload,omitempty"`     // everything is forgotten but what the client had stored
	Wait       bool            `json:"wait,omitempty"`       // and then for the end of the task that was accepted

	MaxSends      int `json:"max_sends,omitempty"`
	DeadlineMS    int `json:"deadline_ms,omitempty"`
	SendTimeoutMS int `json:"send_timeout_ms,omitempty"`
}

// Expect is what must come of it.
type Expect struct {
	Sends   Range    `json:"sends"`  // requests that came to the proxy
	Keys    Range    `json:"keys"`   // different Idempotency-Keys among them
	Bodies  Range    `json:"bodies"` // different bodies among them, by the byte
	Orders  int      `json:"orders"` // in the server
	Results []Result `json:"results"`
	Pauses  []Pause  `json:"pauses,omitempty"` // in order; where there are any, all of them
}

// Result is what a call came to. As an expectation its Kind may be several, parted by "|".
type Result struct {
	Kind     string `json:"kind"`
	Code     string `json:"code,omitempty"`
	Replayed bool   `json:"replayed,omitempty"`
	Task     string `json:"task,omitempty"`     // the state in which the task that was waited for has ended
	OrderID  string `json:"order_id,omitempty"` // never expected: as many different ones as orders, at most
}

var kinds = []string{"created", "replayed", "accepted", "rejected", "unknown", "local_error"}

// Pause is what a client waited, or would have, between two sends.
type Pause struct {
	AtLeastMS int `json:"at_least_ms"`
}

// Range is a number, or the least and the most of it as an array.
type Range struct{ Least, Most int }

// UnmarshalJSON takes both forms.
func (r *Range) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &r.Least); err == nil {
		r.Most = r.Least
		return nil
	}
	var both [2]int
	err := json.Unmarshal(text, &both)
	r.Least, r.Most = both[0], both[1]
	return err
}

// MarshalJSON gives the form that it was read in.
func (r Range) MarshalJSON() ([]byte, error) {
	if r.Least == r.Most {
		return json.Marshal(r.Least)
	}
	return json.Marshal([]int{r.Least, r.Most})
}

func (r Range) holds(n int) bool { return r.Least <= n && n <= r.Most }

func (r Range) String() string {
	if r.Least == r.Most {
		return strconv.Itoa(r.Least)
	}
	return fmt.Sprintf("%d to %d", r.Least, r.Most)
}

func readVectors() ([]Vector, error) {
	var file struct{ Vectors []Vector }
	if err := strictly(vectorsFile, &file); err != nil {
		return nil, fmt.Errorf("vectors.json: %w", err)
	}
	seen := map[string]bool{}
	for _, v := range file.Vectors {
		if err := v.check(); err != nil {
			return nil, fmt.Errorf("vectors.json: %s: %w", v.Name, err)
		}
		if seen[v.Name] {
			return nil, fmt.Errorf("vectors.json: %s is there twice", v.Name)
		}
		seen[v.Name] = true
	}
	return file.Vectors, nil
}

// strictly refuses members that nothing reads: a misspelt expectation would hold whatever happens.
func strictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func (v Vector) check() error {
	if v.Name == "" || v.Why == "" || len(v.Calls) == 0 {
		return errors.New("it needs a name, a why and calls")
	}
	if len(v.Expect.Results) != len(v.Calls) {
		return errors.New("there must be as many results as calls")
	}
	for _, a := range v.Proxy {
		if !slices.Contains(actions, a.Do) || (a.Do == answer) != (a.Answer != nil) {
			return fmt.Errorf("the proxy cannot %q, or not so", a.Do)
		}
	}
	for _, r := range v.Expect.Results {
		for kind := range strings.SplitSeq(r.Kind, "|") {
			if !slices.Contains(kinds, kind) {
				return fmt.Errorf("there is no kind of result %q", kind)
			}
		}
	}
	return nil
}

var dateIn = regexp.MustCompile(`\{\{date\+(\d+)s\}\}`)

// expand fills in what differs from run to run: {{session}}, which keeps checkouts apart, and {{date+120s}}, an
// HTTP-date so far from now.
func expand(text, session string, now time.Time) string {
	text = strings.ReplaceAll(text, "{{session}}", session)
	return dateIn.ReplaceAllStringFunc(text, func(found string) string {
		seconds, _ := strconv.Atoi(dateIn.FindStringSubmatch(found)[1]) // digits, as the pattern says
		return now.Add(time.Duration(seconds) * time.Second).UTC().Format(http.TimeFormat)
	})
}

// forSession is the vector with the session's own values in it.
func (v Vector) forSession(session string, now time.Time) (Vector, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return v, err
	}
	var own Vector
	return own, json.Unmarshal([]byte(expand(string(text), session, now)), &own)
}
