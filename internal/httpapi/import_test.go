package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/imports"
	"orderonce/internal/orders"
	"orderonce/internal/tasks"
)

// row is a valid order of an import, with what the test changes about it.
func row(name string, change ...func(map[string]any)) string {
	return order(append([]func(map[string]any){set("client_order_id", name)}, change...)...)
}

// importOf is a body of these rows.
func importOf(rows ...string) string { return `{"orders":[` + strings.Join(rows, ",") + `]}` }

// many are so many rows, each of its own name.
func many(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = row(fmt.Sprint("row-", i))
	}
	return all
}

func (w *world) importOrders(key, body string, options ...option) answer {
	w.t.Helper()
	options = append([]option{with("Content-Type", "application/json"), with(keyHeader, key)}, options...)
	return w.send(http.MethodPost, "/order-imports", strings.NewReader(body), options...)
}

// wantAccepted wants a first answer.
func wantAccepted(t *testing.T, a answer) api.Task {
	t.Helper()
	if a.status != http.StatusAccepted || a.header.Get("Idempotency-Replayed") != "false" {
		t.Fatalf("got %d replayed=%q, want a first 202: %s", a.status, a.header.Get("Idempotency-Replayed"), a.body)
	}
	task := read[api.Task](t, a, http.StatusAccepted)
	if a.header.Get("Location") != "/tasks/"+task.Id.String() || a.header.Get("Retry-After") != "2" {
		t.Errorf("%v", a.header)
	}
	return task
}

// work lets workers do imports until the end of the test.
func (w *world) work(importer *imports.Importer) {
	w.t.Helper()
	policy, err := Policy(w.t.Context(), imports.Operation)
	w.must(err)
	kind := tasks.Kind{Operation: imports.Operation, Policy: policy, Step: importer.Step, Forget: imports.Forget}
	ctx, stop := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tasks.NewWorker(w.workers, []tasks.Kind{kind}, tasks.Options{
			Name: "worker", Concurrency: 2, Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
		}).Run(ctx)
	}()
	w.t.Cleanup(func() { stop(); <-done })
}

// ended waits for the end of a task.
func (w *world) ended(id string) api.Task {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for {
		a := w.get("/tasks/" + id)
		task := read[api.Task](w.t, a, 200)
		if task.State == api.TaskStateSucceeded || task.State == api.TaskStateFailed {
			if a.header.Get("Retry-After") != "" || task.ResultExpiresAt == nil {
				w.t.Errorf("an ended task: %v %s", a.header, a.body)
			}
			return task
		}
		if a.header.Get("Retry-After") != "2" || task.ResultExpiresAt != nil {
			w.t.Errorf("a task that has not ended: %v %s", a.header, a.body)
		}
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatalf("the task does not end: %s", a.body)
		}
	}
}

// results are all rows of a task, page by page.
func (w *world) results(id, filter string) (all []api.TaskResult) {
	w.t.Helper()
	for token := ""; ; {
		path := "/tasks/" + id + "/results?page_size=100" + filter
		if token != "" {
			path += "&page_token=" + token
		}
		page := read[api.TaskResultPage](w.t, w.get(path), 200)
		all = append(all, page.Results...)
		if page.NextPageToken == nil {
			return all
		}
		token = *page.NextPageToken
	}
}

// failedTask is the id of a task that may be retried.
func (w *world) failedTask() string {
	w.t.Helper()
	task := wantAccepted(w.t, w.importOrders(freshKey(), importOf(row("mine-"+freshKey()))))
	// A worker of the test may have it already.
	w.exec(fmt.Sprintf(`UPDATE tasks SET state = 'failed', reason = 'stalled', retryable = true, due_at = NULL, ended_at = now(),
		owner = NULL, attempt_token = attempt_token + 1, result_expires_at = now() + interval '1 hour' WHERE id = '%s'`, task.Id))
	return task.Id.String()
}

// The same key has the same task, whatever form the same orders come in; another body is another request.
func TestImportIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	rows := many(250)
	first := w.importOrders(key, importOf(rows...))
	task := wantAccepted(t, first)
	if task.State != api.TaskStateProcessing || task.Progress.Total != 250 || task.Attempt != 0 || first.header.Get("Idempotency-Key-Expires") != "" {
		t.Errorf("%v %s", first.header, first.body)
	}
	wantReplay(t, first, w.importOrders(key, importOf(rows...)))
	wantReplay(t, first, w.beside().importOrders(key, importOf(rows...)))
	wantReplay(t, first, w.importOrders(key, "{ \"reserve_inventory\":false,\n\"orders\":["+strings.Join(rows, " ,\n ")+"] }"))
	lines := with("Content-Type", ndjson)
	wantReplay(t, first, w.importOrders(key, strings.Join(rows, "\n"), lines))
	wantReplay(t, first, w.importOrders(key, "\r\n"+strings.Join(rows, "\r\n\n")+"\n", lines))
	wantReplay(t, first, w.importOrders(key, strings.ReplaceAll(strings.Join(rows, "\n"), "{", `{"metadata":{},`), lines, func(r *http.Request) {
		r.Body = io.NopCloser(strings.NewReader(strings.Join(rows, "\n"))) // of unknown length
		r.ContentLength = -1
	}))
	if a := w.get("/idempotency-keys/" + key + "?operation=importOrders"); !strings.Contains(string(a.body), `"resource":"/tasks/`+task.Id.String()) || strings.Contains(string(a.body), "expires_at") {
		t.Errorf("%s", a.body)
	}

	swapped := append([]string{rows[1], rows[0]}, rows[2:]...)
	for name, test := range map[string]struct {
		body, query string
		options     []option
		differing   string
	}{
		"an order less":         {body: importOf(rows[:249]...), differing: "[/orders]"},
		"an order more":         {body: importOf(append(rows[:250:250], row("more"))...), differing: "[/orders]"},
		"two orders swapped":    {body: importOf(swapped...), differing: "[/orders]"},
		"another quantity":      {body: strings.Replace(importOf(rows...), `"quantity":2`, `"quantity":3`, 1), differing: "[/orders]"},
		"with a reservation":    {body: strings.Replace(importOf(rows...), `{`, `{"reserve_inventory":true,`, 1), differing: "[/reserve_inventory]"},
		"the same in the query": {body: strings.Join(rows, "\n"), query: "?reserve_inventory=true", options: []option{lines}, differing: "[/reserve_inventory]"},
	} {
		options := append([]option{with("Content-Type", "application/json"), with(keyHeader, key)}, test.options...)
		a := w.send(http.MethodPost, "/order-imports"+test.query, strings.NewReader(test.body), options...)
		wantProblem(t, a, 409, "idempotency_key_reused")
		if fmt.Sprint(*a.Differing) != test.differing {
			t.Errorf("%s: differing %v", name, *a.Differing)
		}
	}
	w.wantRows(rows0(0, 1, 0))
	if n := w.count("SELECT count(*) FROM tasks"); n != 1 {
		t.Errorf("%d tasks", n)
	}
}

// The member wins over the query of its name.
func TestReservationMayStandInTheQuery(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for query, want := range map[string]string{"": "false", "?reserve_inventory=true": "true", "?reserve_inventory=false": "false"} {
		key := freshKey()
		a := w.send(http.MethodPost, "/order-imports"+query, strings.NewReader(row("mine")), with("Content-Type", ndjson), with(keyHeader, key))
		task := wantAccepted(t, a)
		if n := w.count("SELECT count(*) FROM tasks WHERE id = '" + task.Id.String() + "' AND options->>'reserve_inventory' = '" + want + "'"); n != 1 {
			t.Errorf("%q: not %s", query, want)
		}
		body := `{"reserve_inventory":` + want + `,"orders":[` + row("mine") + `]}`
		wantReplay(t, a, w.send(http.MethodPost, "/order-imports?reserve_inventory=true", strings.NewReader(body),
			with("Content-Type", "application/json"), with(keyHeader, key)))
	}
}

// A row's own failure is its result. What cannot be read, or is no import at all, is refused whole.
func TestImportSettlesEachRow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.coupon(coupons["WELCOME10"])
	w.coupon(orders.Coupon{Code: "EXPIRED10", Percent: 10, ValidFrom: time.Now().Add(-2 * time.Hour), ValidUntil: time.Now().Add(-time.Hour)})
	wantCreated(t, w.place(freshKey(), order(set("checkout_id", "cart-1"))), "false")
	there := w.put("there", order())
	wantMade(t, there)
	rows := []string{
		row("good"),
		row("good"), // the same again
		row("good", set("customer_id", "another")), // under its name
		row("there"), // before the import
		row("checkout", set("checkout_id", "cart-1")),
		row("welcome", set("coupon_code", "WELCOME10")),
		row("expired", set("coupon_code", "EXPIRED10")),
		row("no coupon", set("customer_id", "x")), // a name that is none
		row("currency", set("currency", "XXX")),
		row("members", set("strange", true), set("items", []any{})),
		"17", "null", `{}`,
		row("last"),
	}
	task := wantAccepted(t, w.importOrders(freshKey(), importOf(rows...)))
	w.work(imports.NewImporter(nil))
	ended := w.ended(task.Id.String())
	if ended.State != api.TaskStateSucceeded || ended.Progress != (api.TaskProgress{Done: 14, Total: 14, Succeeded: 5, Rejected: 9}) || ended.Attempt != 1 {
		t.Errorf("%+v", ended)
	}
	var got []string
	for i, r := range w.results(task.Id.String(), "") {
		if int(r.Row) != i {
			t.Errorf("row %d stands at %d", r.Row, i)
		}
		line := string(r.State)
		if r.ClientOrderId != nil {
			line += " " + *r.ClientOrderId
		}
		if r.Problem != nil {
			line += " " + r.Problem.Code
		}
		if (r.OrderId != nil) != (r.State == api.TaskResultStateSucceeded) {
			t.Errorf("%+v", r)
		}
		got = append(got, line)
	}
	want := []string{
		"succeeded good", "succeeded good", "rejected good client_order_exists", "succeeded there", "rejected checkout checkout_already_ordered",
		"succeeded welcome", "rejected expired coupon_expired", "rejected validation_failed", "rejected currency validation_failed",
		"rejected members validation_failed", "rejected validation_failed", "rejected validation_failed", "rejected validation_failed", "succeeded last",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	all := w.results(task.Id.String(), "")
	if *all[0].OrderId != *all[1].OrderId || "/orders/"+all[3].OrderId.String() != there.header.Get("Location") {
		t.Error("a row has not found the order of its name")
	}
	if *all[2].Problem.OrderId != *all[0].OrderId {
		t.Errorf("who stands in the way: %+v", all[2].Problem)
	}
	text, err := json.Marshal(all[9].Problem.Errors)
	w.must(err)
	if !strings.Contains(string(text), `{"pointer":"/items"`) || !strings.Contains(string(text), `strange`) {
		t.Errorf("what is wrong with a row: %s", text)
	}
	if rejected := w.results(task.Id.String(), "&state=rejected"); len(rejected) != 9 {
		t.Errorf("%d rejected rows", len(rejected))
	}
	w.wantRows(rows0(5, 2, 5))
}

func TestImportThatCannotBeReadIsRefusedWhole(t *testing.T) {
	t.Parallel()
	w := setup(t)
	lines := []option{with("Content-Type", ndjson)}
	good := row("mine")
	for name, test := range map[string]struct {
		body    string
		options []option
		status  int
		code    string
		pointer string
	}{
		"no body":                        {"", nil, 400, "invalid_request", ""},
		"no object":                      {"[]", nil, 422, "validation_failed", ""},
		"no orders":                      {`{}`, nil, 422, "validation_failed", "/orders"},
		"an empty list":                  {`{"orders":[]}`, nil, 422, "validation_failed", "/orders"},
		"orders that are no list":        {`{"orders":{"0":` + good + `}}`, nil, 422, "validation_failed", "/orders"},
		"an unknown member":              {`{"orders":[` + good + `],"x":1}`, nil, 422, "validation_failed", ""},
		"a member twice":                 {`{"orders":[` + good + `],"orders":[` + good + `]}`, nil, 400, "invalid_request", "/orders"},
		"a strange reservation":          {`{"orders":[` + good + `],"reserve_inventory":"yes"}`, nil, 422, "validation_failed", "/reserve_inventory"},
		"broken JSON in the second":      {`{"orders":[` + good + `,{"a":]}`, nil, 400, "invalid_request", "/orders/1"},
		"a document that ends early":     {`{"orders":[` + good, nil, 400, "invalid_request", ""},
		"something behind it":            {`{"orders":[` + good + `]} {}`, nil, 400, "invalid_request", ""},
		"a member of an order twice":     {`{"orders":[` + good + `,{"sku":1,"sku":1}]}`, nil, 400, "invalid_request", "/orders/1/sku"},
		"NUL in an order":                {`{"orders":[` + row("mine", set("customer_id", "a\x00")) + `]}`, nil, 400, "invalid_request", "/orders/0/customer_id"},
		"a fraction in an order":         {`{"orders":[{"quantity":1.5}]}`, nil, 400, "invalid_request", "/orders/0/quantity"},
		"deep nesting":                   {`{"orders":[` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `]}`, nil, 400, "invalid_request", ""},
		"10 001 orders":                  {`{"orders":[` + strings.Repeat("{},", 10_000) + `{}]}`, nil, 422, "validation_failed", "/orders"},
		"an order past its own limit":    {`{"orders":[` + good + `,{"x":[` + strings.Repeat("1,", 150_000) + `1]}]}`, nil, 413, "body_too_large", ""},
		"a member past its limit":        {`{"x":[` + strings.Repeat("1,", 150_000) + `1]}`, nil, 413, "body_too_large", ""},
		"a list of numbers past a limit": {`[` + strings.Repeat("1,", 150_000) + `1]`, nil, 413, "body_too_large", ""},
		"a body past the limit":          {strings.Repeat(" ", 16<<20) + importOf(good), nil, 413, "body_too_large", ""},
		"a line that is no JSON":         {good + "\nx\n", lines, 400, "invalid_request", "/orders/1"},
		"a line of two documents":        {good + "\n" + good + " " + good + "\n", lines, 400, "invalid_request", "/orders/1"},
		"a document of two lines":        {good + "\n{\n}\n", lines, 400, "invalid_request", "/orders/1"},
		"lines without one":              {"\n \n", lines, 422, "validation_failed", "/orders"},
		"10 001 lines":                   {strings.Repeat("{}\n", 10_001), lines, 422, "validation_failed", "/orders"},
		"a line past the limit of one":   {good + "\n" + `"` + strings.Repeat("x", 300<<10) + `"`, lines, 413, "body_too_large", ""},
		"NUL in a line":                  {good + "\n" + row("mine", set("customer_id", "a\x00")), lines, 400, "invalid_request", "/orders/1/customer_id"},
		"lines in another encoding":      {good, []option{with("Content-Type", ndjson+"; charset=latin-1")}, 415, "unsupported_media_type", ""},
		"another media type":             {good, []option{with("Content-Type", "text/csv")}, 415, "unsupported_media_type", ""},
		"orders are no lines":            {good, []option{with("Content-Type", "application/json")}, 422, "validation_failed", ""},
	} {
		a := w.importOrders(freshKey(), test.body, test.options...)
		wantProblem(t, a, test.status, test.code)
		if test.pointer != "" && (len(a.Errors) == 0 || a.Errors[0].Pointer != test.pointer) {
			t.Errorf("%s: want a fault at %s: %s", name, test.pointer, a.body)
		}
	}
	w.wantRows(rows0(0, 0, 0))
	// And the largest that there may be.
	wantAccepted(t, w.importOrders(freshKey(), `{"orders":[`+strings.Repeat("{},", 9_999)+`{}]}`))
}

// Only so many bodies of rows come in at once, and one tenant has its share of them.
func TestLargeBodiesAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var holding []*io.PipeWriter
	answers := make(chan answer, intakesOfTenant)
	for range intakesOfTenant {
		reader, writer := io.Pipe()
		holding = append(holding, writer)
		key := freshKey()
		go func() {
			a, err := w.try(http.MethodPost, "/order-imports", reader, with("Content-Type", ndjson), with(keyHeader, key))
			if err != nil {
				t.Error(err)
			}
			answers <- a
		}()
		_, err := writer.Write([]byte(row("mine") + "\n"))
		w.must(err)
	}
	w.poll("all of them to come in", func() bool {
		w.server.crowd.mu.Lock()
		defer w.server.crowd.mu.Unlock()
		return w.server.crowd.of[w.tenant] == intakesOfTenant
	})
	a := w.importOrders(freshKey(), importOf(row("mine")))
	wantProblem(t, a, 503, "busy")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	_, stranger := w.principal("globex", "shop", "imports:create")
	wantAccepted(t, w.importOrders(freshKey(), importOf(row("mine")), as(stranger)))
	for _, writer := range holding {
		w.must(writer.Close())
		wantAccepted(t, <-answers)
	}
	wantAccepted(t, w.importOrders(freshKey(), importOf(row("mine"))))
}

func rows0(orders, records, events int) rows { return rows{orders, records, events} }

func (w *world) count(sql string) (n int) {
	w.t.Helper()
	conn := w.connect()
	defer conn.Close(w.t.Context())
	w.must(conn.QueryRow(w.t.Context(), sql).Scan(&n))
	return n
}

func (w *world) poll(what string, reached func() bool) {
	w.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !reached() {
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatalf("waited in vain for %s", what)
		}
	}
}
