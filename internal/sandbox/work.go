package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
)

// faultHeader asks for a fault of this one request.
const faultHeader = "Sandbox-Fault"

// maxKey is in bytes.
const maxKey = 255

// errKeyReused says that a remembered key came with another body.
var errKeyReused = errors.New("the key was used with another body")

// work is a request that changes something, from its arrival to whatever its caller sees of it.
func (s *Sandbox) work(w http.ResponseWriter, r *http.Request, service, operation string) {
	key := opKey{service, r.Header.Get("Idempotency-Key")}
	if key.key == "" || len(key.key) > maxKey {
		problem{http.StatusBadRequest, "invalid_key", "Idempotency-Key is needed, of 255 bytes at the most."}.write(w)
		return
	}
	// From here on nobody is told that the key is absent: it may yet be executed.
	defer s.begin(key)()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var in request
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if operation == "" {
		operation = in.Template
	}
	if err != nil || in.OrderID == "" || operation == "" {
		problem{http.StatusBadRequest, "invalid_body", "The body must be JSON with an order_id, and of a message its template."}.write(w)
		return
	}
	asked := Operation{Service: service, Operation: operation, IdempotencyKey: key.key, OrderID: in.OrderID, TenantID: in.TenantID}
	fault := s.faults.draw(asked)
	if kind := FaultKind(r.Header.Get(faultHeader)); kind != "" {
		fault = Fault{Kind: kind}
		if err := fault.check(); err != nil {
			problem{http.StatusBadRequest, "invalid_fault", err.Error()}.write(w)
			return
		}
	}
	happens := fates[fault.Kind]
	if happens.delay {
		s.wait(context.WithoutCancel(r.Context()), time.Duration(fault.Delay))
	}
	result, err := s.do(key, asked, in, body, happens)
	if err != nil && !errors.Is(err, errKeyReused) {
		s.log.ErrorContext(r.Context(), "the sandbox's store does not work", "error", err)
		problem{http.StatusInternalServerError, "store", "The store does not work."}.write(w)
		return
	}
	switch {
	case happens.hold:
		s.wait(r.Context(), s.hold)
		panic(http.ErrAbortHandler)
	case happens.cut:
		panic(http.ErrAbortHandler)
	case happens.status != 0:
		if happens.retry {
			w.Header().Set("Retry-After", strconv.Itoa(fault.RetryAfter))
		}
		problem{happens.status, string(fault.Kind), "This was asked for."}.write(w)
	case err != nil:
		problem{http.StatusBadRequest, "key_reused", "The key was used with another body."}.write(w)
	case happens.half:
		w.Header().Set("Content-Length", "1000")
		answer(w, http.StatusCreated, struct {
			Reference string `json:"reference"`
		}{result.Reference})
		_ = http.NewResponseController(w).Flush() // whoever asked has gone
		panic(http.ErrAbortHandler)
	case result.Outcome == declined:
		problem{services[service].refusal, "declined", result.Detail}.write(w)
	default:
		answer(w, http.StatusCreated, result.public())
	}
}

// do counts the request and does the work, where its fate lets it.
func (s *Sandbox) do(key opKey, asked Operation, in request, body []byte, happens fate) (result Operation, err error) {
	times := 1
	if happens.twice {
		times = 2
	}
	settings, hash := s.settingsOf(key.service), sha256.Sum256(body)
	for range times {
		result, err = s.store.change(key, func(tx *bbolt.Tx, now time.Time, o *Operation) error {
			if o.Requests++; o.Requests == 1 {
				o.Operation, o.OrderID, o.TenantID = asked.Operation, asked.OrderID, asked.TenantID
			}
			if happens.skipWork {
				return nil
			}
			if settings.Idempotent && o.Outcome != "" && now.Before(o.Remembered) {
				return nil // the outcome stands
			}
			why := in.decline(settings)
			if needs := services[key.service].reverts[asked.Operation]; needs != "" && !stands(tx, key.service, in.OrderID, needs) {
				why = "there is nothing to undo"
			}
			if happens.declines {
				why = "this was asked for"
			}
			o.Body, o.Remembered = hash[:], now.Add(time.Duration(settings.Retention))
			if why != "" {
				if o.Executions == 0 {
					o.Outcome, o.Detail = declined, why
				}
				return nil
			}
			o.Executions++
			o.Outcome, o.Detail, o.Reference = executed, "", newReference(key.service)
			return nil
		})
		if err != nil {
			return result, err
		}
	}
	if !happens.skipWork && settings.Idempotent && string(result.Body) != string(hash[:]) {
		return result, errKeyReused
	}
	return result, nil
}

// tell is what a queryable service knows of a key. 404 with the code absent is certain: no request with this key is
// under way, and none that came was executed or declined.
func (s *Sandbox) tell(w http.ResponseWriter, r *http.Request, service string) {
	if !s.settingsOf(service).Queryable {
		problem{http.StatusNotFound, "not_queryable", "This service does not tell."}.write(w)
		return
	}
	key := opKey{service, r.PathValue("key")}
	// In this order: a request that ends between the two looks has left its outcome.
	underWay := s.isUnderWay(key)
	o, _, err := s.store.read(key)
	switch {
	case err != nil:
		s.log.ErrorContext(r.Context(), "the sandbox's store does not work", "error", err)
		problem{http.StatusInternalServerError, "store", "The store does not work."}.write(w)
	case o.Outcome != "":
		answer(w, http.StatusOK, o.public())
	case underWay:
		answer(w, http.StatusAccepted, map[string]string{"idempotency_key": key.key, "outcome": "in_progress"})
	default:
		problem{http.StatusNotFound, "absent", "Nothing was done for this key."}.write(w)
	}
}

// public leaves out what is the store's own.
func (o Operation) public() Operation {
	o.Body, o.Place = nil, nil
	return o
}
