package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"

	"orderonce"
	"orderonce/internal/fault"
	"orderonce/internal/httpapi/internal/contract"
	"orderonce/internal/idempotency"
	"orderonce/internal/identity"
)

// operation is what the door knows of one operation, read once from the spec.
type operation struct {
	id        string
	pattern   string              // of http.ServeMux, such as "POST /orders"
	route     *routers.Route      // where the specification has it
	scope     string              // x-required-scope; empty for public operations
	policy    *idempotency.Policy // x-idempotency; nil for operations without a key
	body      *openapi3.Schema    // of application/json; nil for operations without a body
	media     []string            // of the body
	rules     *contract.Body      // of the body's schema
	rows      *rowRules           // of a body that is judged row by row; nil for all others
	maxBody   int64               // x-max-body, in bytes; 0 where the server's setting is all
	transport []string            // the body's members that x-fingerprint excludes

	parameters []*contract.Parameter // but the key: idempotency.ParseKey is its judge
}

// specification is the contract with its operations.
type specification struct {
	doc        *openapi3.T
	operations []*operation
	apiVersion string // of a request that names none
}

// loadSpecification reads the contract and refuses one whose promises the server could not keep: a mutating operation
// without an idempotency policy or a stated exemption, a private operation without a scope.
func loadSpecification(ctx context.Context, source []byte) (*specification, error) {
	defineFormats()
	doc, err := openapi3.NewLoader().LoadFromData(source)
	if err != nil {
		return nil, fmt.Errorf("read the specification: %w", err)
	}
	if err := doc.Validate(ctx); err != nil {
		return nil, fmt.Errorf("the specification: %w", err)
	}
	s := &specification{doc: doc}
	version := doc.Components.Parameters["ApiVersion"]
	if version == nil || version.Value.Schema.Value.Default != doc.Info.Version {
		return nil, errors.New("the specification: the default of API-Version is not its own version")
	}
	s.apiVersion = doc.Info.Version
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			route := &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: op}
			o, err := readOperation(route)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			s.operations = append(s.operations, o)
		}
	}
	if err := s.checkRetention(); err != nil {
		return nil, err
	}
	for _, kind := range fault.Kinds() {
		if s.problemSchema(kind) == nil {
			return nil, fmt.Errorf("the specification has no problem schema for %s", kind)
		}
	}
	return s, nil
}

// defineFormats tells kin-openapi, once for the process, what the names of formats mean here: its own UUIDs are those
// of RFC 4122 alone, without version 7, and the examples of the specification have some.
var defineFormats = sync.OnceFunc(func() {
	for name, is := range contract.Formats {
		openapi3.DefineStringFormatValidator(name, openapi3.NewCallbackValidator(is))
	}
})

func readOperation(route *routers.Route) (*operation, error) {
	op := route.Operation
	o := &operation{id: op.OperationID, pattern: route.Method + " " + route.Path, route: route}
	if o.id == "" {
		return nil, errors.New("has no operationId")
	}
	if op.Responses.Default() == nil {
		return nil, errors.New("has no default problem response")
	}
	o.scope, _ = op.Extensions["x-required-scope"].(string)
	public := op.Security != nil && len(*op.Security) == 0
	if public == (o.scope != "") {
		return nil, errors.New("must have x-required-scope, or an empty security where it is public")
	}
	if !public && !slices.Contains(identity.Scopes(), o.scope) {
		return nil, fmt.Errorf("x-required-scope: no key can hold %q", o.scope)
	}
	op.Parameters = append(op.Parameters, route.PathItem.Parameters...)
	if err := o.compile(); err != nil {
		return nil, err
	}
	return o, o.readPolicy()
}

// compile makes the rules that requests are held to.
func (o *operation) compile() error {
	op := o.route.Operation
	for _, p := range op.Parameters {
		if p.Value.Name == keyHeader {
			continue
		}
		rules, err := contract.CompileParameter(p.Value)
		if err != nil {
			return err
		}
		o.parameters = append(o.parameters, rules)
	}
	if op.RequestBody == nil {
		return nil
	}
	schema := op.RequestBody.Value.Content["application/json"].Schema
	o.body = schema.Value
	for name, property := range o.body.Properties {
		if property.Value.Extensions["x-fingerprint"] == "exclude" {
			o.transport = append(o.transport, name)
		}
	}
	o.media = slices.Sorted(maps.Keys(op.RequestBody.Value.Content))
	var err error
	o.rules, err = contract.CompileBody(
		schema, "paths", o.route.Path, strings.ToLower(o.route.Method), "requestBody", "content", "application/json", "schema")
	if err != nil {
		return err
	}
	if o.rows, err = compileRows(o.body, o.rules); err != nil {
		return err
	}
	if o.rows == nil && len(o.media) > 1 {
		return errors.New("only a body of rows may have another media type than application/json")
	}
	if text, is := op.Extensions["x-max-body"].(string); is {
		number, ok := strings.CutSuffix(text, "MiB")
		n, err := strconv.ParseInt(number, 10, 32)
		if !ok || err != nil || n <= 0 {
			return fmt.Errorf("x-max-body: %q is no size in MiB, such as 16MiB", text)
		}
		o.maxBody = n << 20
	}
	return nil
}

func (o *operation) readPolicy() error {
	op := o.route.Operation
	extension, keyed := op.Extensions["x-idempotency"].(map[string]any)
	if !keyed {
		reason, _ := op.Extensions["x-idempotency-exempt"].(string)
		if mutating(o.route.Method) && strings.TrimSpace(reason) == "" {
			return errors.New("changes something and has neither x-idempotency nor x-idempotency-exempt with a reason")
		}
		return nil
	}
	policy, err := idempotency.ParsePolicy(extension)
	if err != nil {
		return err
	}
	if p := op.Parameters.GetByInAndName(openapi3.ParameterInHeader, keyHeader); p == nil || !p.Required {
		return errors.New("has x-idempotency but does not require the " + keyHeader + " header")
	}
	if op.Parameters.GetByInAndName(openapi3.ParameterInHeader, "API-Version") == nil {
		return errors.New("has x-idempotency but not the API-Version header, which is a part of the fingerprint")
	}
	o.policy = &policy
	return nil
}

// policyOf is the policy of a keyed operation, and nil for any other name.
func (s *specification) policyOf(operation string) *idempotency.Policy {
	for _, o := range s.operations {
		if o.id == operation {
			return o.policy
		}
	}
	return nil
}

// Policy is what the contract promises about the keys of an operation, and about its tasks where it accepts some.
func Policy(ctx context.Context, operation string) (idempotency.Policy, error) {
	spec, err := loadSpecification(ctx, orderonce.OpenAPI)
	if err != nil {
		return idempotency.Policy{}, err
	}
	policy := spec.policyOf(operation)
	if policy == nil {
		return idempotency.Policy{}, fmt.Errorf("%s takes no key", operation)
	}
	return *policy, nil
}

func mutating(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

// checkRetention refuses a retention that ends while a published retry window is still open: the late retry would be
// taken for a new request.
func (s *specification) checkRetention() error {
	windows, _ := s.doc.Extensions["x-retry-windows"].(map[string]any)
	if len(windows) == 0 {
		return errors.New("the specification publishes no x-retry-windows")
	}
	for name, value := range windows {
		text, _ := value.(string)
		window, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("x-retry-windows: %s: %w", name, err)
		}
		for _, o := range s.operations {
			if o.policy != nil && o.policy.Retention <= window {
				return fmt.Errorf("%s forgets keys after %s, but retries may come for %s (%s)", o.id, o.policy.Retention, window, name)
			}
		}
	}
	return nil
}

// problemSchema is the contract's schema of a problem code; its description is what the code means.
func (s *specification) problemSchema(kind fault.Kind) *openapi3.Schema {
	for name, schema := range s.doc.Components.Schemas {
		if !strings.HasPrefix(name, "Problem") || len(schema.Value.AllOf) != 2 {
			continue
		}
		code := schema.Value.AllOf[1].Value.Properties["code"]
		if code != nil && len(code.Value.Enum) == 1 && code.Value.Enum[0] == kind.String() {
			return schema.Value
		}
	}
	return nil
}

// KeyedOperations are the operations that take an idempotency key.
func KeyedOperations(ctx context.Context) (ids []string, err error) {
	spec, err := loadSpecification(ctx, orderonce.OpenAPI)
	if err != nil {
		return nil, err
	}
	for _, o := range spec.operations {
		if o.policy != nil {
			ids = append(ids, o.id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}
