package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"orderonce/internal/identity"
)

func (w *world) cancel(order, key string, options ...option) answer {
	w.t.Helper()
	return w.send(http.MethodPost, order+"/cancel", nil, append([]option{with(keyHeader, key)}, options...)...)
}

func TestCancelHappensOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	placed := w.place(freshKey(), order())
	path := placed.header.Get("Location")
	key := freshKey()
	first := w.cancel(path, key)
	if first.status != http.StatusOK || first.header.Get("Etag") != `"2"` || !strings.Contains(string(first.body), `"status":"cancelled"`) {
		t.Fatalf("%d %v %s", first.status, first.header, first.body)
	}
	wantReplay(t, first, w.cancel(path, key))
	wantReplay(t, first, w.cancel("/orders/"+strings.ToUpper(strings.TrimPrefix(path, "/orders/")), key)) // the same id
	w.wantRows(rows{1, 2, 2})

	again := freshKey()
	refused := w.cancel(path, again)
	wantProblem(t, refused, 409, "order_not_cancellable")
	wantReplay(t, refused, w.cancel(path, again))
	w.wantRows(rows{1, 3, 2})

	// Case 8: what is in the path is a part of the request.
	other := w.place(freshKey(), order()).header.Get("Location")
	reused := w.cancel(other, key)
	wantProblem(t, reused, 409, "idempotency_key_reused")
	if reused.Differing == nil || strings.Join(*reused.Differing, " ") != "{orderId}" {
		t.Errorf("differing: %s", reused.body)
	}

	_, stranger := w.principal("globex", "shop", identity.TenantScopes()...)
	wantProblem(t, w.cancel(other, freshKey(), as(stranger)), 404, "not_found")
	wantProblem(t, w.cancel("/orders/"+freshKey(), freshKey()), 404, "not_found")
	wantProblem(t, w.cancel(other, "short"), 400, "idempotency_key_invalid")
	_, reader := w.principal("acme", "reader", identity.OrdersRead)
	wantProblem(t, w.cancel(other, freshKey(), as(reader)), 403, "forbidden")
	w.wantRows(rows{2, 4, 3})
}

// One change per version: fifty clerks cancel one order.
func TestParallelCancelsChangeOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	path := w.place(freshKey(), order()).header.Get("Location")
	done := 0
	for _, a := range storm(t, 50, func(int) (answer, error) {
		return w.try(http.MethodPost, path+"/cancel", nil, with(keyHeader, freshKey()))
	}) {
		if a.status == http.StatusOK {
			done++
		} else if a.Code != "order_not_cancellable" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if done != 1 {
		t.Errorf("cancelled %d times", done)
	}
	w.wantRows(rows{1, 51, 2})
}
