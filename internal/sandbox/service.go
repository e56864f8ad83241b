package sandbox

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// service is what one of the services is asked for, and how it says no.
type service struct {
	paths   map[string]string // from the last part of a path to the operation
	refusal int               // the status of a decline
	reverts map[string]string // from an operation to what has to be there for it to undo
}

var services = map[string]service{
	"payment": {
		paths:   map[string]string{"authorizations": "authorize", "voids": "void"},
		refusal: http.StatusPaymentRequired,
		reverts: map[string]string{"void": "authorize"},
	},
	"inventory": {
		paths:   map[string]string{"reservations": "reserve", "releases": "release"},
		refusal: http.StatusConflict,
		reverts: map[string]string{"release": "reserve"},
	},
	"notification": {
		paths:   map[string]string{"messages": ""}, // each template is an operation
		refusal: http.StatusUnprocessableEntity,
	},
}

// request is what all the services' bodies have, and what one of them looks at.
type request struct {
	TenantID    string `json:"tenant_id"`
	OrderID     string `json:"order_id"`
	AmountMinor int64  `json:"amount_minor"`
	Template    string `json:"template"`
	Items       []struct {
		SKU string `json:"sku"`
	} `json:"items"`
}

// soldOut begins the SKUs of which there are never any left.
const soldOut = "SOLD-OUT"

// decline is why a service says no, by its own rules; empty where it does not.
func (r request) decline(settings Settings) string {
	if settings.DeclineOver > 0 && r.AmountMinor > settings.DeclineOver {
		return fmt.Sprintf("the amount is over %d", settings.DeclineOver)
	}
	for _, item := range r.Items {
		if strings.HasPrefix(item.SKU, soldOut) {
			return item.SKU + " is sold out"
		}
	}
	return ""
}

func newReference(service string) string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return service[:3] + "_" + hex.EncodeToString(b[:])
}

// Duration is a time.Duration that JSON writes as "24h0m0s".
type Duration time.Duration

// MarshalText writes it as Go does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads it as Go does.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// problem is how everything that is not as asked for is told (RFC 9457).
type problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Title  string `json:"title"`
}

func (p problem) write(w http.ResponseWriter) {
	writeJSON(w, "application/problem+json", p.Status, p)
}

func answer(w http.ResponseWriter, status int, body any) {
	writeJSON(w, "application/json", status, body)
}

func writeJSON(w http.ResponseWriter, contentType string, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // whoever asked has gone
}

// readJSON reads a bounded body, in which there is nothing that v does not know where it is strict.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return err
	}
	if decoder.More() {
		return errors.New("there is more than one value")
	}
	return nil
}

// maxBody is far more than an order's items need.
const maxBody = 1 << 20
