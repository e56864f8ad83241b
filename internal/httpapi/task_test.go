package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/identity"
	"orderonce/internal/imports"
)

func (w *world) retry(key, id string, options ...option) answer {
	w.t.Helper()
	return w.send(http.MethodPost, "/tasks/"+id+"/retry", nil, append([]option{with(keyHeader, key)}, options...)...)
}

// A failed task is sent on its way again, once per key; any other is refused for good.
func TestRetryHappensOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id, key := w.failedTask(), freshKey()
	failed := read[api.Task](t, w.get("/tasks/"+id), 200)
	if failed.State != api.TaskStateFailed || !failed.Retryable || failed.Problem == nil || failed.Problem.Code != "stalled" || failed.Problem.Title == "" {
		t.Errorf("%+v", failed)
	}
	first := w.retry(key, id)
	if task := wantAccepted(t, first); task.State != api.TaskStateProcessing || task.Id.String() != id {
		t.Errorf("%s", first.body)
	}
	wantReplay(t, first, w.retry(key, id))
	other := freshKey()
	refused := w.retry(other, id)
	wantProblem(t, refused, 409, "task_not_retryable")
	w.work(imports.NewImporter(nil))
	if ended := w.ended(id); ended.State != api.TaskStateSucceeded {
		t.Errorf("%+v", ended)
	}
	wantReplay(t, first, w.retry(key, id)) // what was said stays said
	wantReplay(t, refused, w.retry(other, id))
	wantProblem(t, w.retry(key, w.failedTask()), 409, "idempotency_key_reused")
	wantProblem(t, w.retry(freshKey(), freshKey()), 404, "not_found")
	_, stranger := w.principal("globex", "shop", identity.TenantScopes()...)
	wantProblem(t, w.retry(freshKey(), w.failedTask(), as(stranger)), 404, "not_found")
	_, reader := w.principal("acme", "reader", identity.OrdersRead)
	wantProblem(t, w.retry(freshKey(), w.failedTask(), as(reader)), 403, "forbidden")
	w.exec("UPDATE tasks SET state = 'failed', retryable = false, reason = 'cancelled' WHERE id = '" + id + "'")
	wantProblem(t, w.retry(freshKey(), id), 409, "task_not_retryable")
}

// After their time the results are gone, for everything that leads to them, and the key is free.
func TestResultsAreGoneAfterTheirTime(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	first := w.importOrders(key, importOf(row("mine")))
	id := wantAccepted(t, first).Id.String()
	w.work(imports.NewImporter(nil))
	w.ended(id)
	wantReplayed := w.importOrders(key, importOf(row("mine")))
	if wantReplayed.header.Get("Idempotency-Replayed") != "true" || wantReplayed.header.Get("Idempotency-Key-Expires") == "" {
		t.Errorf("%v", wantReplayed.header)
	}
	w.exec("UPDATE tasks SET result_expires_at = now() - interval '1 second'")
	for _, path := range []string{"/tasks/" + id, "/tasks/" + id + "/results"} {
		wantProblem(t, w.get(path), 410, "task_expired")
	}
	wantProblem(t, w.retry(freshKey(), id), 410, "task_expired")
	w.exec("UPDATE idempotency_requests SET expires_at = now() - interval '1 second' WHERE operation = 'importOrders'")
	again := wantAccepted(t, w.beside().importOrders(key, importOf(row("mine"))))
	if again.Id.String() == id {
		t.Error("a forgotten key leads to its old task")
	}
	// The business identity outlives them all.
	if ended := w.ended(again.Id.String()); ended.Progress.Succeeded != 1 {
		t.Errorf("%+v", ended)
	}
	w.wantRows(rows{1, 1, 1})
}

// Operators see who works on what.
func TestOperatorsSeeTheOwners(t *testing.T) {
	t.Parallel()
	w := setup(t)
	held := wantAccepted(t, w.importOrders(freshKey(), importOf(row("mine"))))
	failed := w.failedTask()
	w.exec(`UPDATE tasks SET owner = 'host/1', attempt_token = 7, takeovers = 3, stalls = 2, fenced_writes = 4,
		due_at = now() + interval '20 seconds' WHERE id = '` + held.Id.String() + "'")
	page := read[api.OwnedTaskPage](t, w.get("/ops/tasks", as(w.operator)), 200)
	if len(page.Tasks) != 2 || page.Tasks[0].Id.String() != failed || page.Tasks[1].Id != held.Id {
		t.Fatalf("%+v", page)
	}
	one, other := page.Tasks[1], page.Tasks[0]
	if one.TenantId != w.tenant || *one.Owner != "host/1" || one.Token != 7 || one.Takeovers != 3 || one.Stalls != 2 || one.FencedWrites != 4 ||
		*one.LeaseLeftMs < 1000 || *one.LeaseLeftMs > 20_000 || one.DueAt != nil {
		t.Errorf("%+v", one)
	}
	if other.Owner != nil || other.LeaseLeftMs != nil || *other.Reason != "stalled" || !other.Retryable {
		t.Errorf("%+v", other)
	}
	if page := read[api.OwnedTaskPage](t, w.get("/ops/tasks?state=failed", as(w.operator)), 200); len(page.Tasks) != 1 {
		t.Errorf("%+v", page)
	}
	if page := read[api.OwnedTaskPage](t, w.get("/ops/tasks?tenant_id="+freshKey(), as(w.operator)), 200); len(page.Tasks) != 0 {
		t.Errorf("%+v", page)
	}
	w.exec("UPDATE tasks SET due_at = now() - interval '1 minute' WHERE owner IS NOT NULL")
	late := read[api.OwnedTaskPage](t, w.get("/ops/tasks?state=processing&tenant_id="+w.tenant.String(), as(w.operator)), 200)
	if len(late.Tasks) != 1 || *late.Tasks[0].LeaseLeftMs != 0 {
		t.Errorf("%+v", late)
	}
	if strings.Contains(string(w.get("/tasks/"+held.Id.String()).body), "host/1") {
		t.Error("a client is told the worker's name")
	}
}

func TestPageTokensOfResultsAreJudged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.failedTask()
	for _, token := range []string{"x", "AAAAAAA", "_____w", "AAAAAA=="} {
		wantProblem(t, w.get("/tasks/"+id+"/results?page_token="+token), 400, "invalid_request")
	}
	if page := read[api.TaskResultPage](t, w.get("/tasks/"+id+"/results?page_token="+rowToken(0)), 200); len(page.Results) != 0 {
		t.Errorf("%+v", page)
	}
}
