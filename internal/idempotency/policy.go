package idempotency

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Scope is where a key is unique: the same key in another scope is another key.
type Scope struct {
	Tenant    uuid.UUID
	Principal uuid.UUID // the nil UUID where the policy's scope is the whole tenant
	Operation string    // the spec's operationId
	Key       Key
}

// Policy is one operation's promise about its keys, as its x-idempotency in openapi.yaml publishes it.
type Policy struct {
	TenantWide  bool          // scope: tenant; every caller of the tenant shares the key space
	Retention   time.Duration // how long an outcome is remembered, counted from its completion
	Wait        time.Duration // how long a duplicate waits for the first before fault.InProgress
	Reference   bool          // replay: reference; keep the resource's id and not the answer
	MaxResponse int           // bytes of an answer that is stored as it is
}

// Scope is the scope of one key of the operation for a caller.
func (p Policy) Scope(tenant, principal uuid.UUID, operation string, key Key) Scope {
	if p.TenantWide {
		principal = uuid.Nil
	}
	return Scope{Tenant: tenant, Principal: principal, Operation: operation, Key: key}
}

// ParsePolicy reads an x-idempotency extension. Every member is required and no other is known, so that a
// misspelt promise fails the start instead of becoming a default.
func ParsePolicy(extension map[string]any) (Policy, error) {
	var p Policy
	var err error
	members := map[string]func(string) error{
		"scope":        oneOf(&p.TenantWide, "principal", "tenant"),
		"replay":       oneOf(&p.Reference, "snapshot", "reference"),
		"retention":    duration(&p.Retention),
		"wait":         duration(&p.Wait),
		"max-response": size(&p.MaxResponse),
	}
	for name, value := range extension {
		parse, ok := members[name]
		if !ok {
			return Policy{}, fmt.Errorf("x-idempotency: unknown member %q", name)
		}
		text, _ := value.(string)
		if err = parse(text); err != nil {
			return Policy{}, fmt.Errorf("x-idempotency: %s: %w", name, err)
		}
		delete(members, name)
	}
	for name := range members {
		return Policy{}, fmt.Errorf("x-idempotency: %s is missing", name)
	}
	return p, nil
}

func oneOf(second *bool, names ...string) func(string) error {
	return func(text string) error {
		for i, name := range names {
			if text == name {
				*second = i == 1
				return nil
			}
		}
		return fmt.Errorf("%q is none of %s", text, strings.Join(names, ", "))
	}
}

func duration(into *time.Duration) func(string) error {
	return func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		if d <= 0 {
			return fmt.Errorf("%s is not positive", text)
		}
		*into = d
		return nil
	}
}

func size(into *int) func(string) error {
	return func(text string) error {
		number, ok := strings.CutSuffix(text, "KiB")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n <= 0 || n > math.MaxInt>>10 {
			return fmt.Errorf("%q is no size in KiB, such as 64KiB", text)
		}
		*into = n << 10
		return nil
	}
}
