package load

import (
	"net/http"
	"strings"
	"testing"
)

func audit(t *testing.T, s *stub, before func(*Crew)) Audit {
	t.Helper()
	c := gather(t, s, Job{Connections: 2, Work: Place, Audit: true})
	phase(t, c, short)
	before(c)
	got, err := c.Audit(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAuditOfAnHonestServer(t *testing.T) {
	t.Parallel()
	s := &stub{}
	if got := audit(t, s, func(*Crew) {}); got.Wrong != 0 || got.Orders != len(s.answers) || got.Sampled == 0 || got.Unread != "" {
		t.Errorf("%+v, of %d orders", got, len(s.answers))
	}
}

func TestAuditFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*stub, *Crew)
		want  string
	}{
		"two keys with one order":    {func(_ *stub, c *Crew) { c.workers[0].ids = append(c.workers[0].ids, c.workers[1].ids[0]) }, "two keys have one order"},
		"an order that is not there": {func(s *stub, _ *Crew) { s.orders = nil }, "is read with status 404"},
		"another replay": {func(s *stub, _ *Crew) {
			for key := range s.answers {
				s.answers[key] = strings.Replace(s.answers[key], `"total_minor":1`, `"total_minor":2`, 1)
			}
		}, "a repeated order was answered"},
		"another total": {func(s *stub, _ *Crew) {
			for path := range s.orders {
				s.orders[path] = strings.Replace(s.orders[path], `"total_minor":1`, `"total_minor":2`, 1)
			}
		}, "is read with status 200"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stub{}
			got := audit(t, s, func(crew *Crew) { c.spoil(s, crew) })
			if got.Wrong == 0 || !strings.Contains(strings.Join(got.Examples, "\n"), c.want) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAuditWithoutTheRightToRead(t *testing.T) {
	t.Parallel()
	s := &stub{answer: func(w http.ResponseWriter, r *http.Request, _ bool) bool {
		return r.Method == http.MethodGet && problem(w, 403, "forbidden")
	}}
	if got := audit(t, s, func(*Crew) {}); got.Wrong != 0 || got.Unread != "the key may not read orders: forbidden" {
		t.Errorf("%+v", got)
	}
}
