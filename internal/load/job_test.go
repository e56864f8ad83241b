package load

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]Target{
		"http://127.0.0.1:8080":          {Address: "127.0.0.1:8080", Host: "127.0.0.1:8080"},
		"http://127.0.0.1:8080/":         {Address: "127.0.0.1:8080", Host: "127.0.0.1:8080"},
		"https://orders.example.org":     {Address: "orders.example.org:443", Host: "orders.example.org", TLS: true},
		"http://orders.example.org/a/b/": {Address: "orders.example.org:80", Host: "orders.example.org", Path: "/a/b"},
		"http://[::1]:8080":              {Address: "[::1]:8080", Host: "[::1]:8080"},
	} {
		want.Key = "k"
		if got, err := ParseTarget(base, "k"); err != nil || got != want {
			t.Errorf("%s is %+v, %v", base, got, err)
		}
	}
	for _, base := range []string{"", "127.0.0.1:8080", "ftp://a", "http://", "http://a:b@c", "http://a?b", "http://a#b", ":"} {
		if got, err := ParseTarget(base, "k"); err == nil {
			t.Errorf("%q is %+v, and should be refused", base, got)
		}
	}
	if _, err := ParseTarget("http://a", "k\r\nX: y"); err == nil {
		t.Error("a key with a line break would be a header of its own")
	}
}

func TestBodiesAreOrders(t *testing.T) {
	t.Parallel()
	for _, body := range [][]byte{PlainBody(), newOrder(Job{Source: "here"}, 1).rest([]byte("{"), 0)} {
		var order map[string]any
		if err := json.Unmarshal(body, &order); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		if _, has := order["checkout_id"]; has {
			t.Errorf("it has a checkout: %s", body)
		}
	}
	if first, second := PlainBody(), PlainBody(); string(first) != string(second) {
		t.Error("the plain body is not always the same")
	}
}

// Counted ids are UUIDv7s of their time, each kind its own.
func TestCountedIDs(t *testing.T) {
	t.Parallel()
	const begin = 1_790_000_000_123
	var ids []uuid.UUID
	for _, kind := range []string{"key", "order"} {
		for i := range 100 {
			id := ID(kind, begin, i)
			seconds, nanoseconds := id.Time().UnixTime()
			if at := time.Unix(seconds, nanoseconds).UnixMilli(); id.Version() != 7 || id.Variant() != uuid.RFC4122 || at != begin+int64(i/16) {
				t.Fatalf("%s %d is %s, version %d, of %d", kind, i, id, id.Version(), at)
			}
			if slices.Contains(ids, id) {
				t.Fatalf("%s %d is another's id", kind, i)
			}
			ids = append(ids, id)
		}
	}
}
