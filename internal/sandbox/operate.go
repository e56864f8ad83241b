package sandbox

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	pageSize = 100
	maxPage  = 1000
)

// overview lists all that can be seen and set.
func (s *Sandbox) overview(w http.ResponseWriter, _ *http.Request) {
	type shown struct {
		Settings
		Post []string `json:"post"`
	}
	all := map[string]shown{}
	for name, service := range services {
		one := shown{Settings: s.settingsOf(name)}
		for path := range service.paths {
			one.Post = append(one.Post, "/"+name+"/"+path)
		}
		all[name] = one
	}
	answer(w, http.StatusOK, map[string]any{
		"services": all, "faults": s.faults.list(), "clock": s.store.now(),
		"see": []string{
			"GET /executions?idempotency_key=KEY", "GET /executions?since=TIME", "GET /SERVICE/operations/KEY",
			"POST /faults", "DELETE /faults", "PUT /services/SERVICE", "POST /clock",
		},
	})
}

// executions tells the count of one key, or lists what any service knows.
func (s *Sandbox) executions(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if !query.Has("idempotency_key") {
		s.list(w, r, "executions", func(o Operation) bool { return query.Get("service") == "" || query.Get("service") == o.Service })
		return
	}
	key := query.Get("idempotency_key")
	for name := range services {
		if want := query.Get("service"); want != "" && want != name {
			continue
		}
		o, found, err := s.store.read(opKey{name, key})
		if err != nil {
			problem{http.StatusInternalServerError, "store", err.Error()}.write(w)
			return
		}
		if found {
			answer(w, http.StatusOK, o.public())
			return
		}
	}
	answer(w, http.StatusOK, map[string]any{"service": "", "idempotency_key": key, "executions": 0, "requests": 0})
}

// listOperations is what a queryable service has executed since a time.
func (s *Sandbox) listOperations(w http.ResponseWriter, r *http.Request, service string) {
	if !s.settingsOf(service).Queryable {
		problem{http.StatusNotFound, "not_queryable", "This service does not tell."}.write(w)
		return
	}
	s.list(w, r, "operations", func(o Operation) bool { return o.Service == service && o.Outcome != "" })
}

// list answers a page of what changed since a time, oldest change first, under a name. next is the page after it, where
// there is one.
func (s *Sandbox) list(w http.ResponseWriter, r *http.Request, name string, want func(Operation) bool) {
	from, limit, err := page(r)
	if err != nil {
		problem{http.StatusBadRequest, "invalid_parameter", err.Error()}.write(w)
		return
	}
	found, next, err := s.store.list(from, limit, want)
	if err != nil {
		problem{http.StatusInternalServerError, "store", err.Error()}.write(w)
		return
	}
	for i := range found {
		found[i] = found[i].public()
	}
	body := map[string]any{name: found}
	if next != nil {
		body["next"] = hex.EncodeToString(next)
	}
	answer(w, http.StatusOK, body)
}

func page(r *http.Request) (from []byte, limit int, err error) {
	query := r.URL.Query()
	limit = pageSize
	if query.Has("limit") {
		if limit, err = strconv.Atoi(query.Get("limit")); err != nil || limit < 1 || limit > maxPage {
			return nil, 0, fmt.Errorf("limit: must be between 1 and %d", maxPage)
		}
	}
	if query.Has("page") {
		from, err = hex.DecodeString(query.Get("page"))
		if err != nil {
			err = errors.New("page: is none that this service gave")
		}
		return from, limit, err
	}
	if query.Has("since") {
		since, err := time.Parse(time.RFC3339, query.Get("since"))
		if err != nil {
			return nil, 0, errors.New("since: must be a time such as 2026-01-02T03:04:05Z")
		}
		if since.Unix() > 0 {
			from = placeAt(since)
		}
	}
	return from, limit, nil
}

func (s *Sandbox) listFaults(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"faults": s.faults.list()})
}

// addFaults takes one rule, or a list of them, all or none.
func (s *Sandbox) addFaults(w http.ResponseWriter, r *http.Request) {
	var raw json.RawMessage
	rules := make([]Fault, 1)
	err := readJSON(w, r, &raw)
	if err == nil {
		strict := json.NewDecoder(bytes.NewReader(raw))
		strict.DisallowUnknownFields()
		if bytes.HasPrefix(raw, []byte("[")) {
			err = strict.Decode(&rules)
		} else {
			err = strict.Decode(&rules[0])
		}
	}
	for i := 0; err == nil && i < len(rules); i++ {
		err = rules[i].check()
	}
	if err != nil {
		problem{http.StatusBadRequest, "invalid_body", err.Error()}.write(w)
		return
	}
	added := []Fault{}
	for _, rule := range rules {
		rule, _ = s.faults.add(rule) // checked above
		added = append(added, rule)
	}
	answer(w, http.StatusCreated, map[string]any{"faults": added})
}

func (s *Sandbox) clearFaults(w http.ResponseWriter, _ *http.Request) {
	s.faults.clear()
	w.WriteHeader(http.StatusNoContent)
}

// changeService changes what the body names of a service's settings.
func (s *Sandbox) changeService(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("service")
	settings := s.settingsOf(name)
	err := readJSON(w, r, &settings)
	if err == nil {
		err = s.set(name, settings)
	}
	if err != nil {
		problem{http.StatusBadRequest, "invalid_body", err.Error()}.write(w)
		return
	}
	answer(w, http.StatusOK, settings)
}

// moveClock moves the services' time forward, for ever: what they remember grows older by as much.
func (s *Sandbox) moveClock(w http.ResponseWriter, r *http.Request) {
	var move struct {
		Advance Duration `json:"advance"`
	}
	err := readJSON(w, r, &move)
	if err == nil && move.Advance <= 0 {
		err = errors.New(`advance: must be a duration such as "48h"`)
	}
	if err == nil {
		err = s.store.advance(time.Duration(move.Advance))
	}
	if err != nil {
		problem{http.StatusBadRequest, "invalid_body", err.Error()}.write(w)
		return
	}
	answer(w, http.StatusOK, map[string]time.Time{"clock": s.store.now()})
}
