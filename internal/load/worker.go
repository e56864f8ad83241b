package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Outcomes of a request. An error's outcome is its status and code, such as "503 busy".
const (
	Created  = "created"
	Replayed = "replayed"
	Lost     = "no answer" // nobody knows yet what became of it: it is sent again
)

type worker struct {
	crew    *Crew
	conn    *connection
	order   *order
	request []byte

	keep   int        // how many exchanges to keep
	kept   []exchange // the latest
	oldest int        // of kept, to be replaced next
	ids    []uuid.UUID

	seen sight
}

// exchange is a request with the answer that every repetition must get.
type exchange struct{ request, body []byte }

// sight is what one worker has seen in a phase.
type sight struct {
	took     latencies
	outcomes map[string]int64
	wrong    int64
	examples []string
}

func (s *sight) count(outcome string) {
	if s.outcomes == nil {
		s.outcomes = map[string]int64{}
	}
	s.outcomes[outcome]++
}

func (s *sight) complain(err error) {
	s.wrong++
	if len(s.examples) < maxExamples {
		s.examples = append(s.examples, err.Error())
	}
}

// errNoMore says that there is nothing left to ask for.
var errNoMore = errors.New("every record was asked for")

func (w *worker) once(ctx context.Context) error {
	switch w.crew.job.Work {
	case Place:
		if share := w.crew.job.Share; share > 0 && len(w.kept) > 0 && w.order.random.Float64() < share {
			return w.repeat(ctx)
		}
		return w.place(ctx)
	case Repeat:
		return w.repeat(ctx)
	case Unseen:
		return w.unseen(ctx)
	case Same:
		return w.same(ctx)
	case Get:
		_, err := w.send(ctx, w.request, want{what: "a question", status: 200})
		return err
	}
	return fmt.Errorf("there is no work called %q", w.crew.job.Work)
}

func (w *worker) place(ctx context.Context) error {
	var err error
	if w.request, err = w.order.append(w.request[:0]); err != nil {
		return err
	}
	a, err := w.send(ctx, w.request, want{what: "a new order", status: 201})
	if err != nil || a.status != 201 {
		return err
	}
	if w.crew.job.Audit {
		if err := w.identify(a.body); err != nil {
			w.seen.complain(err)
		}
	}
	w.remember(a.body)
	return nil
}

// remember keeps the exchange in the place of the oldest.
func (w *worker) remember(body []byte) {
	if len(w.kept) < w.keep {
		w.kept = append(w.kept, exchange{})
		w.oldest = len(w.kept) - 1
	}
	if w.keep == 0 {
		return
	}
	e := &w.kept[w.oldest]
	e.request, e.body = append(e.request[:0], w.request...), append(e.body[:0], body...)
	w.oldest = (w.oldest + 1) % w.keep
}

func (w *worker) repeat(ctx context.Context) error {
	e := w.kept[w.order.random.IntN(len(w.kept))]
	_, err := w.send(ctx, e.request, want{what: "a repeated order", status: 201, replayed: true, body: e.body})
	return err
}

func (w *worker) unseen(ctx context.Context) error {
	f := &w.crew.job.Unseen
	i := int(w.crew.unseen.Add(1)) - 1
	if i >= f.Count {
		return errNoMore
	}
	w.request = w.order.whole(w.request[:0], ID("key", f.Begin, i), f.Body)
	body := bytes.Replace(f.Answer, []byte(f.Order), []byte(ID("order", f.Begin, i).String()), 1)
	_, err := w.send(ctx, w.request, want{what: "an order of long ago", status: 201, replayed: true, body: body})
	return err
}

// same takes any answer, but only one order.
func (w *worker) same(ctx context.Context) error {
	a, err := w.ask(ctx, w.request)
	if err != nil {
		return err
	}
	w.seen.count(outcomeOf(a))
	if a.status != 201 {
		return nil
	}
	body := bytes.Clone(a.body)
	if w.crew.same.CompareAndSwap(nil, &body) {
		return nil
	}
	if first := *w.crew.same.Load(); !bytes.Equal(first, body) {
		return fmt.Errorf("one key has two answers: %.500s and %.500s", first, body)
	}
	return nil
}

func outcomeOf(a answer) string {
	switch {
	case a.status == 201 && a.replayed:
		return Replayed
	case a.status == 201:
		return Created
	case a.status < 400:
		return fmt.Sprint(a.status)
	}
	return fmt.Sprintf("%d %s", a.status, a.code())
}

// want is the answer that a request should get.
type want struct {
	what     string // it is, for messages
	status   int
	replayed bool
	body     []byte // nil for any
	lost     bool   // an answer was lost: it may have been the first
}

func (w want) refuse(a answer) error {
	if a.status == w.status && (a.replayed == w.replayed || w.lost && a.replayed) && (w.body == nil || bytes.Equal(a.body, w.body)) {
		return nil
	}
	return fmt.Errorf("%s was answered with status %d, replayed %t: %.500s", w.what, a.status, a.replayed, a.body)
}

// maxTries is how often a request is sent whose outcome is still open; firstPause is the wait before the second, and
// doubles from there.
const (
	maxTries   = 8
	firstPause = 20 * time.Millisecond
	maxPause   = 2 * time.Second
)

// send sends a request until its answer is final, and judges it. What is wrong with it is an error of a strict job and
// otherwise a part of the tally.
func (w *worker) send(ctx context.Context, request []byte, want want) (answer, error) {
	pause := firstPause
	for try := 1; ; try++ {
		a, err := w.ask(ctx, request)
		var wrong error
		switch {
		case err != nil && (w.crew.job.Strict || ctx.Err() != nil):
			return answer{}, err
		case err != nil:
			w.seen.count(Lost)
			wrong, want.lost = fmt.Errorf("%s was never answered: %w", want.what, err), true
		default:
			w.seen.count(outcomeOf(a))
			if wrong = want.refuse(a); wrong == nil {
				return a, nil
			}
			if w.crew.job.Strict {
				return answer{}, wrong
			}
			want.lost = want.lost || a.status >= 500 // of a gateway, perhaps: the server may have done it
		}
		if err == nil && !open(a) || try == maxTries {
			w.seen.complain(wrong)
			return a, nil
		}
		if err := wait(ctx, max(pause, min(a.retryAfter, maxPause))); err != nil {
			return answer{}, err
		}
		pause = min(2*pause, maxPause)
	}
}

// open says whether the same request can get another answer later.
func open(a answer) bool {
	return a.status == 429 || a.status >= 500 || a.status == 409 && a.code() == "idempotency_in_progress"
}

// ask is one exchange, timed.
func (w *worker) ask(ctx context.Context, request []byte) (answer, error) {
	began := time.Now()
	a, err := w.conn.exchange(ctx, request)
	if err == nil {
		w.seen.took.add(time.Since(began))
	}
	return a, err
}

func wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
