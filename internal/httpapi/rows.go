package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"orderonce/internal/fault"
	"orderonce/internal/httpapi/internal/contract"
	"orderonce/internal/idempotency"
	"orderonce/internal/imports"
)

// Some bodies are an array of thousands of rows. They are decoded and judged row by row, and never held whole: what is left
// of a row is what its task keeps, and its part of the fingerprint.

const ndjson = "application/x-ndjson"

// rowRules is what the contract says of such a body.
type rowRules struct {
	member   string           // of the body: the array that has x-rows
	schema   openapi3.Schemas // of all members
	envelope *contract.Body   // the body, whatever its rows are
	item     *contract.Body   // one of them
	most     int              // how many there may be
}

// compileRows finds the array of a body that has x-rows.
func compileRows(schema *openapi3.Schema, whole *contract.Body) (*rowRules, error) {
	for name, property := range schema.Properties {
		if property.Value.Extensions["x-rows"] != true {
			continue
		}
		if property.Value.MaxItems == nil {
			return nil, fmt.Errorf("%s: x-rows needs maxItems", name)
		}
		envelope, item, err := whole.Rows(name)
		if err != nil {
			return nil, err
		}
		return &rowRules{
			member: name, schema: schema.Properties, envelope: envelope, item: item, most: int(*property.Value.MaxItems), //nolint:gosec // a limit of the contract
		}, nil
	}
	return nil, nil //nolint:nilnil // a body like any other
}

const (
	// intakes is how many bodies of rows a process takes in at once, and intakesOfTenant how many of them are one tenant's:
	// each may take some MiB, for as long as its client takes to send it.
	intakes, intakesOfTenant = 16, 4
)

// crowd counts the bodies of rows that are coming in, by tenant.
type crowd struct {
	mu  sync.Mutex
	all int
	of  map[uuid.UUID]int
}

func (c *crowd) enter(tenant uuid.UUID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= intakes || c.of[tenant] >= intakesOfTenant {
		return &fault.Error{Kind: fault.Busy, Detail: "Too many large bodies at once.", RetryAfter: shed}
	}
	if c.of == nil {
		c.of = map[uuid.UUID]int{}
	}
	c.all++
	c.of[tenant]++
	return nil
}

func (c *crowd) leave(tenant uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.of[tenant]--; c.of[tenant] == 0 {
		delete(c.of, tenant)
	}
}

// takeIn has a body of rows read, judged and packed as it comes.
func (s *Server) takeIn(w http.ResponseWriter, r *http.Request, c *call, limit int64) (*intake, error) {
	if err := s.crowd.enter(c.principal.Tenant); err != nil {
		return nil, err
	}
	defer s.crowd.leave(c.principal.Tenant)
	in := c.operation.rows.intake(s.config.MaxBody)
	return in, c.operation.receive(w, r, limit, s.config.BodyRead, in.read)
}

// intake is a body of rows as it comes in.
type intake struct {
	rows  *rowRules
	limit int64 // bytes of one row
	print *idempotency.Rows
	input *imports.Input
	n     int
	other map[string]any // the members that are no rows
}

func (r *rowRules) intake(limit int64) *intake {
	return &intake{rows: r, limit: limit, print: idempotency.NewRows(), input: &imports.Input{}, other: map[string]any{}}
}

// read takes the whole body in. It returns fault.InvalidRequest for what cannot be read, be it one row of it.
func (in *intake) read(media string, body io.Reader) error {
	read := in.document
	if media == ndjson {
		read = in.lines
	}
	if err := read(body); err != nil {
		return err
	}
	return in.input.End()
}

func (in *intake) document(body io.Reader) error {
	d := decoder{in: jsontext.NewDecoder(body, jsontext.AllowDuplicateNames(true))}
	if d.in.PeekKind() != '{' {
		// What it is instead, the contract's words for it will say.
		return in.notAnObject(d)
	}
	if _, err := d.in.ReadToken(); err != nil {
		return d.broken(err)
	}
	for d.in.PeekKind() != '}' {
		t, err := d.in.ReadToken()
		if err != nil {
			return d.broken(err)
		}
		name, err := d.text(t)
		if err != nil {
			return err
		}
		if _, twice := in.other[name]; twice {
			return d.refuse("is there twice")
		}
		if in.other[name], err = in.value(d, name); err != nil {
			return err
		}
	}
	if _, err := d.in.ReadToken(); err != nil {
		return d.broken(err)
	}
	return d.end()
}

// value reads a member. The rows leave nothing of themselves but how many they are.
func (in *intake) value(d decoder, name string) (any, error) {
	if name != in.rows.member || d.in.PeekKind() != '[' {
		d.until = d.in.InputOffset() + in.limit
		value, err := d.value(1)
		if errors.Is(err, errTooLong) {
			return nil, tooLarge(in.limit)
		}
		return value, err
	}
	if _, err := d.in.ReadToken(); err != nil {
		return nil, d.broken(err)
	}
	for d.in.PeekKind() != ']' {
		d.until = d.in.InputOffset() + in.limit
		row, err := d.value(2)
		if errors.Is(err, errTooLong) {
			return nil, in.rowTooLarge()
		}
		if err != nil {
			return nil, err
		}
		if err := in.add(row); err != nil {
			return nil, err
		}
	}
	_, err := d.in.ReadToken()
	return make([]any, in.n), d.broken(err)
}

// notAnObject keeps a document that has no members for the envelope's rules to judge.
func (in *intake) notAnObject(d decoder) error {
	d.until = in.limit
	value, err := d.value(0)
	if errors.Is(err, errTooLong) {
		return tooLarge(in.limit)
	}
	if err != nil {
		return err
	}
	if err := d.end(); err != nil {
		return err
	}
	fields := in.rows.envelope.Check(value)
	return &fault.Error{Kind: fault.ValidationFailed, Fields: fields}
}

// lines reads one row a line. Empty lines are none.
func (in *intake) lines(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 64<<10), int(in.limit))
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		row, err := decode(lines.Bytes())
		if err != nil {
			return in.inRow(err)
		}
		if err := in.add(row); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return in.rowTooLarge()
	}
	in.other[in.rows.member] = make([]any, in.n)
	return lines.Err()
}

// add judges a row and keeps it. Past the number that there may be they are only counted.
func (in *intake) add(row any) error {
	if in.n++; in.n > in.rows.most {
		return nil
	}
	faults := in.rows.item.Check(row)
	if err := in.print.Add(row); err != nil {
		return err
	}
	return in.input.Add(row, faults)
}

// inRow says in which row a line's fault is.
func (in *intake) inRow(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	place := "/" + fault.PointerToken(in.rows.member) + "/" + strconv.Itoa(in.n)
	if len(f.Fields) == 0 {
		f.Fields = []fault.Field{{Reason: "is no JSON document of one line"}}
	}
	for i := range f.Fields {
		f.Fields[i].Pointer = place + f.Fields[i].Pointer
	}
	return f
}

func (in *intake) rowTooLarge() error {
	return fault.New(fault.BodyTooLarge, fmt.Sprintf("Row %d is larger than %d bytes.", in.n, in.limit))
}

// admit judges what is left of the body and takes it for parameters. A member that the body has not, and that is yes or
// no, may stand in the query: then it says the same as the body would.
func (in *intake) admit(c *call, query map[string]string) error {
	for name := range in.rows.schema {
		sent, there := query[name]
		if _, is := in.other[name]; there && !is {
			in.other[name], _ = strconv.ParseBool(sent) // the parameter's rule has read it already
		}
		delete(query, name)
	}
	if fields := in.rows.envelope.Check(in.other); len(fields) > 0 {
		return &fault.Error{Kind: fault.ValidationFailed, Fields: fields}
	}
	delete(in.other, in.rows.member)
	c.parameters.Query(query)
	if err := c.parameters.Body(in.other); err != nil {
		return err
	}
	c.parameters.Rows("/"+fault.PointerToken(in.rows.member), in.print)
	in.input.ReserveInventory, _ = in.other["reserve_inventory"].(bool)
	c.input = in.input
	return nil
}
