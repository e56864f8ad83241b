package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// printWelcome prints what a newcomer pastes first: one order, sent twice.
func printWelcome(out io.Writer, r ready, drop float64) {
	key := uuid.Must(uuid.NewV7())
	fmt.Fprintf(out, `
OrderOnce is ready on %[1]s

Paste this, and then paste it again: the second answer is the first one, byte for byte, with
Idempotency-Replayed: true, and there is one order.

curl -i %[1]s/orders \
  -H 'Authorization: Bearer %[2]s' \
  -H 'Idempotency-Key: %[3]s' \
  -H 'Content-Type: application/json' \
  -d '{"customer_id":"customer-1","currency":"EUR","shipping_address_id":"address-1","coupon_code":"WELCOME10","items":[{"sku":"MUG-BLUE","quantity":2,"unit_price_minor":1250}]}'

Change an amount and keep the key: 409 idempotency_key_reused tells where. Take a new key and the coupon
EXPIRED10: a rejection, stored and replayed like a success.

  contract  %[1]s/openapi.yaml
  traces    %[1]s/debug/traces
  reference %[1]s/docs
  a shop    %[1]s/demo
  acme      %[2]s
  globex    %[4]s
  ops       %[6]s
  database  %[5]s
  sandbox   %[7]s
`, r.BaseURL, r.Keys["acme"], key, r.Keys["globex"], r.DatabaseURL, r.Keys["ops"], r.SandboxURL)
	if drop > 0 {
		fmt.Fprintf(out, "\n%s of the changing requests are done and then lose their answer.\n", share(drop))
	}
	fmt.Fprintln(out, "\nCtrl-C stops it.")
}

func share(s float64) string { return strconv.FormatFloat(100*s, 'f', -1, 64) + "%" }

// parseShare reads "30%" as 0.3.
func parseShare(text string) (float64, error) {
	number, ok := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(percent >= 0 && percent <= 100) {
		return 0, errors.New("must be between 0% and 100%")
	}
	return percent / 100, nil
}

func drawn(share float64) bool { return rand.Float64() < share } //nolint:gosec // chance, no secret

// unheard takes an answer that nobody will get.
type unheard struct{ http.ResponseWriter }

func (unheard) WriteHeader(int)             {}
func (unheard) Write(b []byte) (int, error) { return len(b), nil }

// Unwrap lets the body's read deadline be set.
func (u unheard) Unwrap() http.ResponseWriter { return u.ResponseWriter }
