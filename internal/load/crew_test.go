package load

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
)

const short = 40 * time.Millisecond

func phase(t *testing.T, c *Crew, length time.Duration) Tally {
	t.Helper()
	tally, err := c.Phase(t.Context(), length)
	if err != nil {
		t.Fatal(err)
	}
	return tally
}

func TestEveryOrderIsCounted(t *testing.T) {
	t.Parallel()
	s := &stub{}
	c := gather(t, s, Job{Connections: 3, Work: Place, Strict: true})
	warm, measured := phase(t, c, short), phase(t, c, short)
	if got := warm.Answers + measured.Answers; got != int64(len(s.answers)) || measured.Outcomes[Created] != measured.Answers {
		t.Errorf("%d and %d orders were counted, %d placed: %v", warm.Answers, measured.Answers, len(s.answers), measured.Outcomes)
	}
	if measured.P50 <= 0 || measured.P99 < measured.P50 || measured.Max < measured.P99 || measured.Elapsed < short {
		t.Errorf("times make no sense: %+v", measured)
	}
}

func TestAPhaseWithoutLengthIsOneRequestEach(t *testing.T) {
	t.Parallel()
	if got := phase(t, gather(t, &stub{}, Job{Connections: 5, Work: Place}), 0); got.Answers != 5 {
		t.Errorf("five connections got %d answers", got.Answers)
	}
}

func TestKnownOrdersAreRepeated(t *testing.T) {
	t.Parallel()
	s := &stub{}
	got := phase(t, gather(t, s, Job{Connections: 2, Work: Repeat, Known: 9, Strict: true}), short)
	if len(s.answers) != 10 || got.Outcomes[Replayed] != got.Answers || got.Answers == 0 { // 9, shared evenly
		t.Errorf("%d orders were placed, and then %v", len(s.answers), got.Outcomes)
	}
}

func TestTheShareOfRepetitions(t *testing.T) {
	t.Parallel()
	got := phase(t, gather(t, &stub{}, Job{Connections: 1, Work: Place, Share: 0.5, Strict: true}), 200*time.Millisecond)
	share := float64(got.Outcomes[Replayed]) / float64(got.Answers)
	if got.Answers < 100 || share < 0.3 || share > 0.7 { // five standard deviations and more
		t.Errorf("a half should be repeated: %v", got.Outcomes)
	}
}

func TestOneKeyOfEverybody(t *testing.T) {
	t.Parallel()
	key := uuid.Must(uuid.NewV7())
	got := phase(t, gather(t, &stub{}, Job{Connections: 8, Work: Same, Key: key}), 0)
	if got.Outcomes[Created] != 1 || got.Outcomes[Replayed] != 7 {
		t.Errorf("%v", got.Outcomes)
	}
}

func TestUnseenRecordsAreAskedForOnce(t *testing.T) {
	t.Parallel()
	const begin, count = 1_700_000_000_000, 40
	s := &stub{}
	j := Job{Target: s.start(t), Connections: 3, Work: Unseen, Strict: true, Unseen: Filled{
		Begin: begin, Count: count, Body: PlainBody(), Answer: []byte(`{"id":"original"}`), Order: "original",
	}}
	for i := range count {
		s.answers[ID("key", begin, i).String()] = `{"id":"` + ID("order", begin, i).String() + `"}`
	}
	crew, err := Gather(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	defer crew.Leave()
	if got := phase(t, crew, time.Minute); got.Answers != count || got.Elapsed > 30*time.Second || len(s.answers) != count {
		t.Errorf("%d of %d records were asked for: %v", got.Answers, count, got.Outcomes)
	}
}

// A strict crew ends with the first answer that is not what it should be, and shows it.
func TestAStrictCrewBelievesNothing(t *testing.T) {
	t.Parallel()
	lies := func(w http.ResponseWriter, _ *http.Request, first bool) bool {
		if first {
			return false
		}
		w.Header().Set("Idempotency-Replayed", "true")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id":"another"}`))
		return true
	}
	c := gather(t, &stub{answer: lies}, Job{Connections: 2, Work: Repeat, Known: 2, Strict: true})
	if _, err := c.Phase(t.Context(), short); err == nil || !strings.Contains(err.Error(), `a repeated order was answered with status 201, replayed true: {"id":"another"}`) {
		t.Errorf("a replay with another body was believed: %v", err)
	}
	refuses := func(w http.ResponseWriter, _ *http.Request, _ bool) bool { return problem(w, 503, "busy") }
	c = gather(t, &stub{answer: refuses}, Job{Connections: 1, Work: Place, Strict: true})
	if _, err := c.Phase(t.Context(), short); err == nil || !strings.Contains(err.Error(), "a new order was answered with status 503") {
		t.Errorf("a refusal was taken for an order: %v", err)
	}
}

// What a client would do: no answer means unknown, and "later" means later; both are sent again under their key.
func TestOpenOutcomesAreSentAgain(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	flaky := func(w http.ResponseWriter, _ *http.Request, _ bool) bool {
		switch n.Add(1) % 4 {
		case 0:
			panic(http.ErrAbortHandler)
		case 1:
			return problem(w, 503, "busy")
		}
		return false
	}
	s := &stub{answer: flaky}
	got := phase(t, gather(t, s, Job{Connections: 4, Work: Place}), 300*time.Millisecond)
	if got.Wrong != 0 || got.Outcomes[Lost] == 0 || got.Outcomes["503 busy"] == 0 {
		t.Errorf("%v, wrong: %v", got.Outcomes, got.Examples)
	}
	if final := got.Outcomes[Created] + got.Outcomes[Replayed]; final != int64(len(s.answers)) {
		t.Errorf("%d orders have a final answer, %d were placed", final, len(s.answers))
	}
}

func TestAnAnswerThatNeverComesIsWrong(t *testing.T) {
	t.Parallel()
	s := &stub{answer: func(w http.ResponseWriter, _ *http.Request, _ bool) bool { return problem(w, 422, "validation_failed") }}
	if got := phase(t, gather(t, s, Job{Connections: 1, Work: Place}), 0); got.Wrong != 1 || got.Outcomes["422 validation_failed"] != 1 || len(got.Examples) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestEndedContextEndsAPhase(t *testing.T) {
	t.Parallel()
	c := gather(t, &stub{}, Job{Connections: 2, Work: Get, Path: "/livez"})
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	if _, err := c.Phase(ctx, time.Minute); err == nil {
		t.Error("a phase went on without its context")
	}
}

// Proxies close connections and send bodies in chunks.
func TestConnectionsAreMadeAgain(t *testing.T) {
	t.Parallel()
	closes := func(w http.ResponseWriter, r *http.Request, _ bool) bool {
		w.Header().Set("Connection", "close")
		if r.Method != http.MethodGet {
			return false
		}
		_, _ = w.Write([]byte("{"))
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write([]byte("}"))
		return true
	}
	for _, work := range []Work{Place, Get} {
		c := gather(t, &stub{answer: closes}, Job{Connections: 2, Work: work, Path: "/livez", Strict: true})
		if got := phase(t, c, short); got.Answers < 3 {
			t.Errorf("%s: %v", work, got.Outcomes)
		}
	}
}
