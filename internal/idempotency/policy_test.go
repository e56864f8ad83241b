package idempotency_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"orderonce/internal/idempotency"
)

func publishedPolicy() map[string]any {
	return map[string]any{
		"scope": "principal", "retention": "72h", "wait": "2s", "replay": "snapshot", "max-response": "64KiB",
	}
}

func TestPolicyIsReadAsPublished(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change map[string]any
		want   idempotency.Policy
	}{
		"principal, snapshot": {nil, idempotency.Policy{Retention: 72 * time.Hour, Wait: 2 * time.Second, MaxResponse: 65536}},
		"tenant, reference": {
			map[string]any{"scope": "tenant", "replay": "reference", "retention": "90s", "wait": "150ms", "max-response": "1KiB"},
			idempotency.Policy{
				TenantWide: true, Reference: true,
				Retention: 90 * time.Second, Wait: 150 * time.Millisecond, MaxResponse: 1024,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			extension := publishedPolicy()
			maps.Copy(extension, c.change)
			got, err := idempotency.ParsePolicy(extension)
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
}

// A promise that cannot be read must stop the start: a default would be another promise than the published one.
func TestUnreadablePolicyIsAnErrorThatNamesTheMember(t *testing.T) {
	t.Parallel()
	for name := range publishedPolicy() {
		extension := publishedPolicy()
		delete(extension, name)
		wantPolicyError(t, extension, name+" is missing")
	}
	for name, values := range map[string][]any{
		"scope":     {"", "Principal", "global", true, nil},
		"replay":    {"", "none", 1},
		"retention": {"", "0s", "-1h", "72", "3d", 72.0, nil},
		"wait":      {"", "0", "-1ms", "soon", []any{"2s"}},
		"max-response": {
			"", "64", "64kB", "64 KiB", "-1KiB", "0KiB", "1.5KiB", "KiB", 65536, nil,
			"9223372036854775807KiB", // its bytes are past an int
		},
		"max_response": {"64KiB"},
		"ttl":          {"72h"},
	} {
		for _, value := range values {
			extension := publishedPolicy()
			extension[name] = value
			wantPolicyError(t, extension, name)
		}
	}
	wantPolicyError(t, nil, "is missing")
}

func wantPolicyError(t *testing.T, extension map[string]any, part string) {
	t.Helper()
	if p, err := idempotency.ParsePolicy(extension); err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%v is %+v, %v; want an error about %q", extension, p, err, part)
	}
}

// What an operation promises about its tasks is read with the same care.
func TestTaskPolicyIsReadAsPublished(t *testing.T) {
	t.Parallel()
	published := func() map[string]any { return map[string]any{"lease": "30s", "result-retention": "7d", "poll": "2s"} }
	with := func(task map[string]any) map[string]any {
		extension := publishedPolicy()
		extension["task"] = task
		return extension
	}
	got, err := idempotency.ParsePolicy(with(published()))
	want := &idempotency.TaskPolicy{Lease: 30 * time.Second, ResultRetention: 7 * 24 * time.Hour, Poll: 2 * time.Second}
	if diff := cmp.Diff(want, got.Task); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if got.Keep() != 7*24*time.Hour {
		t.Errorf("the key is kept for %s", got.Keep())
	}
	got.Retention = 8 * 24 * time.Hour
	if got.Keep() != got.Retention || (idempotency.Policy{Retention: time.Hour}).Keep() != time.Hour {
		t.Errorf("the key is kept for %s", got.Keep())
	}
	for name := range published() {
		task := published()
		delete(task, name)
		wantPolicyError(t, with(task), "task: "+name+" is missing")
	}
	for name, values := range map[string][]any{
		"lease":            {"", "0s", "30", "1d", nil},
		"result-retention": {"", "0d", "-1d", "d", "1.5d", "70000d", "0s", "7", 7, nil},
		"poll":             {"", "-2s", "soon"},
		"pull":             {"2s"},
	} {
		for _, value := range values {
			task := published()
			task[name] = value
			wantPolicyError(t, with(task), name)
		}
	}
	for _, task := range []any{"30s", nil, []any{}} {
		extension := publishedPolicy()
		extension["task"] = task
		wantPolicyError(t, extension, "task")
	}
}

// Case 21: who asks is part of the scope, unless the policy says that the whole tenant shares it.
func TestScopeHoldsTheCallerUnlessTenantWide(t *testing.T) {
	t.Parallel()
	tenant, principal := uuid.New(), uuid.New()
	const operation, key = "createOrder", idempotency.Key("0123456789abcdef")
	for tenantWide, want := range map[bool]idempotency.Scope{
		false: {Tenant: tenant, Principal: principal, Operation: operation, Key: key},
		true:  {Tenant: tenant, Principal: uuid.Nil, Operation: operation, Key: key},
	} {
		got := idempotency.Policy{TenantWide: tenantWide}.Scope(tenant, principal, operation, key)
		if got != want {
			t.Errorf("tenant-wide %v: %+v, want %+v", tenantWide, got, want)
		}
	}
}
