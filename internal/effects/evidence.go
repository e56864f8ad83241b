package effects

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// NothingToUndo is the evidence of an effect that was there to undo one which was never executed.
const NothingToUndo = "nothing to undo"

// Entry is one line of an effect's evidence: what a worker found out, or a person.
type Entry struct {
	At      time.Time `json:"at,omitzero"`
	Token   int64     `json:"token"` // of the taking; a person's move is between two
	Owner   string    `json:"owner,omitempty"`
	Verdict Verdict   `json:"verdict,omitempty"`
	Asked   bool      `json:"asked,omitempty"`  // not sent: the destination was asked about the key
	Status  int       `json:"status,omitempty"` // the destination's
	Detail  string    `json:"detail,omitempty"`

	// Of a person alone. Detail is then what they know.
	Actor  string `json:"actor,omitempty"`
	Move   Move   `json:"move,omitempty"`
	Reason string `json:"reason,omitempty"`
	Absent bool   `json:"absent,omitempty"`
}

// Entries are the effect's evidence, oldest first: the first one and the 63 latest.
func (e Effect) Entries() (entries []Entry, err error) {
	if err := json.Unmarshal(e.Evidence, &entries); err != nil {
		return nil, fmt.Errorf("decode the evidence of effect %s: %w", e.ID, err)
	}
	return entries, nil
}

// longestDetail bounds what is kept of a destination's words, in characters.
const longestDetail = 500

var (
	users   = regexp.MustCompile(`(://)[^\s/?#"]*@`)
	queried = regexp.MustCompile(`(://[^\s"?]*)\?[^\s"]*`)
	headers = regexp.MustCompile(`(?i)\b(bearer|basic)\s+\S+`)
)

// clean makes of a destination's words what may be stored and logged: short, of one line, without what an address or a
// header carries of credentials. It is the second wall: a destination leaves them out itself.
func clean(detail string) string {
	detail = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(detail, "?"))
	detail = queried.ReplaceAllString(users.ReplaceAllString(detail, "$1"), "$1")
	detail = headers.ReplaceAllString(detail, "$1 …")
	if runes := []rune(detail); len(runes) > longestDetail {
		detail = string(runes[:longestDetail-1]) + "…"
	}
	return detail
}

// counters are what a worker has done since it began.
type counters struct{ looks, taken, sent, asked, ended, needsHuman, putBack, fenced, unwritten atomic.Int64 }

// Counts are a worker's counters at one moment.
type Counts struct {
	Looks, Taken, Sent, Asked, Ended, NeedsHuman, PutBack int64
	Fenced                                                int64 // outcomes that came after the lease was lost
	Unwritten                                             int64 // outcomes that the database could not be told of
}

// Counts are what the worker has done since it began.
func (w *Worker) Counts() Counts {
	c := &w.counts
	return Counts{
		Looks: c.looks.Load(), Taken: c.taken.Load(), Sent: c.sent.Load(), Asked: c.asked.Load(), Ended: c.ended.Load(), NeedsHuman: c.needsHuman.Load(),
		PutBack: c.putBack.Load(), Fenced: c.fenced.Load(), Unwritten: c.unwritten.Load(),
	}
}
