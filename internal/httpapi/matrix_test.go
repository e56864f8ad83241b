package httpapi

import (
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"orderonce/internal/httpapi/api"
	"orderonce/internal/identity"
)

// caller is one column of the matrix: a credential, and what it gets where it gets nothing.
type caller struct {
	name   string
	token  func(o *operation, server *world) string // empty for none
	status int                                      // 0 where the answer is the operation's own
	code   string
}

// matrix is a world with something of every kind to ask for.
type matrix struct {
	*world
	tenant    string // a customer's path below /ops, that may be changed
	principal api.Principal
}

// stage makes the thing that an operation is about, the caller's own tenant's, and returns its address and body.
func (m *matrix) stage(o *operation) (address, body string) {
	m.t.Helper()
	// What an operation before has closed is open again.
	m.exec(`UPDATE tenants SET active = true; UPDATE principals SET active = true;
		UPDATE webhook_subscriptions SET active = false, disabled_reason = 'requested'`) // which have a limit
	values := map[string]string{"{key}": freshKey(), "{orderId}": "", "{clientOrderId}": freshKey()}
	if strings.Contains(o.route.Path, "{orderId}") {
		values["{orderId}"] = strings.TrimPrefix(m.place(freshKey(), order()).header.Get("Location"), "/orders/")
	}
	if strings.Contains(o.route.Path, "{clientOrderId}") {
		wantMade(m.t, m.put(values["{clientOrderId}"], order()))
	}
	if strings.Contains(o.route.Path, "{apiKeyId}") {
		made := read[api.APIKey](m.t, m.change(freshKey(), "/ops/tenants/"+m.tenant+"/api-keys", map[string]any{
			"name": freshKey(), "principal_id": m.principal.Id, "scopes": []string{identity.OrdersRead},
		}), 201)
		values["{apiKeyId}"] = made.Id.String()
	}
	if strings.Contains(o.route.Path, "{taskId}") {
		values["{taskId}"] = m.failedTask()
	}
	if strings.Contains(o.route.Path, "{webhookId}") {
		values["{webhookId}"] = m.hook(freshKey(), "t"+freshKey()).Id.String()
	}
	values["{tenantId}"], values["{principalId}"] = m.tenant, m.principal.Id.String()
	if strings.Contains(o.route.Path, "{effectId}") {
		tenant, effect, _ := strings.Cut(strings.TrimPrefix(m.effect(m.world.tenant, uuid.New(), "needs_human"), "/ops/tenants/"), "/effects/")
		values["{tenantId}"], values["{effectId}"] = tenant, effect
	}
	address = o.route.Path
	for name, value := range values {
		address = strings.ReplaceAll(address, name, value)
	}
	if o.id == "getIdempotencyKey" {
		address += "?operation=createOrder"
	}
	if o.body != nil {
		var members map[string]any
		m.must(json.Unmarshal([]byte(bodyFor(o)), &members)) // of rows too: no other has these names
		for name, value := range map[string]any{"name": "t" + freshKey(), "principal_id": m.principal.Id} {
			if _, takes := members[name]; takes {
				members[name] = value
			}
		}
		text, err := json.Marshal(members)
		m.must(err)
		body = string(text)
	}
	return address, body
}

// Every private operation, asked with every kind of credential, by a server that remembers it and by one that has never
// seen it. Who may not is told so and nothing else, and changes nothing; who asks from another tenant finds nothing.
func TestMatrixOfOperationsAndCallers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	path, principal := w.customer("initech")
	m := &matrix{w, strings.TrimPrefix(path, "/ops/tenants/"), principal}
	fresh := w.beside()

	mint := func(tenant, name string, scopes ...string) string {
		_, token := w.principal(tenant, name, scopes...)
		return token
	}
	// ended is a key of either side that a server remembers, if it is to, and that was ended since.
	ended := func(name, column string) func(o *operation, server *world) string {
		tokens := map[bool]string{false: mint("acme", name, scopesOf(false)...), true: mint("operations", name, scopesOf(true)...)}
		set := "UPDATE api_keys k SET " + column + " = %s FROM principals p WHERE p.id = k.principal_id AND p.name = '" + name + "'"
		return func(o *operation, server *world) string {
			ops := identity.ForOperators(o.scope)
			if server == w {
				w.exec(fmt.Sprintf(set, "NULL"))
				if a := w.get(map[bool]string{false: "/orders", true: "/ops/tenants"}[ops], as(tokens[ops])); a.status != 200 {
					t.Fatalf("%s: %d %s", name, a.status, a.body)
				}
			}
			w.exec(fmt.Sprintf(set, "now()"))
			return tokens[ops]
		}
	}
	without := map[string]string{}
	for _, scope := range identity.Scopes() {
		ops := identity.ForOperators(scope)
		tenant := map[bool]string{false: "acme", true: "operations"}[ops]
		rest := slices.DeleteFunc(scopesOf(ops), func(s string) bool { return s == scope })
		without[scope] = mint(tenant, "without-"+strings.ReplaceAll(scope, ":", "-"), rest...)
	}
	globex := mint("globex", "shop", identity.TenantScopes()...)
	colleague := map[bool]string{
		false: mint("acme", "colleague", identity.TenantScopes()...), true: mint("operations", "colleague", scopesOf(true)...),
	}
	always := func(token func(o *operation) string) func(*operation, *world) string {
		return func(o *operation, _ *world) string { return token(o) }
	}
	callers := []caller{
		{"no credential", always(func(*operation) string { return "" }), 401, "unauthenticated"},
		{"a wrong secret", always(func(o *operation) string { return forged(w.tokenFor(o)) }), 401, "unauthenticated"},
		{"an expired key", ended("expired", "expires_at"), 401, "unauthenticated"},
		{"a revoked key", ended("revoked", "revoked_at"), 401, "unauthenticated"},
		{"a key without the scope", always(func(o *operation) string { return without[o.scope] }), 403, "forbidden"},
		{"another tenant", always(func(*operation) string { return globex }), 0, ""},
		{"another principal", always(func(o *operation) string { return colleague[identity.ForOperators(o.scope)] }), 0, ""},
		{"the right key", always(w.tokenFor), 0, ""},
	}
	for _, o := range w.server.spec.operations {
		if o.scope == "" {
			continue
		}
		for _, c := range callers {
			for name, server := range map[string]*world{"remembering": w, "fresh": fresh} {
				address, body := m.stage(o)
				token := c.token(o, server)
				before := w.rows()
				a := server.askAs(o, address, body, token)
				status, code := c.status, c.code
				if status == 0 {
					status, code = expected(o, c.name)
				}
				if a.status != status || a.Code != code {
					t.Errorf("%s with %s, a %s server: got %d %s, want %d %s: %s", o.id, c.name, name, a.status, a.Code, status, code, a.body)
				}
				if after := w.rows(); a.status >= 400 && after != before {
					t.Errorf("%s with %s, a %s server: refused, and left %+v of %+v", o.id, c.name, name, after, before)
				}
			}
		}
	}
}

func scopesOf(ops bool) []string {
	return slices.DeleteFunc(identity.Scopes(), func(scope string) bool { return identity.ForOperators(scope) != ops })
}

// expected is what a caller gets whom the operation is open to, or another tenant's who finds nothing there.
func expected(o *operation, caller string) (status int, code string) {
	if caller == "another tenant" {
		switch {
		case identity.ForOperators(o.scope):
			return 403, "forbidden"
		case o.id == "getOrder" || o.id == "cancelOrder" || o.id == "getClientOrder" ||
			o.id == "getTask" || o.id == "listTaskResults" || o.id == "retryTask" || strings.Contains(o.route.Path, "{webhookId}"):
			return 404, "not_found"
		case o.id == "putOrder":
			return 201, "" // the name is free in that tenant
		}
	}
	switch o.id {
	case "createOrder", "createTenant", "createPrincipal", "createAPIKey", "rotateAPIKey", "createWebhook":
		return 201, ""
	case "importOrders", "retryTask":
		return 202, ""
	}
	return 200, ""
}

// askAs sends an operation's request with this credential alone.
func (w *world) askAs(o *operation, address, body, token string) answer {
	w.t.Helper()
	options := []option{with("Authorization")}
	if token != "" {
		options = []option{as(token)}
	}
	if o.policy != nil {
		options = append(options, with(keyHeader, freshKey()))
	}
	if o.body == nil {
		return w.send(o.route.Method, address, nil, options...)
	}
	return w.send(o.route.Method, address, strings.NewReader(body), append(options, with("Content-Type", "application/json"))...)
}

// forged is a well-formed key with another one's id, as who has seen only the id could make it.
func forged(token string) string {
	parts := strings.Split(token, "_")
	body := strings.Join(append(parts[:3:3], strings.Repeat("a", len(parts[3]))), "_")
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(body)))
	return body + "_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum))
}
