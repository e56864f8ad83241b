package httpapi

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"orderonce/internal/identity"
	"orderonce/internal/orders"
	"orderonce/internal/postgres/postgrestest"
)

// naming is a request that names something: an order, a checkout, a key.
type naming struct {
	send   func(name string, as option) answer
	theirs string        // the victim's
	absent func() string // nobody's
	status int           // for what is not the caller's
}

// Promise 7, in body and in timing class: a name that another tenant uses costs the database the very statements that a
// name costs which nobody uses, and gets the very answer. What differs in time, then, is not for whose name it is.
func TestOtherTenantsNamesCostWhatAbsentOnesCost(t *testing.T) {
	t.Parallel()
	tap, url := newTap(t, postgrestest.URL(t))
	w := setupOn(t, defaultConfig(), url)
	strangers := 0
	for name, n := range w.namings() {
		strangers++ // one each: what was made under a name is not absent the next time
		tenant, token := w.principal(fmt.Sprint("stranger-", strangers), "shop", identity.TenantScopes()...)
		stranger := as(token)
		_ = n.send(n.absent(), stranger) // so that the credential is remembered and the statements are prepared
		var absent, theirs answer
		free := n.absent()
		costOfAbsent := tap.record(func() { absent = n.send(free, stranger) })
		costOfTheirs := tap.record(func() { theirs = n.send(n.theirs, stranger) })
		if absent.status != n.status || len(costOfAbsent) == 0 {
			t.Errorf("%s: for nobody's name got %d after %q: %s", name, absent.status, costOfAbsent, absent.body)
		}
		if diff := cmp.Diff(costOfAbsent, costOfTheirs); diff != "" {
			t.Errorf("%s: the statements tell another tenant's name (-absent +theirs)\n%s", name, diff)
		}
		if diff := cmp.Diff(absent.impersonal(free), theirs.impersonal(n.theirs)); diff != "" {
			t.Errorf("%s: the answer tells another tenant's name (-absent +theirs)\n%s", name, diff)
		}
		// Only the caller's tenant is named, for one transaction. Nobody's is named to look for the credential.
		for _, sql := range costOfTheirs {
			if strings.Contains(sql, "orderonce.tenants") && sql != "SET LOCAL orderonce.tenants = '"+tenant.String()+"'" &&
				sql != "SET LOCAL orderonce.tenants = ''" {
				t.Errorf("%s: sent %s", name, sql)
			}
		}
	}
}

// namings are all requests of a stranger's that name something, with what the first tenant owns under such a name.
func (w *world) namings() map[string]naming {
	w.t.Helper()
	key, earlier := freshKey(), freshKey()
	placed := w.place(key, order(set("checkout_id", "their-checkout")))
	wantCreated(w.t, placed, "false")
	id := strings.TrimPrefix(placed.header.Get("Location"), "/orders/")
	json := with("Content-Type", "application/json")
	put := w.send(http.MethodPut, "/client-orders/their-order", strings.NewReader(order()), json)
	if put.status != http.StatusCreated {
		w.t.Fatalf("%d %s", put.status, put.body)
	}
	w.coupon(orders.Coupon{Code: "their-coupon", Percent: 10})
	cancel := func(key, id string, stranger option) answer {
		return w.send(http.MethodPost, "/orders/"+id+"/cancel", nil, stranger, with(keyHeader, key))
	}
	cancelKey := freshKey()
	if a := w.send(http.MethodPost, "/orders/"+id+"/cancel", nil, with(keyHeader, cancelKey)); a.status != http.StatusOK {
		w.t.Fatalf("%d %s", a.status, a.body)
	}
	task := w.failedTask()
	hook := w.hook(freshKey(), "their-hook").Id.String()
	secretOf := func(id string, stranger option) answer {
		return w.post(freshKey(), "/webhooks/"+id+"/rotate-secret", map[string]any{}, stranger)
	}
	word := func() string { return "absent-" + freshKey()[24:] }
	before := func() string { return pageToken(uuid.MustParse(earlier)) }
	return map[string]naming{
		"getOrder":          {func(id string, stranger option) answer { return w.get("/orders/"+id, stranger) }, id, freshKey, 404},
		"getClientOrder":    {func(id string, stranger option) answer { return w.get("/client-orders/"+id, stranger) }, "their-order", word, 404},
		"cancelOrder":       {func(id string, stranger option) answer { return cancel(freshKey(), id, stranger) }, id, freshKey, 404},
		"cancelOrder, key":  {func(key string, stranger option) answer { return cancel(key, uuid.Max.String(), stranger) }, cancelKey, freshKey, 404},
		"listOrders":        {func(c string, stranger option) answer { return w.get("/orders?checkout_id="+c, stranger) }, "their-checkout", word, 200},
		"listOrders, token": {func(s string, stranger option) answer { return w.get("/orders?page_token="+s, stranger) }, pageToken(uuid.MustParse(id)), before, 200},
		"createWebhook": {func(name string, stranger option) answer {
			return w.post(freshKey(), "/webhooks", newHook(name), stranger)
		}, "their-hook", word, 201},
		"listWebhooks, token": {func(s string, stranger option) answer { return w.get("/webhooks?page_token="+s, stranger) }, pageToken(uuid.MustParse(hook)), before, 200},
		"rotateWebhookSecret": {secretOf, hook, freshKey, 404},
		"disableWebhook": {func(id string, stranger option) answer {
			return w.post(freshKey(), "/webhooks/"+id+"/disable", nil, stranger)
		}, hook, freshKey, 404},
		"enableWebhook": {func(id string, stranger option) answer {
			return w.post(freshKey(), "/webhooks/"+id+"/enable", nil, stranger)
		}, hook, freshKey, 404},
		"getIdempotencyKey": {func(key string, stranger option) answer {
			return w.get("/idempotency-keys/"+key+"?operation=createOrder", stranger)
		}, key, freshKey, 200},
		"createOrder, key": {func(key string, stranger option) answer { return w.place(key, order(), stranger) }, key, uuid.NewString, 201},
		"createOrder, checkout": {func(c string, stranger option) answer {
			return w.place(freshKey(), order(set("checkout_id", c)), stranger)
		}, "their-checkout", word, 201},
		"createOrder, coupon": {func(c string, stranger option) answer {
			return w.place(freshKey(), order(set("coupon_code", c)), stranger)
		}, "their-coupon", word, 422},
		"putOrder": {func(id string, stranger option) answer {
			return w.send(http.MethodPut, "/client-orders/"+id, strings.NewReader(order()), json, stranger)
		}, "their-order", word, 201},
		"getTask":         {func(id string, stranger option) answer { return w.get("/tasks/"+id, stranger) }, task, freshKey, 404},
		"listTaskResults": {func(id string, stranger option) answer { return w.get("/tasks/"+id+"/results", stranger) }, task, freshKey, 404},
		"retryTask": {func(id string, stranger option) answer {
			return w.send(http.MethodPost, "/tasks/"+id+"/retry", nil, stranger, with(keyHeader, freshKey()))
		}, task, freshKey, 404},
		"putOrder, checkout": {func(c string, stranger option) answer {
			return w.send(http.MethodPut, "/client-orders/"+freshKey(), strings.NewReader(order(set("checkout_id", c))), json, stranger)
		}, "their-checkout", word, 201},
	}
}

var oneTimeOnly = []*regexp.Regexp{
	regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), // ids, of the request too
	regexp.MustCompile(`whsec_[A-Za-z0-9+/]+=`),
	regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`),
	regexp.MustCompile(`[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT`),
}

// impersonal is the whole answer, without what differs between any two of them and the name that it is about.
func (a answer) impersonal(name string) string {
	lines := []string{fmt.Sprint(a.status), string(a.body)}
	for header, values := range a.header {
		if header != "Content-Length" { // the body's, and a time may end in zeros that are not written
			lines = append(lines, header+": "+strings.Join(values, ", "))
		}
	}
	slices.Sort(lines)
	text := strings.ReplaceAll(strings.Join(lines, "\n"), name, "(the name)")
	for _, varying := range oneTimeOnly {
		text = varying.ReplaceAllString(text, "(varies)")
	}
	return text
}
