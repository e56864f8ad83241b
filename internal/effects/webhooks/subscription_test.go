package webhooks_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"orderonce/internal/effects/webhooks"
	"orderonce/internal/fault"
	"orderonce/internal/postgres"
)

// A retry under another idempotency key makes no second webhook, which would get everything twice.
func TestCreatedAgainIsFoundWithoutItsSecret(t *testing.T) {
	t.Parallel()
	f := setup(t)
	draft := webhooks.Draft{
		Name: "erp", URL: "https://erp.example/hooks",
		EventTypes: []string{"orderonce.order.created.v1", "orderonce.order.cancelled.v1", "orderonce.order.created.v1"},
	}
	first, secret, err := f.create(draft)
	if err != nil {
		t.Fatal(err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) < 24 || len(key) > 64 || !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("the secret has %d bytes, %v", len(key), err)
	}
	again, none, err := f.create(draft)
	if err != nil || none != "" {
		t.Errorf("again: %q, %v", none, err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("again (-first +again)\n%s", diff)
	}
	for name, other := range map[string]webhooks.Draft{
		"another URL": {Name: "erp", URL: "https://erp.example/other", EventTypes: draft.EventTypes},
		"other types": {Name: "erp", URL: draft.URL},
	} {
		if _, _, err := f.create(other); fault.KindOf(err) != fault.NameTaken {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCreatedAtOnceIsOneWithOneSecret(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const units = 4
	var secrets [units]string
	var ids [units]uuid.UUID
	barrier, ended := make(chan struct{}), sync.WaitGroup{}
	for i := range units {
		ended.Go(func() {
			<-barrier
			s, secret, err := f.create(webhooks.Draft{Name: "erp", URL: "https://erp.example/"})
			if err != nil {
				t.Error(err)
			}
			ids[i], secrets[i] = s.ID, secret
		})
	}
	close(barrier)
	ended.Wait()
	shown := 0
	for i := range units {
		if secrets[i] != "" {
			shown++
		}
		if ids[i] != ids[0] {
			t.Errorf("two webhooks %v", ids)
		}
	}
	if shown != 1 {
		t.Errorf("%d secrets were shown", shown)
	}
}

func TestDraftIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for pointer, drafts := range map[string][]webhooks.Draft{
		"/name": {{Name: "", URL: "https://a.example"}, {Name: "Erp", URL: "https://a.example"}, {Name: strings.Repeat("a", 64), URL: "https://a.example"}},
		"/url":  {{Name: "erp"}, {Name: "erp", URL: "ftp://a.example"}},
		"/event_types/1": {{
			Name: "erp", URL: "https://a.example", EventTypes: []string{"orderonce.order.created.v1", "orderonce.order.shipped.v1"},
		}},
	} {
		for _, draft := range drafts {
			_, _, err := f.create(draft)
			if fault.KindOf(err) != fault.ValidationFailed || !strings.Contains(err.Error(), pointer+" ") {
				t.Errorf("%+v: %v, want one about %s", draft, err, pointer)
			}
		}
	}
}

// An event costs a delivery for each, so they have a bound; disabled ones cost nothing.
func TestActiveWebhooksAreLimited(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var first webhooks.Subscription
	for i := range webhooks.MaxActive {
		s, _ := f.subscribe(fmt.Sprintf("hook-%d", i), "https://a.example/")
		if i == 0 {
			first = s
		}
	}
	another := webhooks.Draft{Name: "another", URL: "https://a.example/"}
	if _, _, err := f.create(another); fault.KindOf(err) != fault.LimitReached {
		t.Fatalf("one too many: %v", err)
	}
	f.change(func(ctx context.Context, tx *postgres.Tx) error {
		_, _, err := webhooks.Disable(ctx, tx, f.tenant, first.ID, webhooks.Requested)
		return err
	})
	if _, _, err := f.create(another); err != nil {
		t.Errorf("in the place of a disabled one: %v", err)
	}
	err := f.unit(func(ctx context.Context, tx *postgres.Tx) error {
		_, _, err := webhooks.Enable(ctx, tx, f.tenant, first.ID)
		return err
	})
	if fault.KindOf(err) != fault.LimitReached {
		t.Errorf("enabled past the limit: %v", err)
	}
}

func TestDisableAndEnableSayWhatChanged(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s, _ := f.subscribe("erp", "https://a.example/")
	disable := func(ctx context.Context, tx *postgres.Tx, tenant, id uuid.UUID) (webhooks.Subscription, bool, error) {
		return webhooks.Disable(ctx, tx, tenant, id, webhooks.Requested)
	}
	for i, step := range []struct {
		do              func(context.Context, *postgres.Tx, uuid.UUID, uuid.UUID) (webhooks.Subscription, bool, error)
		active, changed bool
	}{{webhooks.Enable, true, false}, {disable, false, true}, {disable, false, false}, {webhooks.Enable, true, true}} {
		f.change(func(ctx context.Context, tx *postgres.Tx) error {
			after, changed, err := step.do(ctx, tx, f.tenant, s.ID)
			if changed != step.changed || after.Active != step.active || (after.DisabledReason == nil) != step.active {
				t.Errorf("step %d: %t, %+v", i, changed, after)
			}
			return err
		})
	}
	for name, err := range map[string]error{
		"another tenant's": f.unit(func(ctx context.Context, tx *postgres.Tx) error {
			_, _, err := webhooks.Disable(ctx, tx, newID(t), s.ID, webhooks.Requested)
			return err
		}),
		"an absent one": f.unit(func(ctx context.Context, tx *postgres.Tx) error {
			_, _, err := webhooks.RotateSecret(ctx, tx, f.tenant, newID(t), 0)
			return err
		}),
	} {
		if fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecretsThatSignAtOnceAreLimited(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s, _ := f.subscribe("erp", "https://a.example/")
	rotate := func(overlap time.Duration) (secret string, err error) {
		err = f.unit(func(ctx context.Context, tx *postgres.Tx) (err error) {
			_, secret, err = webhooks.RotateSecret(ctx, tx, f.tenant, s.ID, overlap)
			return err
		})
		return secret, err
	}
	for range 4 {
		if _, err := rotate(time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rotate(time.Hour); fault.KindOf(err) != fault.LimitReached {
		t.Errorf("a sixth: %v", err)
	}
	if secret, err := rotate(0); err != nil || secret == "" {
		t.Errorf("after all others have ended: %v", err)
	}
	for _, overlap := range []time.Duration{-1, webhooks.MaxOverlap + time.Second} {
		if _, err := rotate(overlap); fault.KindOf(err) != fault.ValidationFailed {
			t.Errorf("an overlap of %s: %v", overlap, err)
		}
	}
}
