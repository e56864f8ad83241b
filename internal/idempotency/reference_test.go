package idempotency_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"

	"orderonce/internal/idempotency"
	"orderonce/internal/postgres"
)

// Case 15: one byte decides whether an answer is kept whole. Where there is nothing to refer to it always is.
func TestAnswerPastTheLimitIsKeptByReference(t *testing.T) {
	t.Parallel()
	f := setup(t)
	resource := &idempotency.Resource{Type: "thing", ID: uuid.New()}
	for name, c := range map[string]struct {
		size        int
		resource    *idempotency.Resource
		reference   bool // the policy's
		byReference bool
	}{
		"limit - 1":                      {size: 99, resource: resource},
		"limit":                          {size: 100, resource: resource},
		"limit + 1":                      {size: 101, resource: resource, byReference: true},
		"limit + 1, nothing to refer to": {size: 101},
		"a policy of references":         {size: 1, resource: resource, reference: true, byReference: true},
	} {
		request := newRequest(t)
		request.Policy.MaxResponse, request.Policy.Reference = 100, c.reference
		body := strings.Repeat("x", c.size)
		work := func(context.Context, *postgres.Tx) (idempotency.Answer, error) {
			return idempotency.Answer{Status: 201, Body: []byte(body), Resource: c.resource}, nil
		}
		if first := f.do(request, work); string(first.Body) != body || first.ByReference {
			t.Errorf("%s: the first answer is not whole: %+v", name, first)
		}
		again := f.do(request, work)
		if again.ByReference != c.byReference || c.byReference != (again.Body == nil) || !again.Replayed {
			t.Errorf("%s: the replay is %+v", name, again)
		}
		if c.byReference && *again.Resource != *resource {
			t.Errorf("%s: refers to %v", name, again.Resource)
		}
	}
}
