package secrets

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"orderonce/cmd/orderonce/orderoncetest"
)

func TestNothingThatIsSecretIsSaid(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, trouble := range troubles {
		said := len(w.server.Stderr.String())
		answers := trouble.around(w, func() []answer { return w.send(w.requests()) })
		codes := map[string]bool{}
		for _, a := range answers {
			codes[a.Code()] = true
			w.wantDiscreet(trouble.name, a)
		}
		// Where the trouble did not happen, or nobody was told of it, nothing is proved.
		if log := w.server.Stderr.String()[said:]; !codes[trouble.code] || trouble.logged && !strings.Contains(log, `"code":"`+trouble.code+`"`) {
			t.Errorf("%s: no answer or no log line says %s; answers say %v, the log\n%s", trouble.name, trouble.code, codes, log)
		}
	}
	w.wantMarked()
	w.wantTraced()
	search := func() {
		t.Helper()
		for _, output := range w.outputs() {
			w.marks.want(t, output.name, output.text())
		}
	}
	search()
	w.stop()
	search()
}

// wantMarked checks that marks have come as far as the tables: or there was nothing to be indiscreet about.
func (w *world) wantMarked() {
	w.t.Helper()
	for table, k := range map[string]kind{"orders": value, "idempotency_requests": key} {
		rows := w.rows("SELECT to_jsonb(t)::text FROM " + table + " t")
		if !slices.ContainsFunc(slices.Collect(maps.Keys(w.marks.kinds)), func(mark string) bool {
			return w.marks.kinds[mark] == k && strings.Contains(rows, mark)
		}) {
			w.t.Errorf("no mark is in %s", table)
		}
	}
}

// wantTraced checks that the requests have come as far as the collector, for the same reason.
func (w *world) wantTraced() {
	w.t.Helper()
	for _, word := range []string{"orderonce.idempotency.key.hash", "ClaimKey", "lock_wait_timeout"} {
		orderoncetest.Poll(w.t, word+" in a span", func() bool { return strings.Contains(w.collector.Text(), word) })
	}
}

// wantDiscreet holds an answer against what it may repeat: a resource is what the client has sent, and may be read by
// those who may see it; a problem points to members by their names and says no value.
func (w *world) wantDiscreet(trouble string, a answer) {
	w.t.Helper()
	what := trouble + ", " + a.name + ": the "
	if a.err != nil && a.name == tooLong {
		return
	}
	if a.err != nil {
		w.t.Fatalf("%s answer: %v", what, a.err)
	}
	refused := a.Status >= http.StatusBadRequest && a.Status != http.StatusConflict && a.Code() != "coupon_unknown"
	if trouble == troubles[0].name && a.refused != refused {
		w.t.Errorf("%s answer is %d %s", what, a.Status, a.Body)
	}
	for name, values := range a.Header {
		w.marks.want(w.t, what+"header "+name, strings.Join(values, "\n"))
	}
	may := []kind{name, value}
	if a.Header.Get("Content-Type") == "application/problem+json" {
		may = may[:1]
	}
	w.marks.want(w.t, what+"body", a.Body, may...)
}

// stop ends the server in order, so that it says what it has to say at its end.
func (w *world) stop() {
	w.t.Helper()
	w.server.Signal(w.t, syscall.SIGTERM)
	if status := w.server.Wait(w.t); status != 0 {
		w.t.Errorf("the server ended with status %d", status)
	}
}
