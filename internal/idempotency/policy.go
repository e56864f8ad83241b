package idempotency

import (
	"fmt"
	"maps"
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
	Task        *TaskPolicy   // of an operation whose answer is a promise to do the work; nil for all others
}

// TaskPolicy is what an operation promises about the work that it accepts.
type TaskPolicy struct {
	Lease           time.Duration // how long a worker owns a task that it does not write to
	ResultRetention time.Duration // how long the results are kept, counted from the end
	Poll            time.Duration // how long a client should wait between two looks
}

// Keep is how long the record of a promise is kept once that was kept: as long as there are results to lead to.
func (p Policy) Keep() time.Duration {
	if p.Task == nil {
		return p.Retention
	}
	return max(p.Retention, p.Task.ResultRetention)
}

// Scope is the scope of one key of the operation for a caller.
func (p Policy) Scope(tenant, principal uuid.UUID, operation string, key Key) Scope {
	if p.TenantWide {
		principal = uuid.Nil
	}
	return Scope{Tenant: tenant, Principal: principal, Operation: operation, Key: key}
}

// ParsePolicy reads an x-idempotency extension. Every member but task is required and no other is known, so that a
// misspelt promise fails the start instead of becoming a default. Of task, in turn, every member is required.
func ParsePolicy(extension map[string]any) (Policy, error) {
	var p Policy
	extension = maps.Clone(extension)
	if task, is := extension["task"].(map[string]any); is {
		delete(extension, "task")
		p.Task = &TaskPolicy{}
		err := parseMembers("x-idempotency: task", task, map[string]func(string) error{
			"lease":            duration(&p.Task.Lease),
			"result-retention": days(&p.Task.ResultRetention),
			"poll":             duration(&p.Task.Poll),
		})
		if err != nil {
			return Policy{}, err
		}
	}
	err := parseMembers("x-idempotency", extension, map[string]func(string) error{
		"scope":        oneOf(&p.TenantWide, "principal", "tenant"),
		"replay":       oneOf(&p.Reference, "snapshot", "reference"),
		"retention":    duration(&p.Retention),
		"wait":         duration(&p.Wait),
		"max-response": size(&p.MaxResponse),
	})
	if err != nil {
		return Policy{}, err
	}
	return p, nil
}

func parseMembers(of string, given map[string]any, members map[string]func(string) error) error {
	for name, value := range given {
		parse, ok := members[name]
		if !ok {
			return fmt.Errorf("%s: unknown member %q", of, name)
		}
		text, _ := value.(string)
		if err := parse(text); err != nil {
			return fmt.Errorf("%s: %s: %w", of, name, err)
		}
		delete(members, name)
	}
	for name := range members {
		return fmt.Errorf("%s: %s is missing", of, name)
	}
	return nil
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

// days is a duration that may be said in whole days, such as 7d.
func days(into *time.Duration) func(string) error {
	return func(text string) error {
		number, whole := strings.CutSuffix(text, "d")
		if !whole {
			return duration(into)(text)
		}
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is no number of days", text)
		}
		*into = time.Duration(n) * 24 * time.Hour
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
