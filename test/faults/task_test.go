package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"orderonce/cmd/orderonce/orderoncetest"
	"orderonce/internal/faultpoint"
	"orderonce/test/shop"
)

// importLines are so many orders, one a line, each of a name of its own.
func importLines(prefix string, n int) string {
	var lines bytes.Buffer
	for i := range n {
		lines.WriteString(orderoncetest.Order(map[string]any{"client_order_id": fmt.Sprint(prefix, "-", i), "metadata": map[string]any{"n": strconv.Itoa(i)}}))
		lines.WriteByte('\n')
	}
	return lines.String()
}

// importTask is what a client knows of one.
type importTask struct {
	ID       string
	State    string
	Attempt  int
	Progress struct{ Done, Total, Succeeded, Rejected int }
}

// accept sends an import and returns its task.
func accept(t *testing.T, to *shop.Server, key, lines string) (task importTask) {
	t.Helper()
	a, err := to.Do(t.Context(), http.MethodPost, "/order-imports", lines, http.Header{
		"Content-Type": {"application/x-ndjson"}, "Idempotency-Key": {key},
	})
	if err != nil || a.Status != http.StatusAccepted {
		t.Fatalf("%d %s, %v", a.Status, a.Body, err)
	}
	if err := json.Unmarshal([]byte(a.Body), &task); err != nil {
		t.Fatal(err)
	}
	return task
}

func look(t *testing.T, at *shop.Server, id string) (task importTask) {
	t.Helper()
	a, err := at.Do(t.Context(), http.MethodGet, "/tasks/"+id, "", nil)
	if err != nil || a.Status != http.StatusOK {
		t.Fatalf("%d %s, %v", a.Status, a.Body, err)
	}
	if err := json.Unmarshal([]byte(a.Body), &task); err != nil {
		t.Fatal(err)
	}
	return task
}

// taskRow is what stands in the database.
type taskRow struct {
	State                                       string
	Checkpoint, Token, Takeovers, Fenced, Total int
}

// tasksOf watches the tasks of a shop beside everything else.
type tasksOf struct {
	t    *testing.T
	mu   sync.Mutex
	conn *pgx.Conn
}

func watchTasks(t *testing.T, s *shop.Shop) *tasksOf {
	t.Helper()
	return &tasksOf{t: t, conn: s.Connect(t)}
}

func (w *tasksOf) row(id string) (r taskRow) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.conn.QueryRow(w.t.Context(), `SELECT state::text, checkpoint, attempt_token, takeovers, fenced_writes, total FROM tasks WHERE id = $1`, id).
		Scan(&r.State, &r.Checkpoint, &r.Token, &r.Takeovers, &r.Fenced, &r.Total)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *tasksOf) count(sql string, args ...any) (n int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.conn.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *tasksOf) exec(sql string, args ...any) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.conn.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

// endLeases lets the leases that a process holds be over, as half a minute would: what is killed or stopped lengthens
// none.
func (w *tasksOf) endLeases(process *orderoncetest.Process) {
	w.t.Helper()
	w.exec("UPDATE tasks SET due_at = now() WHERE owner LIKE '%/' || $1::text", strconv.Itoa(process.PID()))
}

// wantOnce wants each order of an import of n to be there once, with its event, its row and its place in the count.
func (w *tasksOf) wantOnce(id, prefix string, n int) {
	w.t.Helper()
	for what, sql := range map[string]string{
		"orders": `SELECT count(*) FROM orders WHERE client_order_id LIKE $2 || '-%' AND $1 <> ''`,
		"created events": `SELECT count(DISTINCT e.aggregate_id) FROM outbox_events e JOIN orders o ON o.tenant_id = e.tenant_id AND o.id = e.aggregate_id
			WHERE e.type = 'orderonce.order.created.v1' AND o.client_order_id LIKE $2 || '-%' AND $1 <> ''`,
		"all created events": `SELECT count(*) FROM outbox_events e JOIN orders o ON o.tenant_id = e.tenant_id AND o.id = e.aggregate_id
			WHERE e.type = 'orderonce.order.created.v1' AND o.client_order_id LIKE $2 || '-%' AND $1 <> ''`,
		"rows of their orders": `SELECT count(*) FROM import_rows r JOIN orders o ON o.tenant_id = r.tenant_id AND o.id = r.order_id AND o.client_order_id = r.client_order_id
			WHERE r.task_id = $1::uuid AND r.state = 'succeeded' AND $2 <> ''`,
		"counted": `SELECT succeeded FROM tasks WHERE id = $1::uuid AND rejected = 0 AND state = 'succeeded' AND $2 <> ''`,
	} {
		if got := w.count(sql, id, prefix); got != n {
			w.t.Errorf("%s: %d %s, want %d", prefix, got, what, n)
		}
	}
}

func ended(t *testing.T, at *shop.Server, id string) importTask {
	t.Helper()
	var task importTask
	orderoncetest.Poll(t, "the end of the task", func() bool {
		task = look(t, at, id)
		return task.State == "succeeded" || task.State == "failed"
	})
	return task
}

// Kill -9 of the worker at each step of a task; the next one goes on behind the last checkpoint, and nothing is there twice.
func TestWorkerKilledAtEveryStepOfATask(t *testing.T) {
	t.Parallel()
	for _, at := range []string{
		string(faultpoint.TaskTaken),
		string(faultpoint.TaskWritten),        // the first chunk is committed
		string(faultpoint.TaskWritten) + "@2", // and the second
		string(faultpoint.TaskEnding),
		string(faultpoint.TaskWritten) + "@4", // the end is committed
		string(faultpoint.AfterClaim) + "@2",  // a COMMIT of the worker has not been sent
		string(faultpoint.AfterClaim) + "@3",
		string(faultpoint.AfterCommit) + "@2", // and one has been answered
		string(faultpoint.AfterCommit) + "@3",
		string(faultpoint.BeforeClaim) + "@4",
	} {
		point, hit, counted := strings.Cut(at, "@")
		plan := point + "=kill"
		if counted {
			plan += "@" + hit
		}
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			s := shop.Open(t)
			server, w := s.Serve(t, shop.Options{}), watchTasks(t, s)
			key := orderoncetest.NewKey()
			lines := importLines("step", 250)
			task := accept(t, server, key, lines)
			doomed := s.Work(t, shop.Options{Faults: []string{plan}})
			if status := doomed.Wait(t); status != -1 {
				t.Fatalf("the worker ended with status %d", status)
			}
			provoked(t, "kill -9 worker at a step of a task", 1)
			before := w.row(task.ID)
			w.endLeases(doomed)
			if again := accept(t, server, key, lines); again.ID != task.ID {
				t.Error("the same key has another task")
			}

			s.Work(t, shop.Options{})
			ended(t, server, task.ID)
			w.wantOnce(task.ID, "step", 250)
			after := w.row(task.ID)
			taken := 1
			if before.State == "succeeded" {
				taken = 0
			}
			if after.Token != before.Token+taken || after.Fenced != 0 {
				t.Errorf("before %+v, after %+v", before, after)
			}
		})
	}
}

// Case 31, on whole processes: a worker is stopped past its lease, another one finishes, and the first goes on. It is
// refused, and nothing is there twice.
func TestStoppedWorkerIsFencedWhenItGoesOn(t *testing.T) {
	t.Parallel()
	s := shop.Open(t)
	server, w := s.Serve(t, shop.Options{}), watchTasks(t, s)
	task := accept(t, server, orderoncetest.NewKey(), importLines("stopped", 450))
	held := newHold(t)
	first := s.Work(t, shop.Options{Faults: []string{string(faultpoint.TaskWritten) + "=pause:" + held.file + "@2"}})
	held.reached(t)
	first.Signal(t, syscall.SIGSTOP)
	before := w.row(task.ID)
	if before.Checkpoint != 2 || before.Token != 1 {
		t.Fatalf("%+v", before)
	}
	w.endLeases(first)
	s.Work(t, shop.Options{})
	ended(t, server, task.ID)
	w.wantOnce(task.ID, "stopped", 450)

	held.release(t)
	first.Signal(t, syscall.SIGCONT)
	orderoncetest.Poll(t, "the first worker to be refused", func() bool { return w.row(task.ID).Fenced > 0 })
	provoked(t, "worker paused past its lease, another took over", 1)
	w.wantOnce(task.ID, "stopped", 450)
	if after := w.row(task.ID); after.Token != 2 || after.Takeovers != 1 || after.State != "succeeded" {
		t.Errorf("%+v", after)
	}
	if !strings.Contains(first.Stderr.String(), "fenced") {
		t.Error("the worker says nothing of it")
	}
	// And it works on: for the next task it is as good as the other.
	next := accept(t, server, orderoncetest.NewKey(), importLines("next", 10))
	ended(t, server, next.ID)
	w.wantOnce(next.ID, "next", 10)
}

// The same inside of a write: what was sent and not committed ends with the connection that the database gives up.
func TestWorkerStoppedInsideAWriteHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := shop.Open(t)
	server, w := s.Serve(t, shop.Options{}), watchTasks(t, s)
	task := accept(t, server, orderoncetest.NewKey(), importLines("inside", 450))
	first := s.Work(t, shop.Options{Args: []string{"--idle-in-transaction-timeout=6s"}})
	orderoncetest.Poll(t, "the worker to be stopped inside of a write", func() bool {
		first.Signal(t, syscall.SIGSTOP)
		inside := w.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'
			AND query LIKE '%HoldTask%' OR datname = current_database() AND state LIKE 'idle in transaction%' AND query LIKE '%InsertImportRow%'
			OR datname = current_database() AND state LIKE 'idle in transaction%' AND query LIKE '%CheckpointTask%'`)
		if inside > 0 || w.row(task.ID).State == "succeeded" {
			return true
		}
		first.Signal(t, syscall.SIGCONT)
		return false
	})
	s.Work(t, shop.Options{})
	orderoncetest.Poll(t, "the task to be taken over", func() bool {
		w.endLeases(first) // waits for the row until the database has given the session up
		r := w.row(task.ID)
		return r.Token == 2 || r.State == "succeeded"
	})
	ended(t, server, task.ID)
	first.Signal(t, syscall.SIGCONT)
	w.wantOnce(task.ID, "inside", 450)
	provoked(t, "worker paused past its lease, another took over", 1)
}

// A 10 000-row import whose worker is killed ten times, at random: exactly its orders, and each takeover is one token more.
func TestLargeImportSurvivesTenKills(t *testing.T) {
	t.Parallel()
	const rows, kills = 10_000, 10
	s := shop.Open(t)
	server, w := s.Serve(t, shop.Options{}), watchTasks(t, s)
	task := accept(t, server, orderoncetest.NewKey(), importLines("large", rows))
	for kill := range kills {
		doomed := s.Work(t, shop.Options{})
		from := w.row(task.ID).Checkpoint
		orderoncetest.Poll(t, "the worker to get on", func() bool { return w.row(task.ID).Checkpoint > from })
		orderoncetest.Pause(t.Context(), rand.N(300*time.Millisecond))
		doomed.Kill()
		w.endLeases(doomed)
		if r := w.row(task.ID); r.State != "processing" || r.Token != kill+1 {
			t.Fatalf("after %d kills: %+v", kill+1, r)
		}
	}
	provoked(t, "kill -9 worker at any time of a task", kills)
	s.Work(t, shop.Options{})
	if done := ended(t, server, task.ID); done.Attempt != kills+1 || done.Progress.Succeeded != rows {
		t.Errorf("%+v", done)
	}
	w.wantOnce(task.ID, "large", rows)
	if r := w.row(task.ID); r.Takeovers != kills || r.Token != kills+1 {
		t.Errorf("%+v", r)
	}
}

// While a large import comes in, in either form, the server takes little more memory than at rest.
func TestLargeImportTakesLittleMemory(t *testing.T) {
	t.Parallel()
	s := shop.Open(t)
	server := s.Serve(t, shop.Options{})
	accept(t, server, orderoncetest.NewKey(), importLines("first", 1))
	before := peak(t, server.PID())
	lines := importLines("lines", 10_000)
	accept(t, server, orderoncetest.NewKey(), lines)
	document := `{"orders":[` + strings.ReplaceAll(strings.TrimSpace(strings.ReplaceAll(lines, "lines-", "document-")), "\n", ",") + `]}`
	a, err := server.Do(t.Context(), http.MethodPost, "/order-imports", document, http.Header{
		"Content-Type": {"application/json"}, "Idempotency-Key": {orderoncetest.NewKey()},
	})
	if err != nil || a.Status != http.StatusAccepted {
		t.Fatalf("%d %s, %v", a.Status, a.Body, err)
	}
	after := peak(t, server.PID())
	t.Logf("%d MiB before, %d MiB at most, for %d KiB of orders", before>>10, after>>10, len(lines)>>10)
	if after-before > 64<<10 {
		t.Errorf("the server took %d MiB more than at rest", (after-before)>>10)
	}
}

// peak is the most memory that a process ever had, in KiB.
func peak(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("this system does not tell a process's memory: ", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
