package contract

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Parameter is what the contract says of a value in the path, the query or a header. It is safe for concurrent use.
type Parameter struct {
	Name     string
	In       string // "path", "query" or "header"
	Place    string // as problems name it: "{orderId}", "?status", "API-Version"
	Format   string
	Required bool
	Default  string // empty where there is none

	rule rule
	bits int // of an integer
}

// CompileParameter makes the rules of a parameter. It refuses one that is not a single plain value.
func CompileParameter(p *openapi3.Parameter) (*Parameter, error) {
	c := &Parameter{Name: p.Name, In: p.In, Place: p.Name, Required: p.Required}
	switch p.In {
	case openapi3.ParameterInPath:
		c.Place = "{" + p.Name + "}"
	case openapi3.ParameterInQuery:
		c.Place = "?" + p.Name
	case openapi3.ParameterInHeader:
	default:
		return nil, fmt.Errorf("%s: no rule for a parameter in a %s", c.Place, p.In)
	}
	if err := c.compile(p); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Place, err)
	}
	return c, nil
}

func (p *Parameter) compile(from *openapi3.Parameter) error {
	err := onlyAmong("", from, "name", "in", "required", "schema", "description", "example", "examples", "deprecated")
	if err != nil {
		return err
	}
	if from.Schema == nil {
		return errors.New("has no schema")
	}
	if p.rule, err = (&compiler{}).compile("schema", from.Schema); err != nil {
		return err
	}
	switch r := p.rule.(type) {
	case *text, boolean:
	case *integer:
		p.bits = r.bits
	default:
		return errors.New("no rule for a parameter that is not one string, integer or boolean")
	}
	p.Format = from.Schema.Value.Format
	standard, err := standardOf(p.rule, from.Schema.Value.Default)
	switch {
	case err != nil:
		return fmt.Errorf("default: %w", err)
	case standard != nil && (p.Required || p.In == openapi3.ParameterInPath):
		return errors.New("default: it is required")
	case standard != nil:
		p.Default = fmt.Sprint(standard)
	}
	return nil
}

// Check is what is wrong with a value as it was sent, in words without it, and empty where nothing is.
func (p *Parameter) Check(sent string) (reason string) {
	if strings.IndexByte(sent, 0) >= 0 {
		return "contains NUL"
	}
	var r report
	switch rule := p.rule.(type) {
	case *text:
		rule.judge(&r, sent)
	case *integer:
		n, err := strconv.ParseInt(sent, 10, p.bits)
		if err != nil {
			return "cannot be read"
		}
		rule.check(&r, n)
	case boolean:
		if _, err := strconv.ParseBool(sent); err != nil {
			return "cannot be read"
		}
	}
	if len(r.faults) > 0 {
		return r.faults[0].Reason
	}
	return ""
}
